//! What the endpoint of a proxy does in place of an endpoint of another node.
//!
//! The proxy holds a message, sends it on, and decides it when the other node has decided. All
//! steps return at once.

use super::Endpoint;
use super::buffer::Buffer;
use super::claims::ClaimState;
use super::daemon_limit::{DaemonLimit, NO_WAIT_NS};
use super::kept_notifications::{Kept, KeptNotification};
use super::outgoing::{Beside, Outgoing};
use super::pending::PendingRequest;
use super::pending_send::PendingSend;
use super::received::Pulse;
use super::stamps::Moment;
use super::stand_in_payload::Copied;
use super::withdrawal::Withdrawal;
use crate::error::{Fail, SendError, SendRecError};
use crate::timeout::Timeout;
use m3ipc_abi::{Address, BLOCK_NAME_BYTES, Code, MESSAGE_BYTES, Message};
use m3ipc_area::ClaimedBlockName;
use m3ipc_link::waiting::EndsWait;
use m3ipc_link::{
    AnswerOutcome, Arrival, Cancelled, Held, MessageFate, MessageKind, PULSES_MAX, SlotState,
};
use m3ipc_wire::{NodesRequest, Request};
use std::collections::BTreeMap;

/// Something that a stand-in found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A message, which is held now.
    Message { from: Address, is_request: bool, message: Message, copied: Copied },
    /// A notification.
    Notified { from: Address, bits: u64 },
    /// Pulses, which stay in their places.
    Pulses { from: Address, pulses: Vec<Pulse> },
    /// The sender of a held message wants it back, or the requester of a taken one gave it up.
    GivenUp(Address),
}

/// Which new messages a look holds. The others stay in their slots.
pub trait MessageRoom {
    /// Whether there is room for a message of this user.
    fn admits_user(&mut self, user: u32) -> bool;

    /// Whether there is room for the content of a block, beside so many bytes of this look. Asked
    /// before [`admits_user`](Self::admits_user).
    fn admits_bytes(&mut self, bytes: u64, beside: u64) -> bool;
}

/// Room for messages of some users, whatever they bring.
impl<F: FnMut(u32) -> bool> MessageRoom for F {
    fn admits_user(&mut self, user: u32) -> bool {
        self(user)
    }

    fn admits_bytes(&mut self, _bytes: u64, _beside: u64) -> bool {
        true
    }
}

/// What a look of a stand-in is for.
pub(crate) struct StandInLook<'a> {
    /// Whether only those links are looked at that their peers have marked.
    pub(crate) only_marked: bool,
    /// The room for new messages.
    pub(crate) room: &'a mut dyn MessageRoom,
}

/// A message that a stand-in has and has not ended.
#[derive(Clone, Copy, Debug)]
struct HeldMessage {
    state: SlotState,
    is_taken: bool,
    is_given_up: bool,
    /// Whether its payload came in a block, which is freed: the message cannot go back.
    has_payload: bool,
    /// The block that its receiver gets a copy of: it is the sender's until the take.
    given: Option<ClaimedBlockName>,
}

/// The messages that a stand-in has and has not ended, by sender.
#[derive(Debug, Default)]
pub(crate) struct HeldMessages {
    by_sender: BTreeMap<i32, HeldMessage>,
    /// Bytes that the present look has copied from blocks.
    copied_bytes: usize,
    /// Whether the latest look has left a message with a block for the next one.
    has_left_any: bool,
}

/// Batches of pulses of one sender under way. Further pulses stay in its ring, so that a receiver
/// that takes nothing holds few calls of its sender's user.
const PULSE_BATCHES: u8 = 2;
/// The bytes that one look copies before it leaves further messages with blocks for the next one.
const LOOK_COPIES_BYTES: usize = 1 << 20;

impl HeldMessages {
    /// Whether there is one of this sender that its receiver has not taken.
    pub(crate) fn is_open(&self, sender: Address) -> bool {
        self.by_sender.get(&sender.0).is_some_and(|held| !held.is_taken)
    }

    /// The number of the one of this sender.
    pub(crate) fn number_of(&self, sender: Address) -> Option<u64> {
        self.by_sender.get(&sender.0).map(|held| held.state.encode())
    }

    /// Whether there is one of this sender that can go back into its slot.
    pub(crate) fn may_let_go(&self, sender: Address) -> bool {
        self.by_sender.get(&sender.0).is_some_and(|held| !held.is_taken && !held.has_payload)
    }

    /// Whether there is any: it may be given up without a ring.
    pub(crate) fn any(&self) -> bool {
        !self.by_sender.is_empty()
    }

    /// Whether the latest look has left a message with a block for the next one.
    pub(crate) fn has_left_any(&self) -> bool {
        self.has_left_any
    }
}

impl Endpoint {
    /// Looks for all that is new. The descriptor of the endpoint reports what comes later, unless
    /// the endpoint is [silent](Self::set_silent).
    pub(crate) fn poll_stand_in(
        &mut self,
        held: &mut HeldMessages,
        mut look: StandInLook<'_>,
    ) -> Result<Vec<Found>, Fail> {
        self.membership.check_bound()?;
        if self.claims.has_dropped() {
            self.clear_dropped_requests();
        }
        self.begin_receive();
        self.trace.stamp(Moment::Looked);
        let mut found = self.look_at_links(held, &mut look)?;
        if found.is_empty() && self.arm() {
            look.only_marked = false;
            found = self.look_at_links(held, &mut look)?;
        }
        self.leave_receive(found.is_empty());
        Ok(found)
    }

    /// Whether a silent stand-in has something to look at, apart from its pending messages. A few
    /// loads, no system call. A peer that clears the marks of others delays their messages until
    /// the next look at all links.
    pub(crate) fn stand_in_has_news(&self) -> bool {
        self.session.has_events()
            || self.session.control().has_queued_events()
            || self.waiter.pages().any_ready_of(self.peers.index_limit())
    }

    /// Whether a pending message of a stand-in may have moved on; with `is_told`, its take is known
    /// already. A few loads. A message that is not posted needs the doorbell.
    pub(crate) fn has_moved(&self, pending: &PendingRequest, is_told: bool) -> bool {
        let ClaimState::Posted(request) = &*pending.claim.state() else { return true };
        let Some(peer) = self.peers.find_index(request.index) else { return true };
        match peer.link().fate(request.posted) {
            MessageFate::Open => false,
            MessageFate::Taken if request.is_send || !is_told => true,
            MessageFate::Taken => !peer.link().is_quiet(),
            MessageFate::Held(_) | MessageFate::Refused(_) | MessageFate::Gone => true,
        }
    }

    /// Whether an event that was read has ended this endpoint.
    pub(crate) fn has_left(&self) -> bool {
        self.membership.check_bound().is_err()
    }

    /// Whether this stand-in learns of some things by its doorbell alone: a link or a slot that is
    /// not free yet.
    pub(crate) fn needs_rings(&self) -> bool {
        self.claims.any_unposted()
    }

    fn look_at_links(
        &mut self,
        held: &mut HeldMessages,
        look: &mut StandInLook<'_>,
    ) -> Result<Vec<Found>, Fail> {
        let has_events = self.session.has_events() || self.session.control().has_queued_events();
        while self.session.has_events() {
            self.receive_events()?;
        }
        self.forget_dead();
        let mut indexes: Vec<u32> = Vec::new();
        for ready_bitmap in self.waiter.pages().ready_bitmaps() {
            ready_bitmap.drain(|index| indexes.push(index));
        }
        // A link that an event brought may have been marked before.
        if !look.only_marked || has_events {
            indexes.clear();
            indexes.extend(self.peers.indexes());
            held.by_sender.retain(|sender, _| self.peers.find(Address(*sender)).is_some());
        }
        let mut found = self.left_by_ended();
        (held.copied_bytes, held.has_left_any) = (0, false);
        for index in indexes {
            self.look_at_link(index, held, look, &mut found);
        }
        Ok(found)
    }

    fn look_at_link(
        &mut self,
        index: u32,
        held: &mut HeldMessages,
        look: &mut StandInLook<'_>,
        found: &mut Vec<Found>,
    ) {
        // The index may come from shared memory.
        let Some(peer) = self.peers.claimed(index) else { return };
        let from = peer.address();
        if peer.admission().is_closed() {
            return;
        }
        found.extend(self.notified_by(from).map(|bits| Found::Notified { from, bits }));
        let peer = self.peers.get_mut(index);
        if let Some(held) = held.by_sender.get_mut(&from.0)
            && !held.is_given_up
        {
            held.is_given_up = if held.is_taken {
                !peer.link().owes_answer()
            } else {
                peer.link().holding(held.state) != Some(Held::Open)
            };
            if held.is_given_up {
                found.push(Found::GivenUp(from));
            }
        }
        let user = peer.identity().uid;
        let arrival = peer.poll().filter(|arrival| !self.is_answer(index, arrival));
        let link = self.peers.get(index).link();
        let has_block = arrival.is_some() && link.has_incoming_block();
        let brought = has_block.then(|| link.incoming_block_name());
        let arrival = arrival.filter(|_| {
            // What is no name is refused when it is held.
            let bytes = brought.and_then(|it| Some(ClaimedBlockName::decode(&it)?.bytes()));
            bytes.is_none_or(|bytes| look.room.admits_bytes(bytes, held.copied_bytes as u64))
        });
        let peer = self.peers.get_mut(index);
        let has_pulse = peer.has_uncopied_pulse();
        // What its sender published after these pulses waits with them.
        let must_wait = has_pulse && *peer.pulse_batches_mut() >= PULSE_BATCHES;
        if arrival.is_none() && !has_pulse || must_wait || !look.room.admits_user(user) {
            return;
        }
        let message =
            arrival.and_then(|arrival| self.hold_next(index, (arrival, brought), held, found));
        // Its sender may have notified meanwhile, before it sent: the order of the pair.
        found.extend(self.notified_by(from).map(|bits| Found::Notified { from, bits }));
        found.extend(self.copy_pulses(index, from));
        found.extend(message);
    }

    /// Holds a new message, unless this look has copied enough.
    fn hold_next(
        &mut self,
        index: u32,
        (arrival, brought): (Arrival, Option<[u8; BLOCK_NAME_BYTES]>),
        held: &mut HeldMessages,
        found: &mut Vec<Found>,
    ) -> Option<Found> {
        let from = self.peers.get(index).address();
        if brought.is_some() && held.copied_bytes >= LOOK_COPIES_BYTES {
            held.has_left_any = true;
            return None;
        }
        // The sender gave an earlier message up: what the proxy says of it comes too late.
        if held.by_sender.remove(&from.0).is_some_and(|held| !held.is_given_up) {
            found.push(Found::GivenUp(from));
        }
        self.hold((index, from), arrival, brought, held)
    }

    /// What local endpoints left that have ended.
    fn left_by_ended(&mut self) -> Vec<Found> {
        let mut found = Vec::new();
        while let Some((from, kept)) = self.inbox.take_left() {
            match kept {
                Kept::Notification(KeptNotification { bits, .. }) => {
                    found.push(Found::Notified { from, bits });
                }
                Kept::Pulse(pulse, _) => match found.last_mut() {
                    Some(Found::Pulses { from: latest, pulses })
                        if *latest == from && pulses.len() < PULSES_MAX =>
                    {
                        pulses.push(pulse);
                    }
                    _ => found.push(Found::Pulses { from, pulses: vec![pulse] }),
                },
            }
        }
        found
    }

    /// The last notification of a local endpoint that has ended, if the proxy has not seen it.
    pub(crate) fn last_notified_by(&mut self, from: Address) -> Option<u64> {
        // Its link may be as new as its end. What the daemon could not send in time is lost.
        self.catch_up(|own| while own.session.has_events() && own.receive_events().is_ok() {});
        self.notified_by(from)
    }

    /// The notification of a local endpoint that the proxy has not seen.
    pub(crate) fn notified_by(&mut self, from: Address) -> Option<u64> {
        if let Some(Kept::Notification(left)) = self.inbox.take_left_of(from) {
            return Some(left.bits);
        }
        let peer = self.peers.get(self.peers.find(from)?);
        if peer.admission().is_closed() || !peer.has_notification() {
            return None;
        }
        peer.link().take_notifications()
    }

    /// Copies the pulses of a local endpoint that the proxy has not seen.
    fn copy_pulses(&mut self, index: u32, from: Address) -> Option<Found> {
        let peer = self.peers.get_mut(index);
        if !peer.has_uncopied_pulse() {
            return None;
        }
        let copied = std::iter::from_fn(|| peer.link_mut().copy_pulse());
        let pulses: Vec<Pulse> = copied.map(|(code, value)| Pulse { code, value }).collect();
        if pulses.is_empty() {
            return None;
        }
        *peer.pulse_batches_mut() += 1;
        Some(Found::Pulses { from, pulses })
    }

    /// A batch of pulses has left: the places of the first ones, so many, are free. Whether others
    /// of their sender wait.
    pub(crate) fn remove_copied_pulses(&mut self, from: Address, pulses: usize) -> bool {
        let Some(index) = self.peers.find(from) else { return false };
        let peer = self.peers.get_mut(index);
        let batches = peer.pulse_batches_mut();
        *batches = batches.saturating_sub(1);
        peer.link_mut().remove_copied_pulses(pulses);
        peer.has_uncopied_pulse()
    }

    /// The latest batch of pulses, so many, cannot be sent on yet.
    pub(crate) fn uncopy_pulses(&mut self, from: Address, pulses: usize) {
        let Some(index) = self.peers.find(from) else { return };
        let peer = self.peers.get_mut(index);
        let batches = peer.pulse_batches_mut();
        *batches = batches.saturating_sub(1);
        peer.link_mut().uncopy_pulses(pulses);
    }

    /// Whether pulses of this sender wait that the proxy has not seen, or has returned.
    pub(crate) fn has_uncopied_pulses(&self, from: Address) -> bool {
        let index = self.peers.find(from);
        index.is_some_and(|index| self.peers.get(index).has_uncopied_pulse())
    }

    /// Whether a message answers the pending request to its sender, which takes it.
    fn is_answer(&self, index: u32, arrival: &Arrival) -> bool {
        let peer = self.peers.get(index);
        match arrival.state.kind() {
            MessageKind::Reply | MessageKind::Relay => true,
            MessageKind::Send | MessageKind::Request => peer.is_answer_to_pending(),
        }
    }

    fn hold(
        &mut self,
        (index, from): (u32, Address),
        arrival: Arrival,
        brought: Option<[u8; BLOCK_NAME_BYTES]>,
        held: &mut HeldMessages,
    ) -> Option<Found> {
        self.trace.stamp(Moment::Found);
        let (taken, copied) = if let Some(brought) = brought {
            self.hold_with_block((index, from), arrival, &brought)?
        } else {
            let taken = self.conversation(index).on_link(|link| link.hold(arrival)).ok();
            let (taken, bytes) = taken.flatten()?;
            (taken, Copied { bytes, ..Copied::default() })
        };
        let has_block = brought.is_some();
        let (state, is_taken, is_given_up, given) = (arrival.state, false, false, copied.given);
        let has_payload = has_block && !copied.is_block;
        if has_block {
            held.copied_bytes = held.copied_bytes.saturating_add(copied.bytes.len());
        }
        let held_now = HeldMessage { state, is_taken, is_given_up, has_payload, given };
        held.by_sender.insert(from.0, held_now);
        // A call of a trace ends its first part here; the wire and the other node follow.
        self.trace.took(from, arrival, taken.m_type, copied.bytes.len());
        self.trace.done();
        Some(Found::Message {
            from,
            is_request: taken.kind == MessageKind::Request,
            message: Message { source: from, m_type: taken.m_type, payload: taken.payload },
            copied,
        })
    }

    /// The receiver has taken the held message of this sender.
    pub(crate) fn held_was_taken(&mut self, held: &mut HeldMessages, sender: Address) {
        let Some((index, message)) = self.find_held(held, sender) else { return };
        if message.is_taken {
            return;
        }
        let is_request = message.state.kind() == MessageKind::Request;
        let is_taken = self.conversation(index).publish(|talk| {
            let is_taken = talk.link().take_held(message.state);
            (is_taken, if is_request { EndsWait::None } else { EndsWait::OnThisLink })
        });
        // After the take: a sender that gave the message up has the block again, and may have given
        // it once more under the same name.
        if let Some(name) = message.given.filter(|_| is_taken) {
            m3ipc_sys::pause_point("proxy.block_taken");
            self.free_given(sender, &name);
        }
        self.ring_again();
        if !is_request {
            held.by_sender.remove(&sender.0);
        } else if let Some(message) = held.by_sender.get_mut(&sender.0) {
            message.is_taken = true;
        }
    }

    /// The held message of this sender ends with this code: it was never taken, or no answer comes.
    pub(crate) fn held_has_failed(&mut self, held: &mut HeldMessages, sender: Address, code: Code) {
        let Some((index, message)) = self.find_held(held, sender) else { return };
        held.by_sender.remove(&sender.0);
        self.conversation(index).publish(|talk| {
            if message.is_taken {
                talk.link().lose_answer(message.state, code);
            } else if code == Code::Unknown {
                talk.link().lose(message.state);
            } else {
                talk.link().give_back(message.state, code);
            }
            ((), EndsWait::OnThisLink)
        });
        self.ring_again();
    }

    /// The held message of this sender cannot be sent on yet: it lies in its slot as before.
    pub(crate) fn let_held_go(&mut self, held: &mut HeldMessages, sender: Address) {
        let Some((index, message)) = self.find_held(held, sender) else { return };
        held.by_sender.remove(&sender.0);
        self.peers.get_mut(index).link_mut().let_go(message.state);
    }

    /// The answer to a request of this sender that was taken; `false` if the sender awaits none.
    /// After an error the message is held still.
    pub(crate) fn answer_held(
        &mut self,
        held: &mut HeldMessages,
        sender: Address,
        message: &Message,
        beside: &Beside,
    ) -> Result<bool, Fail> {
        let Some((index, _)) = self.find_held(held, sender) else { return Ok(false) };
        self.trace.stamp(Moment::Begun);
        let outgoing = Outgoing::with(message, beside).ok_or(Fail::from(Code::MsgSize))?;
        let is_posted = if outgoing.is_large() {
            // The proxy serves others meanwhile: it waits for no daemon that is silent.
            let limit = DaemonLimit::of(Timeout::NoWait.deadline());
            self.reply_within(sender, outgoing, limit)?;
            true
        } else {
            self.answer(index, MessageKind::Reply, outgoing)? == AnswerOutcome::Posted
        };
        held.by_sender.remove(&sender.0);
        Ok(is_posted)
    }

    /// The request of this sender was taken, and handed to another server, which the sender asks
    /// now. After an error the message is held still.
    pub(crate) fn relay_held(
        &mut self,
        held: &mut HeldMessages,
        sender: Address,
        message: &Message,
        words: &[u8],
    ) -> Result<(), Fail> {
        let Some((index, _)) = self.find_held(held, sender) else { return Ok(()) };
        if !words.is_empty() && words.len() != MESSAGE_BYTES {
            return Err(Code::PeerBroke.into());
        }
        let outgoing = Outgoing::new(message, words).ok_or(Fail::from(Code::MsgSize))?;
        self.answer(index, MessageKind::Relay, outgoing)?;
        held.by_sender.remove(&sender.0);
        Ok(())
    }

    /// Whether a pending request has ended with a relay: what it gave is that of
    /// [`relay_held`](Self::relay_held) on the node of the sender.
    pub(crate) fn was_relayed(pending: &PendingRequest) -> bool {
        pending.is_relayed
    }

    /// Whether a pending request has ended with a block, whose content a poll gave.
    pub(crate) fn was_by_block(pending: &PendingRequest) -> bool {
        pending.is_by_block
    }

    /// Begins a request with what came from another node beside it.
    pub(crate) fn begin_request_with(
        &mut self,
        to: Address,
        message: &Message,
        beside: Beside,
    ) -> Result<PendingRequest, SendRecError> {
        self.begin(MessageKind::Request, to, *message, beside, NO_WAIT_NS)
            .map_err(|fail| SendRecError::of(fail, to))
    }

    /// The same for a message without an answer.
    pub(crate) fn begin_send_with(
        &mut self,
        to: Address,
        message: &Message,
        beside: Beside,
    ) -> Result<PendingSend, SendError> {
        self.begin(MessageKind::Send, to, *message, beside, NO_WAIT_NS)
            .map(PendingSend)
            .map_err(|fail| SendError::of(fail, to))
    }

    /// Gives a pending request up. `true` if the receiver never takes it.
    pub(crate) fn withdraw_request(&mut self, pending: &PendingRequest) -> bool {
        if self.membership.check_bound().is_err() {
            return pending.claim.end_unbound() == Withdrawal::Withdrawn;
        }
        self.disarm();
        let is_withdrawn = match pending.claim.set(ClaimState::Ended) {
            ClaimState::Posted(request) => {
                let is_withdrawn = request.canceller.cancel() == Ok(Cancelled::Withdrawn);
                self.clear_request(pending.to, request, is_withdrawn, &mut Buffer::none());
                is_withdrawn
            }
            ClaimState::Unposted => true,
            // Only a request that was never taken fails with these codes.
            ClaimState::Settled(end, _) => {
                end.is_err_and(|fail| matches!(fail.code, Code::DstDied | Code::Migrate))
            }
            _ => false,
        };
        self.end_claim(pending.to, &pending.claim);
        is_withdrawn
    }

    /// The remote endpoint has died.
    pub(crate) fn say_died(&mut self) -> Result<(), Fail> {
        self.session.control_mut().request_soon(&Request::Nodes(NodesRequest::Died), u64::MAX)?;
        Ok(())
    }

    /// The daemon has ended this endpoint.
    pub(crate) fn note_ended(&mut self) {
        self.membership.end(Code::Shutdown);
    }

    fn find_held(&self, held: &HeldMessages, sender: Address) -> Option<(u32, HeldMessage)> {
        Some((self.peers.find(sender)?, *held.by_sender.get(&sender.0)?))
    }

    /// Whether the receiver has taken this pending request, whose answer is to come.
    pub(crate) fn is_pending_taken(&self, pending: &PendingRequest) -> bool {
        pending.claim.posted().is_some_and(|(index, posted)| {
            self.peers
                .find_index(index)
                .is_some_and(|peer| peer.link().is_taken(posted) == Ok(true))
        })
    }
}
