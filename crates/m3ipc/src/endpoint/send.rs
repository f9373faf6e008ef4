//! send: post, wake, wait until it is taken; or take it back.

use super::blocks::{is_large, is_too_long};
use super::wait::Want;
use super::{At, Endpoint, Trap};
use crate::error::{Fail, SendError};
use crate::timeout::{Deadline, Timeout};
use m3ipc_abi::{ANY, Address, BLOCK_NAME_BYTES, Code, Message, PAYLOAD_BYTES};
use m3ipc_link::{
    AnswerOutcome, Counter, MessageKind, Payload, RuleBroken, SlotState, WaitCall as Verb, WaitMode,
};

/// How long a peer that looks may take until it finds a message.
const LOOKING_GRACE_NS: u64 = 20_000;
/// How long a peer that sleeps may take until it has woken.
const WAKING_GRACE_NS: u64 = 10_000_000;

/// A message as it is posted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing<'a> {
    pub(super) m_type: i32,
    pub(super) payload: &'a [u8; PAYLOAD_BYTES],
    pub(super) long: &'a [u8],
    /// The name of a block, in place of a long payload.
    pub(super) block: Option<&'a [u8; BLOCK_NAME_BYTES]>,
}

impl<'a> Outgoing<'a> {
    pub(super) fn new(message: &'a Message, long: &'a [u8]) -> Result<Self, Fail> {
        if is_too_long(long.len()) {
            return Err(Code::MsgSize.into());
        }
        Ok(Self { m_type: message.m_type, payload: &message.payload, long, block: None })
    }

    /// A message with the name of a block.
    pub(super) fn with_block(message: &'a Message, name: &'a [u8; BLOCK_NAME_BYTES]) -> Self {
        Self { m_type: message.m_type, payload: &message.payload, long: &[], block: Some(name) }
    }

    /// What goes beside the message in the link.
    #[inline]
    pub(super) fn cargo(self) -> Payload<'a> {
        match self.block {
            Some(name) => Payload::block(name),
            None => self.long.into(),
        }
    }

    /// The same without the block, which has been given with it already.
    pub(super) fn without_block(self) -> Self {
        Self { block: None, ..self }
    }

    /// The same message with a block in place of its long payload.
    pub(super) fn carrying<'b>(self, name: &'b [u8; BLOCK_NAME_BYTES]) -> Outgoing<'b>
    where
        'a: 'b,
    {
        Outgoing { long: &[], block: Some(name), ..self }
    }

    /// The same with another message before the long payload.
    pub(super) fn saying<'b>(self, message: &'b Message) -> Outgoing<'b>
    where
        'a: 'b,
    {
        Outgoing { m_type: message.m_type, payload: &message.payload, ..self }
    }
}

impl Endpoint {
    /// Sends a message and waits until it is taken.
    ///
    /// # Errors
    /// [`SendError`]; whatever it is, the message was not taken.
    pub fn send(&mut self, to: Address, message: &Message) -> Result<(), SendError> {
        self.send_long(to, message, &[], Timeout::Never)
    }

    /// Sends a message if the receiver waits for it now.
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] where it does not, and the others.
    pub fn try_send(&mut self, to: Address, message: &Message) -> Result<(), SendError> {
        self.send_long(to, message, &[], Timeout::Now)
    }

    /// Sends a message and waits until it is taken, no longer than that.
    ///
    /// # Errors
    /// [`SendError::TimedOut`], and the others.
    pub fn send_timeout(
        &mut self,
        to: Address,
        message: &Message,
        limit: impl Into<Timeout>,
    ) -> Result<(), SendError> {
        self.send_long(to, message, &[], limit.into())
    }

    /// Sends a message with a long payload: up to 1,792 bytes in the link, more as a block by itself (at most 1 GiB).
    ///
    /// # Errors
    /// [`SendError::TooLong`], and the others.
    pub fn send_long(
        &mut self,
        to: Address,
        message: &Message,
        long: &[u8],
        limit: Timeout,
    ) -> Result<(), SendError> {
        let sent = Outgoing::new(message, long)
            .and_then(|outgoing| self.send_message(to, outgoing, limit.deadline()));
        sent.map_err(|fail| SendError::of(fail, to))
    }

    pub(super) fn send_message(
        &mut self,
        to: Address,
        outgoing: Outgoing<'_>,
        deadline: Deadline,
    ) -> Result<(), Fail> {
        self.enter(Trap::Send)?;
        loop {
            match self.send_once(to, outgoing, deadline) {
                // The peer never got that link, and there is another now.
                Err(fail) if fail.code == Code::Unknown => {}
                other => return other,
            }
        }
    }

    fn send_once(
        &mut self,
        to: Address,
        outgoing: Outgoing<'_>,
        deadline: Deadline,
    ) -> Result<(), Fail> {
        let index = self.contact(to, deadline)?;
        self.peers.get(index).check(Code::DstDied)?;
        self.peers.get(index).allow(MessageKind::Send)?;
        if is_large(outgoing.long.len()) {
            let wrapped = self.wrap(index, outgoing.long)?;
            let name = wrapped.bytes;
            let sent = self.send_over(index, outgoing.carrying(&name), deadline);
            self.unwrap_if_failed(Some(wrapped), &sent);
            return sent;
        }
        self.send_over(index, outgoing, deadline)
    }

    #[inline]
    fn send_over(
        &mut self,
        index: u32,
        outgoing: Outgoing<'_>,
        deadline: Deadline,
    ) -> Result<(), Fail> {
        // Who awaits an answer from here takes any message for one.
        if self.answer(index, MessageKind::Reply, outgoing)? == AnswerOutcome::Posted {
            return Ok(());
        }
        let graced = self.grace(index, deadline);
        let posted = self.post(index, MessageKind::Send, outgoing, deadline)?;
        let waited = self.wait_taken(index, posted, deadline, graced, Verb::Send);
        self.settle_send(index, posted, waited)
    }

    /// Posts a message where the cell is free, and wakes the peer. From here
    /// on the message is the peer's to take.
    pub(super) fn post(
        &mut self,
        index: u32,
        kind: MessageKind,
        outgoing: Outgoing<'_>,
        deadline: Deadline,
    ) -> Result<SlotState, Fail> {
        self.wait_free(index, deadline)?;
        // Two who send to each other would wait for ever; the second one is told.
        if !deadline.no_wait && self.peer_sends_here(index) {
            return Err(Code::Locked.into());
        }
        let link = &mut self.peers.get_mut(index).link;
        if let Some(tracing) = &mut self.tracing {
            tracing.ready(None);
        }
        let Outgoing { m_type, payload, .. } = outgoing;
        let posted = link.post(kind, m3ipc_sys::ticks(), m_type, payload, outgoing.cargo());
        self.stamp(At::Published);
        m3ipc_sys::pause_point("client.posted");
        self.alert(index, true);
        m3ipc_sys::pause_point("client.woken");
        self.trace_gave(index, m_type, outgoing.long.len());
        Ok(posted)
    }

    /// Whether the peer is itself sending to us.
    fn peer_sends_here(&self, index: u32) -> bool {
        let found = self.peers.get(index).link.peek();
        matches!(found, Ok(Some(arrival)) if matches!(arrival.state.kind, MessageKind::Send | MessageKind::Request))
    }

    /// An answer of ours may still lie in the cell.
    #[inline]
    fn wait_free(&mut self, index: u32, deadline: Deadline) -> Result<(), Fail> {
        if self.peers.get(index).link.is_free().map_err(|broken| self.poison(index, broken))? {
            return Ok(());
        }
        let peer = self.peers.get(index).address();
        let want =
            Want { verb: Verb::Send, peer, index: Some(index), posted: None, own_cell: true };
        self.wait(want, deadline, |endpoint| {
            let free = endpoint.peers.get(index).link.is_free();
            if free.map_err(|broken| endpoint.poison(index, broken))? {
                return Ok(Some(()));
            }
            endpoint.hear()?;
            endpoint.peers.get(index).check(Code::DstDied)?;
            Ok(None)
        })
    }

    /// Waits until a message is taken; `graced` is the limit where there is no time to wait.
    pub(super) fn wait_taken(
        &mut self,
        index: u32,
        posted: SlotState,
        deadline: Deadline,
        graced: Deadline,
        verb: Verb,
    ) -> Result<(), Fail> {
        let peer = self.peers.get(index).address();
        // Who only gives the peer time to wake is not blocked, and in no circle.
        let verb = if deadline.no_wait { Verb::None } else { verb };
        let want = Want { verb, peer, index: Some(index), posted: Some(posted), own_cell: true };
        let taken = self.wait(want, graced, |endpoint| {
            let taken = endpoint.peers.get(index).link.is_taken(posted);
            if taken.map_err(|broken| endpoint.poison(index, broken))? {
                return Ok(Some(()));
            }
            endpoint.hear()?;
            endpoint.peers.get(index).check(Code::DstDied)?;
            endpoint.check_crossing(index, posted, deadline)?;
            Ok(None)
        });
        match taken {
            Err(fail) if deadline.no_wait && fail.code == Code::TimedOut => Err(Code::Again.into()),
            other => other,
        }
    }

    /// How long a call that would not wait gives a peer that waits for it. To be
    /// asked before the post, which wakes the peer. A link that was never used
    /// may be news to the peer, and may have woken it just now.
    pub(super) fn grace(&self, index: u32, deadline: Deadline) -> Deadline {
        if !deadline.no_wait {
            return deadline;
        }
        let unused = self.peers.get(index).link.is_unused();
        self.grace_of(index, unused)
    }

    /// The same for an answer: who waits for exactly this endpoint made the link itself.
    pub(super) fn grace_of_answer(&self, index: u32) -> Deadline {
        self.grace_of(index, false)
    }

    fn grace_of(&self, index: u32, just_woken: bool) -> Deadline {
        let wakes = match self.peers.get(index).status.mode() {
            WaitMode::Awake => just_woken,
            WaitMode::OnLinks(source) | WaitMode::AtDoorbell(source) => {
                source == ANY || source == self.address
            }
        };
        let grace_ns = if wakes { WAKING_GRACE_NS } else { LOOKING_GRACE_NS };
        Deadline { at_ns: m3ipc_sys::monotonic_ns() + grace_ns, no_wait: false }
    }

    /// Both may have posted at once, each not seeing the other: the later one
    /// by its stamp (of equals, the one whose request made the link not) goes back.
    pub(super) fn check_crossing(
        &self,
        index: u32,
        posted: SlotState,
        deadline: Deadline,
    ) -> Result<(), Fail> {
        let link = &self.peers.get(index).link;
        if deadline.no_wait || link.is_taken(posted) != Ok(false) {
            return Ok(());
        }
        match link.peek() {
            Ok(Some(arrival))
                if matches!(arrival.state.kind, MessageKind::Send | MessageKind::Request)
                    && link.is_younger_than(arrival.stamp) =>
            {
                Err(Code::Locked.into())
            }
            _ => Ok(()),
        }
    }

    /// Ends a send: it was taken, or it goes back now, or it was taken after all.
    fn settle_send(
        &mut self,
        index: u32,
        posted: SlotState,
        waited: Result<(), Fail>,
    ) -> Result<(), Fail> {
        if let Err(fail) = waited {
            if matches!(fail.code, Code::PeerBroke | Code::Unknown) {
                return Err(fail);
            }
            if self
                .peers
                .get(index)
                .link
                .withdraw(posted)
                .map_err(|broken| self.poison(index, broken))?
            {
                return Err(fail);
            }
        }
        self.desk.count(Counter::Sent);
        Ok(())
    }

    /// Makes the peer look, and wakes it where it sleeps and waits for us.
    #[inline]
    pub(super) fn alert(&mut self, index: u32, hint: bool) {
        let peer = self.peers.get(index);
        if hint {
            peer.hint();
        }
        match peer.status.mode() {
            WaitMode::Awake => {}
            WaitMode::OnLinks(source) if source == ANY || source == self.address => {
                self.stamp(At::Waking);
                self.peers.get(index).link.wake_peer();
                self.stamp(At::Woken);
                self.desk.count(Counter::Woke);
            }
            WaitMode::AtDoorbell(source) if source == ANY || source == self.address => {
                self.stamp(At::Waking);
                self.ring(index);
                self.stamp(At::Woken);
                self.desk.count(Counter::Woke);
            }
            WaitMode::OnLinks(_) | WaitMode::AtDoorbell(_) => {}
        }
    }

    /// Wakes a peer that sleeps and waits for exactly this endpoint; one that
    /// waits for anybody has no use for it.
    #[inline]
    pub(super) fn alert_who_waits_here(&mut self, index: u32) {
        match self.peers.get(index).status.mode() {
            WaitMode::OnLinks(source) | WaitMode::AtDoorbell(source) if source == self.address => {
                self.alert(index, false);
            }
            _ => {}
        }
    }

    /// The peer broke the rules: nothing more is said over this link.
    pub(super) fn poison(&mut self, index: u32, _broken: RuleBroken) -> Fail {
        self.peers.get_mut(index).poisoned = true;
        self.desk.count(Counter::Poisoned);
        Code::PeerBroke.into()
    }
}
