//! Signal handlers of Python, which run outside of the signal.

use crate::interpreter::in_python;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

/// The exception of a handler that ended a wait.
#[derive(Clone, Debug, Default)]
pub struct Signals(Arc<Mutex<Option<PyErr>>>);

impl Signals {
    /// Runs the handlers of signals that came, and says whether one of them raised.
    pub fn hook(&self) -> impl FnMut() -> bool + Clone + Send + Sync + 'static {
        let raised = self.clone();
        move || {
            let checked = in_python(|| Python::try_attach(|py| py.check_signals()));
            match checked {
                // After the end of the interpreter a daemon thread waits for that of the process.
                None | Some(Ok(())) => false,
                Some(Err(error)) => {
                    raised.set(Some(error));
                    true
                }
            }
        }
    }

    /// Forgets the exception of an earlier call.
    pub fn clear(&self) {
        self.set(None);
    }

    /// Raises the exception. It goes before the result of the call during which the handler ran, as
    /// at any other place of a program.
    pub fn check(&self) -> PyResult<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    fn set(&self, error: Option<PyErr>) {
        let former =
            std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), error);
        // Its end may run Python code, which may come back here.
        drop(former);
    }
}
