//! How each call enters the endpoint, which is for one thread at a time.

use super::Endpoint;
use super::owned::Owned;
use crate::error::{Fault, busy, closed};
use crate::interpreter::detach;
use core::time::Duration;
use pyo3::prelude::*;

/// The pause between two looks at the call of another thread.
const LOOK_PAUSE: Duration = Duration::from_millis(1);

impl Endpoint {
    /// Makes a call without the interpreter lock.
    pub(super) fn enter<R: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Owned) -> Result<R, Fault> + Send,
    ) -> PyResult<R> {
        self.enter_after(py, 0, call)
    }

    /// The same. First awaits the end of another thread's call, with this many looks.
    pub(super) fn enter_after<R: Send>(
        &self,
        py: Python<'_>,
        looks: u32,
        call: impl FnOnce(&mut Owned) -> Result<R, Fault> + Send,
    ) -> PyResult<R> {
        self.birth.check("endpoint")?;
        let (made, raised) = detach(py, || {
            let mut locked = self.bound.try_lock();
            for _ in 0..looks {
                if locked.is_ok() {
                    break;
                }
                std::thread::sleep(LOOK_PAUSE);
                locked = self.bound.try_lock();
            }
            let Ok(mut bound) = locked else { return (Err(busy("endpoint")), Ok(())) };
            let Some(bound) = bound.as_mut() else { return (Err(closed("endpoint")), Ok(())) };
            self.signals.clear();
            (call(bound), self.signals.check())
        });
        raised?;
        Ok(made?)
    }

    /// Makes a call that never waits, and keeps the interpreter lock: a release costs more.
    pub(super) fn enter_quick<R>(
        &self,
        call: impl FnOnce(&mut Owned) -> Result<R, Fault>,
    ) -> PyResult<R> {
        self.birth.check("endpoint")?;
        let mut bound = self.bound.try_lock().map_err(|_| busy("endpoint"))?;
        call(bound.as_mut().ok_or_else(|| closed("endpoint"))?).map_err(PyErr::from)
    }
}
