//! Whether this process has limited its own system calls (seccomp): the library is off then.

use crate::kernel::file::File;
use crate::kernel::process;
use core::sync::atomic::{AtomicBool, Ordering};

/// Whether the process has limited its system calls.
static ARE_ON: AtomicBool = AtomicBool::new(false);

/// Whether bytes lay in any ring at that moment.
static HAS_LEFT: AtomicBool = AtomicBool::new(false);

/// Bytes of `/proc/self/status` that are read; the filters are among its first lines.
const STATUS_BYTES: usize = 4096;

/// Whether the process has limited its system calls.
#[inline]
#[must_use]
pub fn are_on() -> bool {
    ARE_ON.load(Ordering::Relaxed)
}

/// Says whether the process has limited its system calls.
pub fn set(on: bool) {
    ARE_ON.store(on, Ordering::SeqCst);
}

/// Says that bytes lie in a ring that this process will still receive.
pub fn note_left() {
    HAS_LEFT.store(true, Ordering::SeqCst);
}

/// Whether the process has limited its system calls, and had bytes in a ring at that moment: the
/// kernel does not know of them.
#[inline]
#[must_use]
pub fn has_left() -> bool {
    are_on() && HAS_LEFT.load(Ordering::Relaxed)
}

/// Filters on the system calls of this process: more than zero in strict mode, too.
///
/// # Source
/// proc_pid_status(5): `Seccomp` (the mode), `Seccomp_filters`
#[must_use]
pub fn filters() -> u32 {
    let mut room = [0_u8; STATUS_BYTES];
    let length = File::open(c"/proc/self/status").map_or(0, |file| file.read(&mut room));
    let text = core::str::from_utf8(room.get(..length).unwrap_or(&[])).unwrap_or("");
    filters_in(text)
}

/// The value of a line of `/proc/self/status`.
fn value_in(status: &str, name: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().parse().ok()
}

fn filters_in(status: &str) -> u32 {
    match value_in(status, "Seccomp:") {
        None | Some(0) => 0,
        Some(mode) => value_in(status, "Seccomp_filters:").unwrap_or(mode).max(1),
    }
}

/// Whether this process has one thread alone; `false` where the system does not tell.
///
/// # Source
/// unshare(2): `CLONE_VM` has no effect on such a process, and fails in any other
#[must_use]
pub fn is_single_threaded() -> bool {
    process::has_memory_alone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_the_filters() {
        let text = "Name:\tx\nNoNewPrivs:\t0\nSeccomp:\t2\nSeccomp_filters:\t3\n";
        assert_eq!(filters_in(text), 3);
        assert_eq!(filters_in("Seccomp:\t1\nSeccomp_filters:\t0\n"), 1, "strict mode");
        assert_eq!(filters_in("Seccomp:\t2\n"), 2, "an old kernel does not count");
        assert_eq!((filters_in("Seccomp:\t0\nSeccomp_filters:\t0\n"), filters_in("")), (0, 0));
    }

    #[test]
    fn the_kernel_tells_the_threads() {
        // This thread, and that of the harness.
        std::thread::spawn(|| assert!(!is_single_threaded())).join().unwrap();
    }
}
