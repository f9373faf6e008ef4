//! The log: lines on standard error, of which each source causes a few.

use m3ipc_sys::{LineLimits, LineVerdict};
use std::sync::{LazyLock, Mutex, PoisonError};

/// The source of lines about connections that no certificate has named yet.
pub const STRANGERS: &str = "strangers";

/// Whether a line that this source caused may be written: a node by its name, or [`STRANGERS`]. The
/// first line that is left out is announced.
#[must_use]
pub fn admits(source: &str) -> bool {
    static LIMITS: LazyLock<Mutex<LineLimits<String>>> = LazyLock::new(Mutex::default);
    let verdict = {
        let mut limits = LIMITS.lock().unwrap_or_else(PoisonError::into_inner);
        limits.verdict(source.to_owned(), m3ipc_sys::monotonic_ns())
    };
    if verdict == LineVerdict::Last {
        m3ipc_sys::report!("m3-proxy: too many lines about {source}; some are left out");
    }
    verdict == LineVerdict::Write
}

/// Writes a line that a source caused, unless it caused too many.
macro_rules! say {
    ($source:expr, $($text:tt)*) => {
        if $crate::log::admits($source) {
            m3ipc_sys::report!("m3-proxy: {}", format_args!($($text)*));
        }
    };
}

pub(crate) use say;
