//! Programs that limit their own system calls (seccomp).
//!
//! From the moment of the limit on, the library makes no system call that the program did not make.
//! Before it, all sockets return to the kernel, and the library turns itself off for good. Bytes
//! that lie in a ring are still received: the library copies them, and takes their wakeup bytes by
//! read(2). It pins the sockets first, so no further bytes come.
//!
//! The child of a vfork limits itself alone, before its exec. It returns the sockets that the next
//! program inherits; all others are its parent's.

use crate::connection::socket::Socket;
use crate::epoll::sets;
use crate::exec::is_inherited;
use crate::kernel::memory;
use crate::kernel::socket::shut_down;
use crate::memory::lock;
use crate::pin::PinReason;
use crate::process::descriptors::{self, EXAMINED_MAX, Entry};
use crate::process::{limits, policy, vfork};
use crate::sockets;

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
            if is_inherited(fd) && !sockets::give_up(fd, PinReason::Sandbox) {
                shut_down(fd);
            }
        } else if matches!(entry, Entry::Unknown | Entry::New { .. } | Entry::Socket(_)) {
            let is_empty = sockets::pin(fd, PinReason::Sandbox);
            if let Entry::Socket(id) = descriptors::get(fd) {
                Socket::new(fd, id).prepare_limited();
            }
            if !is_empty {
                limits::note_left();
            }
            if is_empty && let Entry::Socket(_) = entry {
                descriptors::set_kept(fd, Entry::Pinned);
            }
        }
    }
    if !in_child {
        lock::prepare_quiet();
        sets::keep_all_marks();
    }
    set(true);
    true
}

/// Says whether this process, or this child of a vfork, has limited its system calls.
fn set(on: bool) {
    if vfork::in_child() {
        vfork::set_limited(on);
    } else {
        memory::set_probing(!on);
        limits::set(on);
    }
}

/// After the call: `failed` says that nothing was limited.
pub fn end(begun: bool, failed: bool) {
    if begun && failed {
        set(false);
    }
}
