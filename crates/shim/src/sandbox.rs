//! Programs that limit their own system calls (seccomp).
//!
//! From the moment of the limit on, the library makes no system call that the program did not make.
//! Before it, all sockets return to the kernel, and the library turns itself off for good. Bytes
//! that lie in a ring are still received: the library copies them, and takes their wakeup bytes by
//! read(2). It pins the sockets first, so no further bytes come.

use crate::exec::EXAMINED_MAX;
use crate::kernel::file::File;
use crate::pin::PinReason;
use crate::process::descriptors::{self, Entry};
use crate::process::{policy, vfork};
use crate::sockets;
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, Ordering};

/// Whether the process has limited its system calls.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// Bytes of `/proc/self/status` that are read; the filters are among its first lines.
const STATUS_BYTES: usize = 4096;

/// Whether the process has limited its system calls.
#[inline]
#[must_use]
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Before a call that limits the system calls of this process. The result goes to [`end`] after it.
#[must_use]
pub fn begin() -> bool {
    if !policy::is_on() {
        return false;
    }
    let in_child = vfork::in_child();
    for fd in 0..descriptors::top().max(EXAMINED_MAX) {
        let entry = descriptors::get(fd);
        if in_child {
            sockets::give_up(fd, PinReason::Sandbox);
        } else if matches!(entry, Entry::Unknown | Entry::New { .. } | Entry::Socket(_))
            && sockets::pin(fd, PinReason::Sandbox)
            && let Entry::Socket(_) = entry
        {
            descriptors::set_kept(fd, Entry::Pinned);
        }
    }
    if !in_child {
        IS_ON.store(true, Ordering::SeqCst);
    }
    !in_child
}

/// After the call: `failed` says that nothing was limited.
pub fn end(begun: bool, failed: bool) {
    if begun && failed {
        IS_ON.store(false, Ordering::SeqCst);
    }
}

/// Filters on the system calls of this process: more than zero in strict mode, too.
///
/// # Source
/// proc_pid_status(5): `Seccomp` (the mode), `Seccomp_filters`
#[must_use]
pub fn filters() -> u32 {
    let mut room = [0_u8; STATUS_BYTES];
    let path: &CStr = c"/proc/self/status";
    let length = File::open(path).map_or(0, |file| file.read(&mut room));
    let text = core::str::from_utf8(room.get(..length).unwrap_or(&[])).unwrap_or("");
    filters_in(text)
}

fn filters_in(status: &str) -> u32 {
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    match value("Seccomp:") {
        None | Some(0) => 0,
        Some(mode) => value("Seccomp_filters:").unwrap_or(mode).max(1),
    }
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
}
