//! The party of a copy, as its requester knows it: its gate, its process and its memory.

use super::side::Role;
use crate::endpoint::peer::Peer;
use crate::endpoint::peer_copies::Probe;
use crate::error::Fail;
use m3ipc_abi::Code;
use m3ipc_link::copy_gate::{self, NotParked};
use m3ipc_sys::{CopyTarget, Errno};

/// How long a process number counts as known, in ticks: about a millisecond. No system reuses all
/// its numbers in that time.
const KNOWN_TICKS: u64 = 1 << 21;

/// Begins a copy with a parked party.
#[inline]
pub(super) fn begin_copy(party: &Peer) -> Result<(), Fail> {
    copy_gate::begin_copy(party.link().peer_copy_gate()).map_err(|not| match not {
        NotParked::Running => Code::ProcSts.into(),
        NotParked::Busy => Code::Busy.into(),
    })
}

/// Whether all of this memory of a party exists and is served by the kernel alone. Reads the ranges
/// anew.
pub(super) fn answers(party: &mut Peer, address: u64, bytes: u64) -> bool {
    read_ranges(party, address, bytes) && party.copies().requester().covers(address, bytes)
}

/// Reads the ranges of a party's memory; `false` if an access may never end.
#[cold]
pub(super) fn read_ranges(party: &mut Peer, address: u64, bytes: u64) -> bool {
    let Ok(ranges) = m3ipc_sys::memory_ranges(party.identity().pid) else { return false };
    let end = address.saturating_add(bytes);
    let waits =
        ranges.iter().any(|range| range.start < end && address < range.end && !range.never_blocks);
    let requester = party.copies_mut().requester_mut();
    requester.ranges = ranges;
    requester.ranges.retain(|range| range.never_blocks);
    // An access to unmapped memory ends at once, with an error.
    !waits
}

/// Checks that the process number is still the party's. The process may have ended, or executed
/// another program, while no daemon lived to report it.
///
/// # Errors
/// `SRCH` if it is not; the kernel's error if the kernel refuses.
#[inline]
pub(super) fn recognize(party: &mut Peer) -> Result<(), Errno> {
    let pid = party.identity().pid;
    let requester = party.copies_mut().requester_mut();
    let now_ticks = m3ipc_sys::ticks();
    if now_ticks.wrapping_sub(requester.known_ticks) < KNOWN_TICKS {
        return Ok(());
    }
    match is_process(pid, requester.probe) {
        Ok(true) => {
            requester.known_ticks = now_ticks;
            Ok(())
        }
        Ok(false) | Err(Errno::FAULT) => Err(Errno::SRCH),
        Err(errno) => Err(errno),
    }
}

/// The failure of a copy by the kernel, and what the requester learns from it.
#[cold]
pub(super) fn direct_failure(party: &mut Peer, errno: Errno, role: Role) -> Fail {
    let requester = party.copies_mut().requester_mut();
    match errno {
        Errno::FAULT => {
            // The memory may lie elsewhere by now.
            requester.ranges.clear();
            Code::AddrNotAvail.into()
        }
        Errno::SRCH => role.died().into(),
        Errno::BUSY => Code::ProcSts.into(),
        Errno::NOMEM => Code::NoMem.into(),
        errno => {
            // A filter or a change of user since the first copy: use a bounce buffer from now on.
            (requester.direct, requester.refused) = (Some(false), true);
            Fail::new(Code::Perm, format!("the kernel refuses the copy: {errno}"))
        }
    }
}

/// Whether the number names the peer's process here, and the kernel allows the copy.
pub(super) fn is_process(pid: i32, probe: Probe) -> Result<bool, Errno> {
    let mut found = [0; 16];
    let read = m3ipc_sys::copy_from_process(pid, probe.address, &CopyTarget::from(&mut found[..]))?;
    let (first, second) = found.split_at(8);
    Ok(read == 16
        && first == probe.value[0].to_ne_bytes()
        && second == probe.value[1].to_ne_bytes())
}
