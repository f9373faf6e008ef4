//! The policy of this process, which the constructor stores once.

use super::limits;
use crate::connection::address::SocketName;
use crate::kernel::process;
use crate::policy::Policy;
use std::sync::OnceLock;

/// Bytes of a policy's line, and one more.
const LINE_BYTES: usize = 4096;

/// The line: the program may overwrite its environment later.
static LINE: OnceLock<([u8; LINE_BYTES], usize)> = OnceLock::new();
static POLICY: OnceLock<ProcessPolicy> = OnceLock::new();

#[derive(Debug)]
struct ProcessPolicy {
    policy: Policy<'static>,
    needs_names: bool,
}

/// Stores the policy of a line for a program of this name. `None` where the program is left alone.
///
/// A line that cannot be read means `on=0`: the library must not do what the user wanted to forbid.
pub fn store(line: &[u8], program: &str, user: u32) -> Option<&'static Policy<'static>> {
    let mut kept = [0; LINE_BYTES];
    if line.len() >= LINE_BYTES {
        return None;
    }
    kept[..line.len()].copy_from_slice(line);
    let (kept, length) = LINE.get_or_init(|| (kept, line.len()));
    let policy = Policy::read(core::str::from_utf8(kept.get(..*length)?).ok()?).ok()?;
    if !policy.allows_program(program, user) {
        return None;
    }
    let needs_names = policy.asks_for_names();
    Some(&POLICY.get_or_init(|| ProcessPolicy { policy, needs_names }).policy)
}

/// Filters on system calls under which the policy of a line works.
#[must_use]
pub fn allowed_filters(line: &[u8]) -> u32 {
    let line = core::str::from_utf8(line).unwrap_or("");
    Policy::read(line).map_or(0, |policy| policy.filters)
}

/// Whether any socket of this process may be upgraded.
#[inline]
#[must_use]
pub fn is_on() -> bool {
    POLICY.get().is_some() && !limits::are_on()
}

/// The longest spin before a call sleeps, in nanoseconds.
#[must_use]
pub fn spin_ns() -> u64 {
    POLICY.get().map_or(0, |kept| u64::from(kept.policy.settings.spin_ns))
}

/// Whether any program that this process executes may load the library.
#[must_use]
pub fn has_children() -> bool {
    POLICY.get().is_some_and(|kept| kept.policy.has_children())
}

/// Whether an executed program with this file name loads the library.
#[must_use]
pub fn loads_into(name: &[u8]) -> bool {
    let name = core::str::from_utf8(name).unwrap_or("");
    POLICY.get().is_some_and(|kept| kept.policy.loads_into(name, process::user()))
}

/// Whether the process is told that there is no io_uring.
#[must_use]
pub fn refuses_uring() -> bool {
    POLICY.get().is_some_and(|kept| kept.policy.refuse_uring)
}

/// Whether a connection between these two names may be upgraded.
#[must_use]
pub fn allows(own: SocketName, peer: SocketName) -> bool {
    let Some(kept) = POLICY.get() else { return false };
    if !kept.needs_names {
        return true;
    }
    match (own.port(), peer.port()) {
        (Some(one), Some(other)) => kept.policy.allows_ports(one, other),
        _ => {
            let (own, peer) = (own.printable(), peer.printable());
            kept.policy.allows_path(own.path().or_else(|| peer.path()))
        }
    }
}
