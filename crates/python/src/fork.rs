//! Forks: the objects of a process are of no use to its child.
//!
//! A child by fork has neither the memory nor the connections of its parent. `os.fork` counts the
//! forks of this line of processes; an object of an earlier count is refused. A fork beside Python
//! is found by the crate m3ipc itself, with a less exact text.

use crate::error::Fault;
use core::sync::atomic::{AtomicU32, Ordering};
use m3ipc::Code;
use pyo3::pyfunction;

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Counts a fork, in its child. The package registers it with `os.register_at_fork`.
#[pyfunction]
pub fn _after_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The process that made an object.
#[derive(Clone, Copy, Debug)]
pub struct Birth(u32);

impl Birth {
    /// This process.
    pub fn now() -> Self {
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Fails in a child of that process.
    pub fn check(self, what: &str) -> Result<(), Fault> {
        if self.0 == FORKS.load(Ordering::Relaxed) {
            return Ok(());
        }
        let text = format!(
            "this {what} belongs to the parent process, and a fork shares none; make one in the \
             child, or start children with subprocess or multiprocessing's \"spawn\""
        );
        Err(Fault { op: "fork", code: Code::NotBind, text, peer: None, taken: None })
    }
}
