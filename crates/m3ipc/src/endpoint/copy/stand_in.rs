//! Copies of a stand-in: a proxy has a copy done on another node.
//!
//! ```text
//! local requester ── bounce buffer ── stand-in of the party ~ ~ ~ other node
//! other node ~ ~ ~ stand-in of the requester ── bounce buffer ── local party
//! ```
//!
//! As a party, a stand-in reads commands and hands them on; the other node decides. Its gate is
//! always open: the memory that a copy touches is on the other node. As a requester, it makes the
//! copies of its remote endpoint with served copies alone: the party's library checks leases and
//! grants, and this process never touches the memory of a party. All steps return at once.

use super::party::begin_copy;
use super::party_life::PartyLife;
use super::side::Role;
use crate::control::{OpenRequest, RequestState};
use crate::endpoint::Endpoint;
use crate::endpoint::peer_copies::{Active, PartyState, RequesterState, STALL_NS};
use crate::error::Fail;
use crate::timeout::Timeout;
use m3ipc_abi::{Address, Code};
use m3ipc_link::{
    BounceBuffer, CopyCommand, CopyDirection, CopyOutcome, RuleBroken, ServedBounceBuffer,
    copy_gate,
};
use m3ipc_wire::{Reply, Request};
use std::os::fd::OwnedFd;

/// The end of the lengths that a copy may have.
const BYTES_END: u64 = 1 << 47;

/// What a local requester wants of a stand-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyNews {
    /// A copy with the memory of the remote endpoint.
    Begun(Address, CopyCommand),
    /// The requester waits for its copy no longer.
    GivenUp(Address),
}

/// A copy that a stand-in makes with a local party.
#[derive(Debug)]
pub(crate) struct PartyCopy {
    party: PartyLife,
    command: CopyCommand,
    /// Chunks filled or emptied by this side.
    count: u32,
    state: PartyCopyState,
    /// The last progress.
    since_ns: u64,
}

#[derive(Debug)]
enum PartyCopyState {
    /// The party has not opened its gate yet; with the request for it.
    Gate(Option<OpenRequest>),
    /// The party has the command.
    Running,
    /// It has ended, and the party is released.
    Over,
}

/// How far the request for a gate has come.
#[derive(Debug)]
enum Gate {
    /// The bounce buffer is there.
    Open,
    /// The daemon has not replied.
    Asked(OpenRequest),
    /// Ask when the other requests of the stand-in have their replies: the daemon keeps one.
    InTurn,
}

impl PartyCopy {
    /// Whether the party has not opened its gate: only a ring tells when it does.
    pub(crate) fn awaits_gate(&self) -> bool {
        matches!(self.state, PartyCopyState::Gate(_))
    }
}

/// The next step of a copy with a local party.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PartyStep {
    /// The party is at work.
    Waits,
    /// The next chunk of a write may come, with this length.
    Wants(usize),
    /// A chunk of a read is there, with this length.
    Has(usize),
    /// The end: 0 or a code, and the bytes that were surely copied.
    Ended(i32, u64),
}

impl Endpoint {
    /// From now on this endpoint is a stand-in.
    pub(crate) fn become_stand_in(&mut self) {
        self.copies.stands_in = true;
    }

    /// Whether this endpoint is a stand-in.
    pub(crate) fn is_one_stand_in(&self) -> bool {
        self.copies.stands_in
    }

    /// Opens the gate of a stand-in: the requester needs a bounce buffer, and may never copy
    /// directly.
    pub(super) fn open_stand_in_gate(&mut self, index: u32, memory: Option<OwnedFd>) {
        let bounce_buffer = memory.and_then(|memory| ServedBounceBuffer::map(memory).ok());
        let requester = self.peers.get_mut(index);
        requester.copies_mut().open_gate(bounce_buffer);
        let peer = requester.address().0;
        copy_gate::park(requester.link().own_copy_gate());
        if !self.copies.stand_in_gates.contains(&index) {
            self.copies.stand_in_gates.push(index);
        }
        let ready = Request::CopyGateReady { peer, address: 0, probe: [0; 2] };
        // A daemon that is gone has no requester either.
        let _ = self.session.control().send(&ready);
    }

    /// The user of a local peer.
    pub(crate) fn user_of(&self, peer: Address) -> Option<u32> {
        Some(self.peers.get(self.peers.find(peer)?).identity().uid)
    }

    /// The commands of local requesters that are new.
    pub(crate) fn poll_copies(&mut self) -> Vec<CopyNews> {
        let mut found = Vec::new();
        let indexes: Vec<u32> = self.peers.indexes().collect();
        for index in indexes {
            let peer = self.peers.get_mut(index);
            let (from, is_dead) = (peer.address(), peer.admission().is_dead());
            let Some(party) = peer.copies_mut().party_mut() else { continue };
            if !is_dead && !party.bounce_buffer.has_next() {
                continue;
            }
            if party.active.take().is_some() {
                found.push(CopyNews::GivenUp(from));
            }
            if is_dead {
                continue;
            }
            let Some(command) = party.bounce_buffer.read_next() else { continue };
            if command.bytes == 0 || command.bytes >= BYTES_END {
                let code = Some(Code::Range.number());
                party.bounce_buffer.finish(CopyOutcome { code, bytes: 0 });
                continue;
            }
            party.active = Some(Active { command, base: 0, count: 0, since_ns: 0 });
            found.push(CopyNews::Begun(from, command));
        }
        found
    }

    /// Whether a local requester has a command that was not read. A few loads.
    pub(crate) fn has_copy_command(&self) -> bool {
        let living = self.copies.stand_in_gates.iter().filter_map(|it| self.peers.find_index(*it));
        let mut living = living.filter(|peer| !peer.admission().is_dead());
        living.any(|it| it.copies().party().is_some_and(|it| it.bounce_buffer.has_next()))
    }

    fn active_copy(&mut self, from: Address) -> Option<(&mut ServedBounceBuffer, &mut Active)> {
        let index = self.peers.find(from)?;
        let party = self.peers.get_mut(index).copies_mut().party_mut()?;
        let PartyState { bounce_buffer, active: Some(active) } = party else { return None };
        Some((bounce_buffer, active))
    }

    /// The length of the next chunk that this requester has for a write, or wants from a read. A
    /// few loads.
    pub(crate) fn next_copy_chunk(&self, from: Address) -> Result<Option<usize>, RuleBroken> {
        let party = self.peers.find(from).and_then(|it| self.peers.get(it).copies().party());
        let Some(PartyState { bounce_buffer, active: Some(active) }) = party else {
            return Ok(None);
        };
        let Active { command, count, .. } = *active;
        let (offset, bytes) = command.chunk(count);
        if offset >= command.bytes {
            return Ok(None);
        }
        let asked = bounce_buffer.asked(command.direction, count)?;
        let is_ready = match command.direction {
            CopyDirection::Write => asked != count,
            CopyDirection::Read => count.wrapping_sub(asked) < 2,
        };
        Ok(is_ready.then_some(bytes))
    }

    /// Takes the next chunk of a write, if it is there.
    pub(crate) fn take_copy_chunk(&mut self, from: Address) -> Option<Vec<u8>> {
        let mut chunk = vec![0; self.next_copy_chunk(from).ok()??];
        let (bounce_buffer, active) = self.active_copy(from)?;
        bounce_buffer.read(active.count, &mut chunk);
        active.count = active.count.wrapping_add(1);
        bounce_buffer.advance(active.count);
        Some(chunk)
    }

    /// Gives the next chunk of a read, which [`next_copy_chunk`](Self::next_copy_chunk) asked for.
    pub(crate) fn put_copy_chunk(
        &mut self,
        from: Address,
        chunk: impl Iterator<Item: AsRef<[u8]>>,
    ) {
        let Some((bounce_buffer, active)) = self.active_copy(from) else { return };
        write_parts(chunk, |offset, part| bounce_buffer.write(active.count, offset, part));
        active.count = active.count.wrapping_add(1);
        bounce_buffer.advance(active.count);
    }

    /// Ends the copy of this requester: 0 or a code, and the bytes that were surely copied.
    pub(crate) fn finish_copy(&mut self, from: Address, code: i32, bytes: u64) {
        let Some(index) = self.peers.find(from) else { return };
        let Some(party) = self.peers.get_mut(index).copies_mut().party_mut() else { return };
        if party.active.take().is_some() {
            let code = (code != 0).then_some(code);
            party.bounce_buffer.finish(CopyOutcome { code, bytes });
        }
    }

    /// Begins a copy with a local party, in the name of the remote endpoint.
    pub(crate) fn begin_party_copy(
        &mut self,
        to: Address,
        command: CopyCommand,
    ) -> Result<PartyCopy, Fail> {
        let role = role_of(&command);
        let contacted = self.contact(to, Timeout::NoWait.deadline());
        let index = contacted.map_err(|fail| match fail.code {
            Code::DstDied | Code::Migrate => Fail::from(role.died()),
            _ => fail,
        })?;
        let peer = self.peers.get_mut(index);
        peer.check_party(role.died())?;
        if copy_gate::is_revoked(peer.link().peer_copy_gate()) {
            *peer.copies_mut().requester_mut() = RequesterState::default();
        }
        let state = PartyCopyState::Gate(None);
        let party = self.party_life(index);
        Ok(PartyCopy { party, command, count: 0, state, since_ns: m3ipc_sys::monotonic_ns() })
    }

    /// The next step of a copy with a local party.
    pub(crate) fn step_party_copy(&mut self, copy: &mut PartyCopy) -> PartyStep {
        match self.try_step(copy) {
            Ok(PartyStep::Ended(code, bytes)) => {
                self.end_party_copy(copy);
                PartyStep::Ended(code, bytes)
            }
            Ok(step) => step,
            Err(fail) => {
                self.end_party_copy(copy);
                let fail = self.failed_with(copy.party, role_of(&copy.command), fail);
                PartyStep::Ended(fail.code.number(), 0)
            }
        }
    }

    fn try_step(&mut self, copy: &mut PartyCopy) -> Result<PartyStep, Fail> {
        let role = role_of(&copy.command);
        let index = self.index_in(copy.party).ok_or(Fail::from(role.died()))?;
        self.peers.get(index).check_party(role.died())?;
        let is_over = m3ipc_sys::monotonic_ns().saturating_sub(copy.since_ns) >= STALL_NS;
        let step = match &mut copy.state {
            PartyCopyState::Over => return Err(Code::ProcSts.into()),
            PartyCopyState::Gate(request) => {
                let request = request.take();
                match self.await_gate(index, request)? {
                    Gate::Open => {
                        copy.state = PartyCopyState::Running;
                        return self.command_party(index, copy);
                    }
                    Gate::Asked(open) => copy.state = PartyCopyState::Gate(Some(open)),
                    Gate::InTurn => {}
                }
                PartyStep::Waits
            }
            PartyCopyState::Running => self.party_step(index, copy)?,
        };
        match step {
            PartyStep::Waits if is_over => Err(Code::TimedOut.into()),
            PartyStep::Wants(_) | PartyStep::Has(_) => {
                // The party has done its part, and waits for the other node.
                copy.since_ns = m3ipc_sys::monotonic_ns();
                Ok(step)
            }
            step => Ok(step),
        }
    }

    /// Asks the party for its gate, through the daemon.
    fn await_gate(&mut self, index: u32, request: Option<OpenRequest>) -> Result<Gate, Fail> {
        let peer = self.peers.get(index);
        if request.is_none() && peer.copies().requester().bounce_buffer.is_some() {
            return Ok(Gate::Open);
        }
        let Some(open) = request else {
            if !self.session.control().may_begin_gate() {
                return Ok(Gate::InTurn);
            }
            let (peer, surely) = (peer.address().0, peer.link().owes_answer());
            let request = Request::CopyGate { peer, surely, bounce_buffer: true };
            return self.session.control_mut().begin(&request).map(Gate::Asked);
        };
        match self.session.control_mut().poll(&open) {
            RequestState::Open => Ok(Gate::Asked(open)),
            RequestState::Lost => Err(Code::ProcSts.into()),
            // A later request of this stand-in has ended the wait of the daemon.
            RequestState::Ended(Err(fail)) if fail.code == Code::TimedOut => Ok(Gate::InTurn),
            RequestState::Ended(Err(fail)) => Err(fail),
            RequestState::Ended(Ok(Reply::CopyGate { .. })) => {
                let memory = self.session.control_mut().take_gate_memory();
                let bounce_buffer = memory.map(BounceBuffer::map).transpose()?;
                let bounce_buffer = bounce_buffer.ok_or(Fail::from(Code::NoMem))?;
                let requester = self.peers.get_mut(index).copies_mut().requester_mut();
                requester.bounce_buffer = Some(bounce_buffer);
                Ok(Gate::Open)
            }
            RequestState::Ended(Ok(_)) => Err(crate::control::unexpected()),
        }
    }

    fn command_party(&mut self, index: u32, copy: &mut PartyCopy) -> Result<PartyStep, Fail> {
        if let Err(fail) = begin_copy(self.peers.get(index)) {
            copy.state = PartyCopyState::Over;
            return Err(fail);
        }
        let mut party = self.conversation(index);
        let requester = party.peer().copies_mut().requester_mut();
        let bounce_buffer = requester.bounce_buffer.as_mut();
        bounce_buffer.ok_or(Fail::from(Code::ProcSts))?.post_command(&copy.command);
        party.wake_in_any_wait();
        copy.since_ns = m3ipc_sys::monotonic_ns();
        self.party_step(index, copy)
    }

    /// What the next step of a copy with a local party would find, if it finds more than a wait. A
    /// few loads.
    pub(crate) fn has_party_moved(&self, copy: &PartyCopy) -> Option<PartyStep> {
        let ended = PartyStep::Ended(Code::ProcSts.number(), 0);
        match (&copy.state, self.index_in(copy.party)) {
            (PartyCopyState::Gate(_), _) => None,
            (PartyCopyState::Over, _) | (_, None) => Some(ended),
            (PartyCopyState::Running, Some(index)) => match self.party_step(index, copy) {
                Ok(PartyStep::Waits) => None,
                Ok(step) => Some(step),
                Err(_) => Some(ended),
            },
        }
    }

    fn party_step(&self, index: u32, copy: &PartyCopy) -> Result<PartyStep, Fail> {
        let peer = self.peers.get(index);
        let bounce_buffer = peer.copies().requester().bounce_buffer.as_ref();
        let bounce_buffer = bounce_buffer.ok_or(Fail::from(Code::ProcSts))?;
        let PartyCopy { command, count, .. } = *copy;
        // Read the outcome first: chunks served before the end are seen with it.
        let outcome = bounce_buffer.outcome();
        let served = bounce_buffer.served(command.direction, count)?;
        let (offset, bytes) = command.chunk(count);
        let is_last = offset >= command.bytes;
        match (command.direction, outcome) {
            (CopyDirection::Read, _) if is_last => Ok(PartyStep::Ended(0, command.bytes)),
            (CopyDirection::Read, _) if served != count => Ok(PartyStep::Has(bytes)),
            (_, Some(CopyOutcome { code: Some(code), bytes })) => {
                let code = super::chunk::reported(code, false).code.number();
                Ok(PartyStep::Ended(code, bytes.min(command.bytes)))
            }
            (CopyDirection::Write, Some(_)) if is_last => Ok(PartyStep::Ended(0, command.bytes)),
            (CopyDirection::Write, _) if !is_last && count.wrapping_sub(served) < 2 => {
                Ok(PartyStep::Wants(bytes))
            }
            // The party left, or revoked the gate.
            _ if !copy_gate::is_copying(peer.link().peer_copy_gate()) => Err(Code::ProcSts.into()),
            _ => Ok(PartyStep::Waits),
        }
    }

    /// Gives the party the chunk that it wants.
    pub(crate) fn put_party_chunk(
        &mut self,
        copy: &mut PartyCopy,
        chunk: impl Iterator<Item: AsRef<[u8]>>,
    ) {
        self.move_party_chunk(copy, |bounce_buffer, count| {
            write_parts(chunk, |offset, part| bounce_buffer.write(count, offset, part));
        });
    }

    /// Takes the chunk that the party has.
    pub(crate) fn take_party_chunk(&mut self, copy: &mut PartyCopy, bytes: usize) -> Vec<u8> {
        let mut chunk = vec![0; bytes];
        self.move_party_chunk(copy, |bounce_buffer, count| bounce_buffer.read(count, &mut chunk));
        chunk
    }

    fn move_party_chunk(&mut self, copy: &mut PartyCopy, move_in: impl FnOnce(&BounceBuffer, u32)) {
        let Some(index) = self.index_in(copy.party) else { return };
        let mut party = self.conversation(index);
        let requester = party.peer().copies_mut().requester_mut();
        let Some(bounce_buffer) = requester.bounce_buffer.as_ref() else { return };
        move_in(bounce_buffer, copy.count);
        copy.count = copy.count.wrapping_add(1);
        bounce_buffer.advance(copy.count);
        party.wake_in_any_wait();
        copy.since_ns = m3ipc_sys::monotonic_ns();
    }

    /// Releases the party. A copy that has not ended is withdrawn.
    pub(crate) fn end_party_copy(&mut self, copy: &mut PartyCopy) {
        let state = std::mem::replace(&mut copy.state, PartyCopyState::Over);
        if let PartyCopyState::Gate(Some(open)) = &state {
            self.session.control_mut().forget(open);
        }
        let PartyCopyState::Running = state else { return };
        let Some(index) = self.index_in(copy.party) else { return };
        let peer = self.peers.get_mut(index);
        if let Some(bounce_buffer) = &mut peer.copies_mut().requester_mut().bounce_buffer
            && bounce_buffer.outcome().is_none()
        {
            bounce_buffer.withdraw();
        }
        peer.link().end_copy();
    }

    /// Lets a stand-in look: its proxy sleeps at its doorbell, not at the bounce buffer.
    pub(super) fn ring_stand_in(&mut self, index: u32) {
        if self.is_stand_in(index) {
            self.conversation(index).wake_in_any_wait();
        }
    }

    /// Whether the peer is a proxy that stands in for an endpoint of another node.
    pub(super) fn is_stand_in(&self, index: u32) -> bool {
        self.peers.find_index(index).is_some_and(|peer| peer.admission().may_hold())
    }
}

/// Writes the parts of a chunk, each one behind the one before.
fn write_parts(chunk: impl Iterator<Item: AsRef<[u8]>>, mut write: impl FnMut(usize, &[u8])) {
    let mut offset = 0;
    for part in chunk {
        let part = part.as_ref();
        write(offset, part);
        offset += part.len();
    }
}

fn role_of(command: &CopyCommand) -> Role {
    match command.direction {
        CopyDirection::Read => Role::Source,
        CopyDirection::Write => Role::Destination,
    }
}
