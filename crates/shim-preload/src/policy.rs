//! The policy of this process: read once, before the program starts.

use crate::look::Name;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};
use m3ipc_shim::policy::Policy;

/// Bytes of a policy's line, and one more.
const ROOM: usize = 4096;

struct Kept {
    line: UnsafeCell<[u8; ROOM]>,
    policy: UnsafeCell<Option<Policy<'static>>>,
}

// Written by the constructor alone, while there is one thread and `READY` is false; read only after that.
unsafe impl Sync for Kept {}

static KEPT: Kept = Kept { line: UnsafeCell::new([0; ROOM]), policy: UnsafeCell::new(None) };
static READY: AtomicBool = AtomicBool::new(false);
static ASKS: AtomicBool = AtomicBool::new(false);

/// Takes the line (the environment may be overwritten later) for a program of this name.
///
/// A line that cannot be read is as good as `on=0`: what the user wanted to keep out must not come in.
pub unsafe fn take(line: &[u8], program: &str, user: u32) -> Option<&'static Policy<'static>> {
    let kept = &mut *KEPT.line.get();
    if line.len() >= ROOM {
        return None;
    }
    kept[..line.len()].copy_from_slice(line);
    let line: &'static [u8] = core::slice::from_raw_parts(kept.as_ptr(), line.len());
    let policy = Policy::read(core::str::from_utf8(line).ok()?).ok()?;
    if !policy.allows_program(program, user) {
        return None;
    }
    ASKS.store(policy.asks_for_names(), Ordering::Relaxed);
    let place = &mut *KEPT.policy.get();
    *place = Some(policy);
    READY.store(true, Ordering::Release);
    place.as_ref()
}

fn policy() -> Option<&'static Policy<'static>> {
    if !READY.load(Ordering::Acquire) {
        return None;
    }
    unsafe { (*KEPT.policy.get()).as_ref() }
}

/// Whether anything of this process may be upgraded.
pub fn on() -> bool {
    READY.load(Ordering::Relaxed)
}

/// The longest look before a call sleeps, in nanoseconds.
pub fn spin_ns() -> u64 {
    policy().map_or(0, |policy| u64::from(policy.settings.spin_ns))
}

/// Whether io_uring is to look as if the kernel had none.
pub fn refuses_uring() -> bool {
    policy().is_some_and(|policy| policy.refuse_uring)
}

/// Whether a connection between these two may be upgraded.
pub fn allows(near: &Name, far: &Name) -> bool {
    let Some(policy) = policy() else { return false };
    if !ASKS.load(Ordering::Relaxed) {
        return true;
    }
    match (near.port(), far.port()) {
        (Some(one), Some(other)) => policy.allows_ports(one, other),
        _ => policy.allows_path(near.path().or_else(|| far.path())),
    }
}
