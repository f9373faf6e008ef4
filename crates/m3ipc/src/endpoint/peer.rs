//! One peer: its identity, the link with it, and what each part of the endpoint knows of it.

use super::admission::Admission;
use super::call_stop::CallStop;
use super::peer_copies::PeerCopies;
use super::queue_marks::QueueMarks;
use crate::error::Fail;
use crate::info::Identity;
use crate::timeout::Deadline;
use m3ipc_abi::{Address, Code, Message};
use m3ipc_link::{
    Arrival, Link, LinkSide, Look, MessageKind, PeerStatus, ReadyBitmap, SlotState, WaitMode,
};
use m3ipc_sys::DoorbellSender;
use m3ipc_wire::{PeerInfo, RecalledPeer};
use std::os::fd::OwnedFd;

/// The stamp of an answer to an endpoint that receives without a request. Requests count from 1.
pub(super) const UNASKED: u64 = 0;

/// One peer and everything shared with it.
#[derive(Debug)]
pub(super) struct Peer {
    identity: Identity,
    /// The number of its bind.
    life: u64,
    link: Link,
    status: PeerStatus,
    ready_bitmap: ReadyBitmap,
    /// The index of this link in the peer's ready bitmap.
    index_there: u32,
    doorbell_sender: Option<DoorbellSender>,
    admission: Admission,
    marks: QueueMarks,
    copies: PeerCopies,
    /// The batches of pulses of this peer that a proxy has under way.
    pulse_batches: u8,
}

impl Peer {
    /// Maps a link that the daemon made.
    pub(super) fn adopt(info: &PeerInfo, fds: Vec<OwnedFd>, side: LinkSide) -> Result<Self, Fail> {
        let Ok([link, status, ready_bitmap]) = <[OwnedFd; 3]>::try_from(fds) else {
            return Err(crate::control::unexpected());
        };
        let mut link = Link::map(link, side)?;
        let admission = Admission::new(info.may_send, info.may_receive);
        if admission.may_hold() {
            link.let_peer_hold();
        }
        Ok(Self {
            identity: Identity {
                address: Address(info.address),
                pid: info.pid,
                uid: info.uid,
                gid: info.gid,
            },
            life: info.life,
            link,
            status: PeerStatus::map(status)?,
            ready_bitmap: ReadyBitmap::map(ready_bitmap)?,
            index_there: info.index_there,
            doorbell_sender: None,
            admission,
            marks: QueueMarks::default(),
            copies: PeerCopies::default(),
            pulse_batches: 0,
        })
    }

    #[inline(always)]
    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    #[inline(always)]
    pub(super) fn address(&self) -> Address {
        self.identity.address
    }

    /// The number of its bind: a later endpoint of the address has another.
    #[inline]
    pub(super) fn life(&self) -> u64 {
        self.life
    }

    /// What a new daemon is told of this link.
    pub(super) fn recalled(&self) -> RecalledPeer {
        RecalledPeer {
            address: self.address().0,
            life: self.life,
            was_stand_in: self.admission.may_hold(),
        }
    }

    #[inline(always)]
    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    #[inline(always)]
    pub(super) fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }

    /// How the peer waits.
    #[inline]
    pub(super) fn mode(&self) -> WaitMode {
        self.status.mode()
    }

    /// Whether the peer surely needs no wake-up.
    #[inline(always)]
    pub(super) fn is_awake(&self) -> bool {
        self.status.is_awake()
    }

    /// The CPU on which the peer was last seen.
    #[inline]
    pub(super) fn cpu(&self) -> u32 {
        self.status.cpu()
    }

    /// The priority that the peer claims.
    #[inline]
    pub(super) fn priority(&self) -> u8 {
        self.status.priority()
    }

    /// The longest payload that the peer says it takes, in bytes.
    pub(super) fn receive_limit(&self) -> usize {
        self.status.receive_limit()
    }

    /// The thread that, as the peer claims, takes over the priorities of clients; 0 for none.
    pub(super) fn inheriting_thread(&self) -> u32 {
        self.status.thread()
    }

    /// The messages that may pass now.
    #[inline(always)]
    pub(super) fn admission(&self) -> &Admission {
        &self.admission
    }

    /// The messages that may pass now, to be changed.
    #[inline]
    pub(super) fn admission_mut(&mut self) -> &mut Admission {
        &mut self.admission
    }

    /// What the inbox has of this peer.
    #[inline]
    pub(super) fn marks(&mut self) -> &mut QueueMarks {
        &mut self.marks
    }

    /// The copies with this peer.
    #[inline]
    pub(super) fn copies(&self) -> &PeerCopies {
        &self.copies
    }

    /// The link with this peer, and the copies with it, to be changed.
    #[inline]
    pub(super) fn link_and_copies(&mut self) -> (&Link, &mut PeerCopies) {
        (&self.link, &mut self.copies)
    }

    /// The copies with this peer, to be changed.
    #[inline]
    pub(super) fn copies_mut(&mut self) -> &mut PeerCopies {
        &mut self.copies
    }

    /// Rings the doorbell of the peer; `false` if there is no sender, or the doorbell is gone.
    pub(super) fn ring(&self) -> bool {
        self.doorbell_sender.as_ref().is_some_and(DoorbellSender::ring)
    }

    /// From now on the doorbell of the peer is rung by this sender.
    pub(super) fn set_doorbell_sender(&mut self, doorbell_sender: DoorbellSender) {
        self.doorbell_sender = Some(doorbell_sender);
    }

    /// Takes a short message of the peer; `None` if its sender withdrew it.
    #[inline(always)]
    pub(super) fn take_short(&mut self, kind: MessageKind, found: SlotState) -> Option<Message> {
        self.link.take_short(kind, found, self.identity.address)
    }

    /// Fails if the link is closed; a dead peer gives the code `died`.
    #[inline]
    pub(super) fn check(&self, died: Code) -> Result<(), CallStop> {
        self.admission.check(died)
    }

    /// As [`check`](Self::check), for a party that nobody asks again: one that moves to another
    /// node counts as dead.
    #[inline]
    pub(super) fn check_party(&self, died: Code) -> Result<(), CallStop> {
        self.check(died).map_err(|stop| end_of_party(stop, died))
    }

    /// Fails if no message of this kind may go to the peer; a dead peer gives the code `died`.
    #[inline]
    pub(super) fn admit(&self, kind: MessageKind, died: Code) -> Result<(), CallStop> {
        self.check(died)?;
        Ok(self.admission.allow(kind)?)
    }

    /// As [`admit`](Self::admit), to a party: see [`check_party`](Self::check_party).
    #[inline]
    pub(super) fn admit_party(&self, kind: MessageKind, died: Code) -> Result<(), CallStop> {
        self.admit(kind, died).map_err(|stop| end_of_party(stop, died))
    }

    /// Whether the peer is sending to this endpoint.
    pub(super) fn sends_here(&self) -> bool {
        matches!(self.link.peek(), Ok(Some(arrival)) if is_outgoing(arrival.state.kind()))
    }

    /// Fails if both sides have posted at once, and this endpoint has to give way. The later
    /// message by its stamp is withdrawn; of equal stamps, that of the side that did not ask for
    /// the link.
    pub(super) fn check_crossing(
        &self,
        posted: SlotState,
        deadline: Deadline,
    ) -> Result<(), CallStop> {
        if deadline.no_wait || self.link.is_taken(posted) != Ok(false) {
            return Ok(());
        }
        match self.link.peek() {
            Ok(Some(arrival))
                if is_outgoing(arrival.state.kind())
                    && self.link.is_younger_than(arrival.stamp) =>
            {
                Err(Code::Locked.into())
            }
            _ => Ok(()),
        }
    }

    /// The message or request of the peer, if privileges allow it.
    #[inline]
    pub(super) fn poll(&mut self) -> Option<Arrival> {
        if self.admission.is_closed() {
            return None;
        }
        match self.link.peek() {
            Ok(found) => found.filter(|arrival| {
                let kind = arrival.state.kind();
                is_outgoing(kind) && self.admission.receives(kind) && !self.is_answer_to_pending()
            }),
            Err(_broken) => {
                self.admission.set_poisoned();
                None
            }
        }
    }

    /// What the peer has sent, by two loads.
    #[inline(always)]
    pub(super) fn look_for_all(&self) -> Look {
        self.link.look_for_all()
    }

    /// A message or request of the peer, as [`poll`](Self::poll), if no request is pending.
    #[inline]
    pub(super) fn look(&self) -> Option<(MessageKind, SlotState)> {
        self.link.look().filter(|(kind, _)| self.admission.receives(*kind))
    }

    /// Whether any message of the peer answers the pending request: the peer has taken that. A
    /// pending send has no answer.
    pub(super) fn is_answer_to_pending(&self) -> bool {
        self.admission.pending().is_some_and(|pending| {
            pending.kind() == MessageKind::Request && self.link.is_taken(pending) == Ok(true)
        })
    }

    /// An answer of the peer to a receive without a request.
    pub(super) fn poll_unasked_reply(&self) -> Option<Arrival> {
        let found = self.link.peek().ok().flatten();
        found.filter(|arrival| {
            arrival.state.kind() == MessageKind::Reply && arrival.stamp == UNASKED
        })
    }

    /// Whether the peer has sent a notification that privileges allow.
    #[inline]
    pub(super) fn has_notification(&self) -> bool {
        self.link.has_notification() && self.admission.receives_notification()
    }

    /// Whether the peer has sent a pulse that privileges allow and that was not copied.
    pub(super) fn has_uncopied_pulse(&self) -> bool {
        self.link.has_uncopied_pulse() && self.admission.receives_notification()
    }

    /// The batches of pulses of this peer that a proxy has under way. They end with the link.
    pub(super) fn pulse_batches_mut(&mut self) -> &mut u8 {
        &mut self.pulse_batches
    }

    /// Marks this link in the peer's ready bitmap, unless it is in the peer's hot set.
    #[inline(always)]
    pub(super) fn mark_link_ready(&self) {
        self.ready_bitmap.set_unless_hot(self.index_there, &self.status);
    }
}

/// Whether a message of this kind begins a conversation, and answers no request.
fn is_outgoing(kind: MessageKind) -> bool {
    matches!(kind, MessageKind::Send | MessageKind::Request)
}

/// A party that moves counts as dead.
#[cold]
fn end_of_party(stop: CallStop, died: Code) -> CallStop {
    if stop.is(Code::Migrate) { died.into() } else { stop }
}
