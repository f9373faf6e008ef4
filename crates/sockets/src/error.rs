//! The error of the socket calls: a number of errno(3), and its cause in words.

use m3ipc_sys::Errno;

/// A failed socket call: its POSIX number and its cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SockError {
    errno: Errno,
    why: String,
}

impl SockError {
    pub(crate) fn new(errno: Errno, why: impl Into<String>) -> Self {
        Self { errno, why: why.into() }
    }

    /// The number.
    #[must_use]
    pub fn errno(&self) -> Errno {
        self.errno
    }

    /// The number as an integer.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.errno.raw_os_error()
    }
}

impl core::fmt::Display for SockError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} ({})", self.why, self.errno)
    }
}

impl std::error::Error for SockError {}

impl m3ipc::ErrorNumber for SockError {
    fn number(&self) -> i32 {
        self.errno.raw_os_error()
    }
}

impl From<Errno> for SockError {
    fn from(errno: Errno) -> Self {
        Self::new(errno, "the kernel refused the call")
    }
}

/// Keeps the number. The words are lost, since an [`std::io::Error`] of the system has none.
impl From<SockError> for std::io::Error {
    fn from(error: SockError) -> Self {
        error.errno.into()
    }
}

/// Keeps the number alone.
impl From<SockError> for Errno {
    fn from(error: SockError) -> Self {
        error.errno
    }
}
