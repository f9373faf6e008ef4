//! Time limits as Python has them: seconds, or `None` for no limit.

use core::time::Duration;
use m3ipc::Timeout;
use pyo3::PyResult;
use pyo3::exceptions::PyValueError;

/// Converts seconds.
pub fn of_seconds(seconds: Option<f64>) -> PyResult<Timeout> {
    match seconds {
        None => Ok(Timeout::Never),
        Some(0.0) => Ok(Timeout::NoWait),
        Some(limit) if limit > 0.0 => {
            // A limit beyond all time is none.
            Ok(Duration::try_from_secs_f64(limit).map_or(Timeout::Never, Timeout::After))
        }
        Some(limit) => {
            let text = format!("a timeout is at least 0 seconds or None, not {limit}");
            Err(PyValueError::new_err(text))
        }
    }
}
