//! The error of the last system call that rustix does not wrap.

use rustix::io::Errno;

/// The error of the last failed call of this thread; `INVAL` if there is none.
pub(crate) fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}
