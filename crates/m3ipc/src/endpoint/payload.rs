//! Large payloads: bytes that no link holds travel as a block in an area of the pair.
//!
//! ```text
//! sender                             receiver
//! put bytes in a block, post ------> accept the block ----> take, copy the bytes
//!   ^                                     | not possible
//!   +-- a new area, once more <-----------+ refuse
//! ```
//!
//! A receiver takes such a message only with its payload. If it cannot accept the block, it refuses
//! the message. The area may belong to a daemon that was killed before the receiver could join: the
//! sender then repeats the message in a new area. The receiver may lack memory or addresses, or the
//! payload is longer than it takes ([`super::receive_limit`]): then the sender gets an error, and
//! the receiver goes on.
//!
//! An answer has no waiting sender: the call that posted it has returned. So a refused answer is
//! not repeated. The client's call ends at once with [`Code::AnswerLost`]; the code says that the
//! server took the request. The endpoint remembers the payload of an answer until the client has
//! decided. It then frees a refused payload and leaves its area: the next one gets a new area.
//!
//! The block of an endpoint of another node goes the same way: its receiver gets the copy as a
//! block of its own.

use super::Endpoint;
use super::buffer::Buffer;
use super::call_stop::CallStop;
use super::daemon_limit::DaemonLimit;
use super::outgoing::Outgoing;
use super::payload_state::{LargePayload, OpenAnswer};
use super::peer::UNASKED;
use crate::area::{AreaConfig, AreaMapping, AreaState, Block, Unmapped};
use crate::error::Fail;
use m3ipc_abi::{Address, BLOCK_NAME_BYTES, Code};
use m3ipc_area::BlockLifetime;
use m3ipc_link::{Arrival, MessageFate, MessageKind, SlotRefusal, SlotState, TakenMessage};
use m3ipc_wire::{AreaAudience, AreaRequest, Request};
use std::sync::Arc;

/// The least limit of an area for large payloads, in bytes. Its ledgers take 3 % of that.
const PAIR_LEAST_BYTES: u64 = 8 << 20;
/// The same for a stand-in: its peer may keep several blocks of another node.
const STAND_IN_LEAST_BYTES: u64 = 64 << 20;
/// Refusals of one message before its sender gives up.
pub(super) const REFUSALS_MAX: u32 = 20;
/// Areas of one payload whose addresses are in use, before its sender gives up.
const CONFLICTS_MAX: u32 = 8;

/// Whether the daemon died before this endpoint had mapped the area: its successor knows no such
/// area, or has no memory of it.
pub(super) fn is_area_lost(fail: &Fail) -> bool {
    matches!(fail.code, Code::Orphaned | Code::NoNode)
}

/// The failure of a sender whose payload was refused.
pub(super) fn refused(by: Address) -> Fail {
    let why = format!(
        "endpoint {by} refused the payload: it has no memory or addresses for it; send less at a \
         time, or a block"
    );
    Fail::new(Code::NoPayload, why)
}

/// The failure of a sender whose payload was refused on another node, which names no limit.
fn beyond_node(to: Address, bytes: usize) -> Fail {
    let why = format!(
        "a payload of {bytes} bytes is longer than endpoint {to} of another node takes; split it, \
         send a block, or raise the receive limit of that endpoint"
    );
    Fail::new(Code::MsgSize, why)
}

/// The failure of a client that could not accept the payload of its answer.
fn answer_lost(server: Address, cause: Fail) -> Fail {
    let why = format!(
        "endpoint {server} took the request, but the payload of its answer could not be accepted, \
         and the answer is lost: {}",
        cause.why()
    );
    Fail::new(Code::AnswerLost, why)
}

/// Whether a message answers a request. Its sender does not wait, and cannot repeat it.
fn is_answer(arrival: Arrival) -> bool {
    matches!(arrival.state.kind(), MessageKind::Reply | MessageKind::Relay)
        && arrival.stamp != UNASKED
}

/// How a receiver treats a message whose payload it cannot accept.
pub(super) fn treatment(fail: &Fail) -> Option<SlotRefusal> {
    match fail.code {
        // The call ends, and the message waits for the next call.
        Code::TimedOut
        | Code::Intr
        | Code::Again
        | Code::NotBind
        | Code::Shutdown
        | Code::VmNotRun => None,
        Code::NoMem | Code::NoPayload | Code::MsgSize => Some(SlotRefusal::Final),
        _ => Some(SlotRefusal::Retry),
    }
}

impl Endpoint {
    /// Sends a payload that no link holds as a block. Repeats the message in a new area if the
    /// receiver refuses the block.
    #[cold]
    pub(super) fn send_in_block<R>(
        &mut self,
        index: u32,
        outgoing: Outgoing<'_>,
        mut send: impl FnMut(&mut Self, Outgoing<'_>) -> Result<R, CallStop>,
    ) -> Result<R, CallStop> {
        let to = self.peers.get(index).address();
        let bytes = outgoing.long.len();
        if !outgoing.as_block {
            self.check_limit_of(index, bytes)?;
        }
        // A refused answer ends the area that the present payload would get.
        self.settle_answers();
        for _ in 0..REFUSALS_MAX {
            let limit = self.payloads.limit();
            let name = self.put_in_block(to, outgoing, limit)?;
            self.payloads.take_refusal();
            let sent = send(self, outgoing.carrying(&name));
            // An answer keeps its payload until it is taken.
            let large = self.payloads.take_in_transit();
            let Err(stop) = sent else { return sent };
            if let Some(large) = large {
                self.free_payload(large);
            }
            match self.payloads.take_refusal() {
                Some(SlotRefusal::Retry) if stop.is(Code::NoPayload) => {
                    self.forget_pair_area(to);
                    // Its addresses may be in use there.
                    self.areas.begin_low(!self.areas.begins_low());
                }
                Some(SlotRefusal::Final) if stop.is(Code::NoPayload) => {
                    return Err(self.refusal_by(to, bytes).into());
                }
                None if stop.is(Code::MsgSize) => return Err(beyond_node(to, bytes).into()),
                _ => return Err(stop),
            }
        }
        let why = format!("endpoint {to} refused the payload in each of {REFUSALS_MAX} areas");
        Err(Fail::new(Code::NoPayload, why).into())
    }

    /// Frees the payload of a message that was not taken. Nobody needs the block, so this waits for
    /// no receiver that has accepted it.
    pub(super) fn free_payload(&mut self, large: LargePayload) {
        drop(self.take_back(&large.area, &large.name, 0));
    }

    /// Frees a refused payload, and leaves its area.
    pub(super) fn withdraw_payload(&mut self, to: Address, large: LargePayload) {
        self.free_payload(large);
        self.forget_pair_area(to);
    }

    /// Fails if the peer refused the posted message.
    #[inline]
    pub(super) fn check_refusal(&mut self, index: u32, posted: SlotState) -> Result<(), Fail> {
        let peer = self.peers.get(index);
        let Some(refusal) = peer.link().refusal(posted) else {
            return self.check_proxy(index, posted);
        };
        if !self.payloads.is_in_transit() {
            // Only messages with a large payload may be refused.
            return Err(self.conversation(index).poison(m3ipc_link::RuleBroken));
        }
        self.payloads.note_refusal(refusal);
        Err(refused(peer.address()))
    }

    /// Puts a payload into a block of the pair's area. Returns the name of the block.
    fn put_in_block(
        &mut self,
        to: Address,
        outgoing: Outgoing<'_>,
        limit: DaemonLimit,
    ) -> Result<[u8; BLOCK_NAME_BYTES], Fail> {
        let limit = limit.begun();
        let mut conflicts = 0;
        let mut least =
            if self.is_one_stand_in() { STAND_IN_LEAST_BYTES } else { PAIR_LEAST_BYTES };
        loop {
            match self.try_put_in_block(to, outgoing, least, limit) {
                Err(fail) if is_area_lost(&fail) && !limit.has_passed() => {
                    self.forget_pair_area(to);
                }
                // Another mapping lies at the address of the new area. The next one lies elsewhere.
                Err(fail) if fail.code == Code::RscBusy && conflicts < CONFLICTS_MAX => {
                    conflicts += 1;
                    self.forget_pair_area(to);
                    self.areas.begin_low(!self.areas.begins_low());
                }
                // The payloads of both directions fill it.
                Err(fail) if fail.code == Code::AllocMem && least < STAND_IN_LEAST_BYTES => {
                    least = STAND_IN_LEAST_BYTES.max(outgoing.long.len() as u64 * 8);
                    self.forget_pair_area(to);
                }
                other => return other,
            }
        }
    }

    fn try_put_in_block(
        &mut self,
        to: Address,
        outgoing: Outgoing<'_>,
        least: u64,
        limit: DaemonLimit,
    ) -> Result<[u8; BLOCK_NAME_BYTES], Fail> {
        let Outgoing { long, as_block, .. } = outgoing;
        let length = long.len() as u64;
        let area = self.pair_area(to, length, least, limit)?;
        let mut block = self.allocate_in(&area, length, 64, BlockLifetime::Short, limit)?;
        block.copy_from(long)?;
        self.copies.payload_copied(long.len());
        let there = self.member_index(&area, to, limit)?;
        let mut name = block.give(there).map_err(|(_, fail)| fail)?;
        name.payload = !as_block;
        self.payloads.begin_transit(LargePayload { area, name });
        Ok(name.encode())
    }

    fn pair_area(
        &mut self,
        to: Address,
        bytes: u64,
        least: u64,
        limit: DaemonLimit,
    ) -> Result<Arc<AreaState>, Fail> {
        self.receive_area_events_if_any();
        let known = self.areas.pair_area(to).map(Arc::clone);
        if known.as_ref().is_some_and(|area| !area.member().has_joined(to)) {
            // The peer joins by the daemon of now, which may know nothing of the area.
            self.reattach_soon();
        }
        let daemons = self.session.returns_count();
        let is_open = |area: &AreaState| area.daemons == daemons || area.member().has_joined(to);
        if let Some(area) = known {
            if area.info.limit_bytes >= 2 * bytes && is_open(&area) {
                return Ok(area);
            }
            drop(area);
            // A smaller area ends, and so does one that the peer cannot join after a takeover. The
            // payloads in it have been taken, or are answers not yet taken.
            self.forget_pair_area(to);
        }
        let limit_bytes = least.max(bytes.saturating_mul(4));
        let config = AreaConfig::pair(limit_bytes, to);
        let params = config.to_wire(m3ipc_sys::page_bytes(), self.areas.begins_low());
        let area =
            self.join(&AreaRequest::Create(params), AreaMapping::ByNeed, limit, Unmapped::Await)?;
        self.areas.set_pair_area(to, area.info.area);
        Ok(area)
    }

    /// Leaves the area for large payloads of a peer. The next payload makes a new one.
    pub(super) fn forget_pair_area(&mut self, peer: Address) {
        let Some(id) = self.areas.take_pair_area(peer) else { return };
        // A handle or a block of the program needs the area, whatever the peer wants.
        let is_unused = |state: &Arc<AreaState>| Arc::strong_count(state) == 1;
        if self.areas.get(id).is_some_and(|state| state.is_internal() && is_unused(state)) {
            self.leave_area(id);
        }
    }

    /// Whether an area is one that the library made for the payloads of a pair with this peer.
    pub(super) fn is_pair_with(&self, state: &AreaState, peer: Address) -> bool {
        let AreaAudience::Pair(other) = state.info.audience else { return false };
        let pair = [state.info.owner, other];
        pair.contains(&peer.0) && pair.contains(&self.membership.address().0)
    }

    /// Takes a message with a large payload, or refuses it. `block` is the accepted block.
    pub(super) fn take_payload(
        &mut self,
        index: u32,
        arrival: Arrival,
        block: Result<Block, Fail>,
        buffer: &mut Buffer<'_>,
        is_whole: impl FnOnce(&Self, &TakenMessage) -> bool,
    ) -> Result<Option<TakenMessage>, Fail> {
        let block = match block {
            Ok(block) => block,
            Err(fail) => return self.refuse_payload(index, arrival, fail),
        };
        let limit = self.payloads.receive_limit();
        let fits = limit.check(block.len() as u64);
        if let Err(fail) = fits.and_then(|()| buffer.make_room(block.len())) {
            block.refuse();
            return self.refuse_payload(index, arrival, fail);
        }
        let taken = self.take_now(index, arrival, buffer);
        let mut incoming = match taken {
            Ok(Some(incoming)) => incoming,
            other => {
                block.refuse();
                return other;
            }
        };
        if !is_whole(self, &incoming) {
            // The name changed between the check and the take.
            block.refuse();
            return Err(self.conversation(index).poison(m3ipc_link::RuleBroken));
        }
        let copied = buffer.copy_block(&block);
        self.copies.payload_copied(copied);
        let from = self.peers.get(index).address();
        if self.is_pair_with(block.state(), from) && block.state().is_internal() {
            self.areas.suggest_pair_area(from, block.area());
        }
        incoming.long_bytes = block.len();
        Ok(Some(incoming))
    }

    /// Refuses a message whose payload or block cannot be accepted, or leaves it for a later call.
    /// A refused message is an error of its sender, and a refused answer one of its client too: no
    /// other answer comes.
    #[cold]
    pub(super) fn refuse_payload(
        &mut self,
        index: u32,
        arrival: Arrival,
        fail: Fail,
    ) -> Result<Option<TakenMessage>, Fail> {
        let Some(refusal) = treatment(&fail) else {
            self.payloads.note_failure(fail.clone());
            return Err(fail);
        };
        if !self.conversation(index).refuse(arrival, refusal) {
            return Ok(None);
        }
        self.ring_again();
        m3ipc_sys::pause_point("server.payload_refused");
        if is_answer(arrival) {
            return Err(answer_lost(self.peers.get(index).address(), fail));
        }
        Ok(None)
    }

    /// Refuses an answer that could not be accepted within the call. Its request is over, so no
    /// later call takes the answer.
    #[cold]
    pub(super) fn refuse_answer(&mut self, index: u32, request: SlotState) {
        let mut server = self.conversation(index);
        // A broken link has no more use for the refusal.
        let found = server.link().peek_answer(request).ok().flatten();
        if let Some(arrival) = found.filter(|arrival| is_answer(*arrival)) {
            server.refuse(arrival, SlotRefusal::Final);
        }
        self.ring_again();
    }

    /// Remembers the payload of an answer, which its client may refuse.
    #[inline]
    pub(super) fn note_answer(&mut self, index: u32, outgoing: Outgoing<'_>) {
        if outgoing.block.is_none() {
            return;
        }
        let Some(large) = self.payloads.take_in_transit() else { return };
        let peer = self.peers.get(index);
        let (to, posted) = (peer.address(), peer.link().posted());
        self.payloads.keep_answer(OpenAnswer { to, index, posted, large });
    }

    /// Forgets the answers that were taken. Frees the payloads of refused answers, and leaves their
    /// areas. Before each post: a new message hides the fate of the answer before it.
    #[cold]
    pub(super) fn settle_answers(&mut self) {
        let mut at = 0;
        while let Some(answer) = self.payloads.answer(at) {
            let fate = self.fate_of(answer);
            if fate == MessageFate::Open {
                at += 1;
                continue;
            }
            let OpenAnswer { to, large, .. } = self.payloads.remove_answer(at);
            match fate {
                MessageFate::Open | MessageFate::Taken => {}
                // No proxy holds an answer.
                MessageFate::Gone | MessageFate::Held(_) => self.free_payload(large),
                MessageFate::Refused(_) => {
                    let area = large.area.info.area;
                    self.free_payload(large);
                    if self.areas.pair_area(to).is_some_and(|used| used.info.area == area) {
                        self.forget_pair_area(to);
                    }
                }
            }
        }
    }

    fn fate_of(&self, answer: &OpenAnswer) -> MessageFate {
        let peer = self.peers.find_index(answer.index);
        let Some(peer) =
            peer.filter(|peer| peer.address() == answer.to && !peer.admission().is_dead())
        else {
            // The daemon reports what a dead client held.
            return MessageFate::Taken;
        };
        // On a broken link the answer is gone.
        let _ = peer.link().withdraw_void_answer();
        peer.link().fate(answer.posted)
    }
}

/// The request to leave an area.
pub(super) fn detach(id: u32) -> Request {
    Request::Area(AreaRequest::Detach(id))
}
