//! A descriptor that members get, with its charge.

use crate::quota::Charge;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A descriptor of the daemon for members. It counts against a user until the last queue and table
/// has let go of it.
#[derive(Debug)]
pub(crate) struct MemberFd {
    fd: OwnedFd,
    _charges: Vec<Charge>,
}

impl MemberFd {
    pub(crate) fn charged(fd: impl Into<OwnedFd>, charges: Vec<Charge>) -> Self {
        Self { fd: fd.into(), _charges: charges }
    }
}

impl<F: Into<OwnedFd>> From<F> for MemberFd {
    /// A descriptor that counts with something else, or for a moment only.
    fn from(fd: F) -> Self {
        Self::charged(fd, Vec::new())
    }
}

impl AsFd for MemberFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
