//! The end of the interpreter beside threads that are in a call.
//!
//! A daemon thread whose call ends then must not touch Python again: the interpreter ends such a
//! thread by force, which runs no destructor of Rust, or has freed what the thread would use. The
//! thread waits for the end of the process instead, as Python does from 3.14 on.
#![allow(unsafe_code)]

use pyo3::ffi;
use pyo3::prelude::*;

/// Runs a call without the interpreter lock.
pub fn detach<R: Send>(py: Python<'_>, call: impl FnOnce() -> R + Send) -> R {
    // The thread that ends the interpreter makes calls too, as of finalizers. It goes on.
    let was_over = is_over();
    py.detach(|| {
        let made = call();
        while is_over() && !was_over {
            std::thread::park();
        }
        made
    })
}

/// Whether the interpreter ends or has ended.
fn is_over() -> bool {
    // SAFETY: any thread may ask at any time.
    unsafe { ffi::Py_IsInitialized() == 0 }
}
