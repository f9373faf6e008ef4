//! The end of the interpreter beside threads that are in a call.
//!
//! Until Python 3.14 the interpreter ends a daemon thread by force, as soon as the thread waits for
//! the interpreter lock. Destructors of Rust would then run without the lock, or abort the process.
//! Such a thread waits for the end of the process instead, as Python does from 3.14 on.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// A frame that a thread does not leave by force.
struct Frame;

impl Drop for Frame {
    fn drop(&mut self) {
        // A panic leaves it, and is an exception of Python in the end.
        while !std::thread::panicking() {
            std::thread::park();
        }
    }
}

/// Runs code that may wait for the interpreter lock. While it waits, no frame of the code has an
/// object of Python: its destructor could run before that of [`Frame`].
pub fn in_python<R>(code: impl FnOnce() -> R) -> R {
    let frame = Frame;
    let result = code();
    std::mem::forget(frame);
    result
}

/// Calls a function of Python.
///
/// # Errors
/// Those of the function.
pub fn call<'py, A>(function: &Bound<'py, PyAny>, arguments: A) -> PyResult<Bound<'py, PyAny>>
where
    A: IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
{
    let arguments = arguments.into_pyobject(function.py())?;
    in_python(|| function.call1(&arguments))
}

/// Runs a call without the interpreter lock.
pub fn detach<R: Send>(py: Python<'_>, call: impl FnOnce() -> R + Send) -> R {
    // The thread that ends the interpreter makes calls too, as of finalizers. It goes on.
    let was_over = is_over();
    let mut made = None;
    in_python(|| {
        py.detach(|| {
            made = Some(call());
            // The state of the thread may be gone.
            while is_over() && !was_over {
                std::thread::park();
            }
        });
    });
    made.expect("the call was made")
}

/// Whether the interpreter ends or has ended.
#[allow(unsafe_code)]
fn is_over() -> bool {
    // SAFETY: any thread may ask at any time.
    unsafe { ffi::Py_IsInitialized() == 0 }
}
