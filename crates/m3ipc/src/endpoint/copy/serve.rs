//! Served copies: the party copies its own memory through a bounce buffer, from its wait loop.
//!
//! The party serves one command at a time, chunk by chunk. Between two chunks its awaited event may
//! come, and then it leaves. Everything in the bounce buffer is hostile input.

use super::Endpoint;
use super::grant_table::Grant;
use crate::endpoint::peer_copies::{Active, PartyState, STALL_NS};
use m3ipc_abi::Code;
use m3ipc_link::{CopyDirection, CopyOutcome, RuleBroken};
use m3ipc_sys::{CopySource, CopyTarget, Errno};

/// The party polls for the requester's next chunk this long, in nanoseconds: as long as one chunk
/// may take.
const POLL_NS: u64 = 50_000;
/// Polls between two readings of the clock.
const POLLS_PER_CLOCK: u32 = 32;
/// The end of the addresses of a process.
const ADDRESSES_END: u64 = 1 << 56;

/// The result of one step.
enum Step {
    Copied,
    Nothing,
    Ended(CopyOutcome),
}

impl Endpoint {
    /// Serves the requesters as far as there is work now.
    #[inline]
    pub(in crate::endpoint) fn serve_copies(&mut self) {
        if self.copies.gates.serves() {
            self.serve_slow();
        }
    }

    fn serve_slow(&mut self) {
        for at in 0..self.copies.gates.served().len() {
            let index = self.copies.gates.served()[at];
            if self
                .party_state(index)
                .is_some_and(|party_state| party_state.bounce_buffer.has_next())
            {
                self.accept(index);
            }
        }
        if let Some(index) = self.copies.gates.active() {
            self.serve_active(index);
        }
    }

    fn party_state(&mut self, index: u32) -> Option<&mut PartyState> {
        self.peers.claimed(index)?.copies_mut().party_mut()
    }

    /// Accepts a command, or refuses it with a code.
    fn accept(&mut self, index: u32) {
        let busy = self.is_busy_for_other(index);
        self.copies.gates.end_if_active(index);
        let Some(party_state) = self.party_state(index) else { return };
        party_state.active = None;
        let Some(command) = party_state.bounce_buffer.read_next() else { return };
        let resolved = if busy {
            Err(Code::Busy)
        } else if command.bytes == 0 || command.bytes >= ADDRESSES_END {
            Err(Code::Range)
        } else {
            self.resolve(index, &command)
        };
        let Some(party_state) = self.party_state(index) else { return };
        match resolved {
            Ok(base) => {
                party_state.active =
                    Some(Active { command, base, count: 0, since_ns: m3ipc_sys::monotonic_ns() });
                self.copies.gates.begin_command(index);
            }
            Err(code) => {
                party_state
                    .bounce_buffer
                    .finish(CopyOutcome { code: Some(code.number()), bytes: 0 });
                self.ring_stand_in(index);
            }
        }
    }

    /// Whether the command of another requester is in progress. A dead requester, or one without
    /// progress for the stall time, gives way.
    fn is_busy_for_other(&mut self, index: u32) -> bool {
        let Some(other) = self.copies.gates.active().filter(|active| *active != index) else {
            return false;
        };
        let lives = self.peers.find_index(other).is_some_and(|peer| !peer.admission().is_dead());
        let goes_on = self.has_progress(other);
        if !(lives && goes_on) {
            self.end_command(other, failed(Code::ProcSts, 0));
        }
        lives && goes_on
    }

    /// Whether the active command of a requester made progress within the stall time.
    pub(super) fn has_progress(&mut self, index: u32) -> bool {
        let active = self.party_state(index).and_then(|party_state| party_state.active);
        active.is_some_and(|active| {
            m3ipc_sys::monotonic_ns().saturating_sub(active.since_ns) < STALL_NS
        })
    }

    fn serve_active(&mut self, index: u32) {
        let (mut polls, mut since_ns) = (0_u32, 0);
        // As for a requester: see `super::await_party`.
        let is_far = self.is_stand_in(index);
        loop {
            match self.step(index) {
                Ok(Step::Copied) => {
                    self.ring_stand_in(index);
                    (polls, since_ns) = (0, 0);
                }
                Ok(Step::Nothing) => {
                    polls += 1;
                    if is_far || polls.is_multiple_of(POLLS_PER_CLOCK) {
                        let now_ns = m3ipc_sys::monotonic_ns();
                        since_ns = if since_ns == 0 { now_ns } else { since_ns };
                        let shares_cpu = !is_far && self.shares_cpu_with(index);
                        if now_ns - since_ns > POLL_NS || shares_cpu {
                            return;
                        }
                    }
                    if is_far {
                        m3ipc_sys::yield_cpu();
                    } else {
                        m3ipc_sys::relax();
                    }
                }
                Ok(Step::Ended(outcome)) => return self.end_command(index, outcome),
                Err(RuleBroken) => {
                    return self.end_command(
                        index,
                        CopyOutcome { code: Some(Code::PeerBroke.number()), bytes: 0 },
                    );
                }
            }
            // The command was withdrawn, or there is a new one.
            if self
                .party_state(index)
                .is_none_or(|party_state| party_state.bounce_buffer.has_next())
            {
                return;
            }
        }
    }

    fn end_command(&mut self, index: u32, outcome: CopyOutcome) {
        self.copies.gates.end_command();
        if let Some(party_state) = self.party_state(index) {
            party_state.active = None;
            party_state.bounce_buffer.finish(outcome);
        }
        self.ring_stand_in(index);
    }

    /// Whether a peer was last seen on this CPU: it cannot run while this endpoint polls.
    pub(super) fn shares_cpu_with(&self, index: u32) -> bool {
        self.peers.find_index(index).is_some_and(|peer| peer.cpu() == m3ipc_sys::current_cpu())
    }

    /// Copies one chunk if the requester is ready for it.
    fn step(&mut self, index: u32) -> Result<Step, RuleBroken> {
        let (own, grants) = (&mut self.copies.own, &mut self.copies.grants);
        let party_state = self.peers.claimed(index).and_then(|peer| peer.copies_mut().party_mut());
        let Some(PartyState { bounce_buffer, active: Some(active) }) = party_state else {
            return Ok(Step::Nothing);
        };
        let Active { command, base, count, .. } = *active;
        let asked = bounce_buffer.asked(command.direction, count)?;
        let ready = match command.direction {
            CopyDirection::Write => asked != count,
            CopyDirection::Read => count.wrapping_sub(asked) < 2,
        };
        if !ready {
            return Ok(Step::Nothing);
        }
        let (offset, bytes) = command.chunk(count);
        m3ipc_sys::pause_point("party.chunk");
        let granted = Grant::from_u64(command.space);
        let granted = grants.part(granted, command.address.saturating_add(offset), bytes);
        let copied = match (command.direction, granted) {
            // The endpoint owns this memory, so it is mapped.
            (CopyDirection::Write, Some(part)) => {
                bounce_buffer.read(count, part);
                Ok(bytes)
            }
            (CopyDirection::Read, Some(part)) => {
                bounce_buffer.write(count, 0, part);
                Ok(bytes)
            }
            (CopyDirection::Write, None) => {
                own.copy_in(&bounce_buffer.source(count, bytes), &own_target(base + offset, bytes))
            }
            (CopyDirection::Read, None) => {
                own.copy_out(&own_source(base + offset, bytes), &bounce_buffer.target(count, bytes))
            }
        };
        match copied {
            Ok(copied) if copied == bytes => {}
            Ok(copied) => {
                return Ok(Step::Ended(failed(Code::AddrNotAvail, offset + copied as u64)));
            }
            Err(Errno::FAULT) => return Ok(Step::Ended(failed(Code::AddrNotAvail, offset))),
            Err(_) => return Ok(Step::Ended(failed(Code::NoMem, offset))),
        }
        active.count = count.wrapping_add(1);
        active.since_ns = m3ipc_sys::monotonic_ns();
        let count = active.count;
        if u64::from(count) == command.chunks() {
            // The requester sees the last chunk together with the end.
            bounce_buffer.advance(count);
            return Ok(Step::Ended(CopyOutcome { code: None, bytes: command.bytes }));
        }
        bounce_buffer.advance(count);
        Ok(Step::Copied)
    }

    /// Ends the command in progress: the party leaves.
    pub(super) fn drop_command(&mut self) {
        if let Some(index) = self.copies.gates.active() {
            self.end_command(index, failed(Code::ProcSts, 0));
        }
    }

    /// Links that a party sleeps on besides the one it waits for.
    pub(in crate::endpoint) fn served_links(&self) -> &[u32] {
        self.copies.gates.served()
    }
}

fn failed(code: Code, bytes: u64) -> CopyOutcome {
    CopyOutcome { code: Some(code.number()), bytes }
}

/// Memory of this process at an allowed address. The kernel reports an address without memory.
fn own_source<'a>(address: u64, bytes: usize) -> CopySource<'a> {
    m3ipc_sys::lent_source(address, bytes)
}

fn own_target<'a>(address: u64, bytes: usize) -> CopyTarget<'a> {
    m3ipc_sys::lent_target(address, bytes)
}
