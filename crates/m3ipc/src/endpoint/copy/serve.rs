//! The party's side of a window: it copies its own memory, from its wait loop.
//!
//! One command at a time, a chunk at a time: between two chunks it may find
//! what it waits for, and then has to go. Everything read from the window is a claim.

use super::berth::STALL_NS;
use super::{Endpoint, Fail};
use m3ipc_abi::Code;
use m3ipc_link::{CopyCommand, CopyDirection, CopyOutcome, RuleBroken, ServedBounceBuffer};
use m3ipc_sys::{CopySource, CopyTarget, Errno};

/// How long the party looks for the requester's next chunk before it looks elsewhere: as long as a
/// chunk may take, in nanoseconds.
const LOOK_NS: u64 = 50_000;
/// Looks between two readings of the clock.
const LOOKS_PER_CLOCK: u32 = 32;
/// No process has memory beyond.
const ADDRESSES_END: u64 = 1 << 56;

/// One window, as its party sees it.
#[derive(Debug)]
pub(in crate::endpoint) struct Serving {
    window: ServedBounceBuffer,
    active: Option<Active>,
}

/// A command that was accepted.
#[derive(Clone, Copy, Debug)]
struct Active {
    command: CopyCommand,
    /// Where in this process's memory.
    base: u64,
    /// Chunks that were copied.
    count: u32,
    /// When the last one was, or the command came.
    since_ns: u64,
}

/// What one step has come to.
enum Step {
    Copied,
    Nothing,
    Ended(CopyOutcome),
}

impl Serving {
    pub(super) fn new(window: ServedBounceBuffer) -> Self {
        Self { window, active: None }
    }
}

impl Endpoint {
    /// Serves those who copy with this endpoint, as far as there is something to do now.
    #[inline]
    pub(in crate::endpoint) fn serve_copies(&mut self) {
        if !self.copies.served.is_empty() && self.copies.parked {
            self.serve_slow();
        }
    }

    fn serve_slow(&mut self) {
        for at in 0..self.copies.served.len() {
            let index = self.copies.served[at];
            if self.serving(index).is_some_and(|serving| serving.window.has_next()) {
                self.accept(index);
            }
        }
        if let Some(index) = self.copies.active {
            self.serve_active(index);
        }
    }

    fn serving(&mut self, index: u32) -> Option<&mut Serving> {
        self.peers.claimed(index)?.serving.as_deref_mut()
    }

    /// Takes up a command, or says why not.
    fn accept(&mut self, index: u32) {
        let busy = self.is_busy_for_other(index);
        if self.copies.active == Some(index) {
            self.copies.active = None;
        }
        let Some(serving) = self.serving(index) else { return };
        serving.active = None;
        let Some(command) = serving.window.read_next() else { return };
        let resolved = if busy {
            Err(Code::Busy)
        } else if command.bytes == 0 || command.bytes >= ADDRESSES_END {
            Err(Code::Range)
        } else {
            self.resolve(index, &command)
        };
        let Some(serving) = self.serving(index) else { return };
        match resolved {
            Ok(base) => {
                serving.active =
                    Some(Active { command, base, count: 0, since_ns: m3ipc_sys::monotonic_ns() });
                self.copies.active = Some(index);
            }
            Err(code) => serving.window.finish(CopyOutcome { code: Some(code.number()), bytes: 0 }),
        }
    }

    /// Whether another's command is at work. One whose requester has gone, or has done nothing for
    /// as long as it would wait itself, gives way.
    fn is_busy_for_other(&mut self, index: u32) -> bool {
        let Some(other) = self.copies.active.filter(|active| *active != index) else {
            return false;
        };
        let lives = self.peers.find_index(other).is_some_and(|peer| !peer.dead);
        let since_ns =
            self.serving(other).and_then(|serving| serving.active).map(|active| active.since_ns);
        let goes_on = since_ns
            .is_some_and(|since_ns| m3ipc_sys::monotonic_ns().saturating_sub(since_ns) < STALL_NS);
        if !(lives && goes_on) {
            self.end_command(other, failed(Code::ProcSts, 0));
        }
        lives && goes_on
    }

    fn serve_active(&mut self, index: u32) {
        let (mut looks, mut since_ns) = (0_u32, 0);
        loop {
            match self.step(index) {
                Ok(Step::Copied) => (looks, since_ns) = (0, 0),
                Ok(Step::Nothing) => {
                    looks += 1;
                    if looks.is_multiple_of(LOOKS_PER_CLOCK) {
                        let now_ns = m3ipc_sys::monotonic_ns();
                        since_ns = if since_ns == 0 { now_ns } else { since_ns };
                        if now_ns - since_ns > LOOK_NS || self.shares_cpu_with(index) {
                            return;
                        }
                    }
                    m3ipc_sys::relax();
                }
                Ok(Step::Ended(outcome)) => return self.end_command(index, outcome),
                Err(RuleBroken) => {
                    return self.end_command(
                        index,
                        CopyOutcome { code: Some(Code::PeerBroke.number()), bytes: 0 },
                    );
                }
            }
            // Taken back, or another one.
            if self.serving(index).is_none_or(|serving| serving.window.has_next()) {
                return;
            }
        }
    }

    fn end_command(&mut self, index: u32, outcome: CopyOutcome) {
        self.copies.active = None;
        if let Some(serving) = self.serving(index) {
            serving.active = None;
            serving.window.finish(outcome);
        }
    }

    /// Whether a peer was last seen on this very CPU: it cannot move while this endpoint looks.
    pub(super) fn shares_cpu_with(&self, index: u32) -> bool {
        self.peers
            .find_index(index)
            .is_some_and(|peer| peer.status.cpu() == m3ipc_sys::current_cpu())
    }

    /// Copies one chunk, if the requester is ready for it.
    fn step(&mut self, index: u32) -> Result<Step, RuleBroken> {
        let own = &mut self.copies.own;
        let serving = self.peers.claimed(index).and_then(|peer| peer.serving.as_deref_mut());
        let Some(Serving { window, active: Some(active) }) = serving else {
            return Ok(Step::Nothing);
        };
        let Active { command, base, count, .. } = *active;
        let asked = window.asked(command.direction, count)?;
        let ready = match command.direction {
            CopyDirection::Write => asked != count,
            CopyDirection::Read => count.wrapping_sub(asked) < 2,
        };
        if !ready {
            return Ok(Step::Nothing);
        }
        let (offset, bytes) = command.chunk(count);
        m3ipc_sys::pause_point("party.chunk");
        let copied = match command.direction {
            CopyDirection::Write => {
                own.copy_in(&window.source(count, bytes), &own_room(base + offset, bytes))
            }
            CopyDirection::Read => {
                own.copy_out(&own_bytes(base + offset, bytes), &window.target(count, bytes))
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
            // The last chunk and the end of it are seen together.
            window.advance(count);
            return Ok(Step::Ended(CopyOutcome { code: None, bytes: command.bytes }));
        }
        window.advance(count);
        Ok(Step::Copied)
    }

    /// The party goes: whoever still copies with it is told.
    pub(super) fn drop_command(&mut self) {
        if let Some(index) = self.copies.active {
            self.end_command(index, failed(Code::ProcSts, 0));
        }
    }

    /// The links that a party sleeps on besides the one it waits for.
    pub(in crate::endpoint) fn served_links(&self) -> &[u32] {
        &self.copies.served
    }
}

fn failed(code: Code, bytes: u64) -> CopyOutcome {
    CopyOutcome { code: Some(code.number()), bytes }
}

/// This process's memory at an address that was allowed; where nothing is, the kernel says so.
fn own_bytes<'a>(address: u64, bytes: usize) -> CopySource<'a> {
    m3ipc_sys::lent_source(address, bytes)
}

fn own_room<'a>(address: u64, bytes: usize) -> CopyTarget<'a> {
    m3ipc_sys::lent_target(address, bytes)
}

impl From<RuleBroken> for Fail {
    fn from(_broken: RuleBroken) -> Self {
        Code::PeerBroke.into()
    }
}
