//! receive: notifications first, then messages in order of arrival.

use super::inbox::Foreign;
use super::wait::Want;
use super::{At, Endpoint, Identity, Trap};
use crate::error::{Fail, ReceiveError};
use crate::timeout::{Deadline, Timeout};
use m3ipc_abi::{ANY, Address, Code, HARDWARE, Message, SYSTEM};
use m3ipc_link::{Arrival, Counter, FLAG_WOKEN, MessageKind, TakenMessage, WaitCall as Verb};
use std::time::{SystemTime, UNIX_EPOCH};

/// Looks at everything, hinted or not, after so many ticks of work: 100 ms at most
/// (a tick is a nanosecond or less). A hint that a hostile peer cleared delays its victim by that.
const TICKS_PER_FULL_LOOK: u64 = 100_000_000;
/// Notifications come before messages; but a peer that notifies without end
/// gets only so many of them in before one message of another.
const NOTES_AGAIN_MAX: u32 = 32;
/// So many messages of one who speaks alone are taken before the clock and all links are looked at.
pub(super) const QUICK_MAX: u32 = 64;
/// How often a message may slip away while it is taken before the call looks up.
const SLIPS_MAX: u32 = 32;

/// Whose message is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Anybody's.
    Any,
    /// This endpoint's alone.
    From(Address),
}

impl From<Address> for Source {
    fn from(address: Address) -> Self {
        if address == ANY { Self::Any } else { Self::From(address) }
    }
}

/// A message with what came beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Long {
    /// The message.
    pub message: Message,
    /// Full length of its long payload, in bytes; more than the room it had means that it was cut.
    pub bytes: usize,
    /// Whether its sender waits for an answer.
    pub is_request: bool,
}

impl Endpoint {
    /// Waits for a message or notification.
    ///
    /// # Errors
    /// [`ReceiveError`]; nothing was taken then.
    pub fn receive(&mut self, source: impl Into<Source>) -> Result<Message, ReceiveError> {
        self.receive_timeout(source, Timeout::Never)
    }

    /// Takes a message or notification that is there. Where the endpoint's
    /// descriptor is in use, it becomes readable when there is more.
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] where there is none, and the others.
    pub fn try_receive(&mut self, source: impl Into<Source>) -> Result<Message, ReceiveError> {
        self.receive_timeout(source, Timeout::Now)
    }

    /// Waits for a message or notification, no longer than that.
    ///
    /// # Errors
    /// [`ReceiveError::TimedOut`], and the others.
    pub fn receive_timeout(
        &mut self,
        source: impl Into<Source>,
        limit: impl Into<Timeout>,
    ) -> Result<Message, ReceiveError> {
        self.receive_long(source, &mut [], limit.into()).map(|long| long.message)
    }

    /// The same with a long payload, which goes to the front of `room` as far as it fits.
    ///
    /// # Errors
    /// [`ReceiveError`].
    pub fn receive_long(
        &mut self,
        source: impl Into<Source>,
        room: &mut [u8],
        limit: Timeout,
    ) -> Result<Long, ReceiveError> {
        let source = source.into();
        let peer = match source {
            Source::Any => ANY,
            Source::From(address) => address,
        };
        let received = self.receive_from(source, room, limit.deadline());
        self.trace_done();
        received.map_err(|fail| ReceiveError::of(fail, peer))
    }

    /// Waits for a request made with sendrec, or a notification; plain sends stay where they are.
    ///
    /// # Errors
    /// [`ReceiveError`].
    pub fn rcvrqst(&mut self, room: &mut [u8], limit: Timeout) -> Result<Long, ReceiveError> {
        let received = self.enter(Trap::Rcvrqst).and_then(|()| {
            self.receive_any(Verb::Rcvrqst, room, limit.deadline(), |arrival| {
                arrival.state.kind == MessageKind::Request
            })
        });
        self.trace_done();
        received.map_err(|fail| ReceiveError::of(fail, ANY))
    }

    /// Whether messages always go through the queue that orders senders by time, also where one speaks
    /// alone: for measurements of what that queue costs.
    pub fn order_always(&mut self, always: bool) {
        self.quick_max = if always { 0 } else { QUICK_MAX };
    }

    fn receive_from(
        &mut self,
        source: Source,
        room: &mut [u8],
        deadline: Deadline,
    ) -> Result<Long, Fail> {
        self.enter(Trap::Receive)?;
        match source {
            Source::Any => self.receive_any(Verb::Receive, room, deadline, |_arrival| true),
            Source::From(address) => self.receive_one(address, room, deadline),
        }
    }

    fn receive_any(
        &mut self,
        verb: Verb,
        room: &mut [u8],
        deadline: Deadline,
        wanted: impl Fn(&Arrival) -> bool + Copy,
    ) -> Result<Long, Fail> {
        let want = Want { verb, peer: ANY, index: None, posted: None, own_cell: false };
        let received =
            self.wait(want, deadline, |endpoint| endpoint.look_for_any(&mut *room, wanted));
        match received {
            // Nothing there: from now on the descriptor tells.
            Err(fail) if fail.code == Code::Again && self.arm(ANY) => {
                let late = self.look_for_any(room, wanted)?;
                late.ok_or(fail)
            }
            other => other,
        }
    }

    #[inline]
    fn look_for_any(
        &mut self,
        room: &mut [u8],
        wanted: impl Fn(&Arrival) -> bool + Copy,
    ) -> Result<Option<Long>, Fail> {
        // News first: the flag is raised before they are announced.
        self.hear()?;
        if self.desk.flags() & FLAG_WOKEN != 0 && self.desk.take_flag(FLAG_WOKEN) {
            return Err(Code::WokenUp.into());
        }
        // Who dies while one sleeps leaves nothing mapped here.
        self.forget_dead();
        match self.take_quickly(room, wanted) {
            Some(found) => found,
            None => self.take_in_order(room, wanted),
        }
    }

    /// The common case without queue and clock: nothing waits to be taken in its turn, nobody
    /// hints, and at most one watched link has a message. `None` where it is another case.
    ///
    /// The stamp of a sender's next message is then bounded by an earlier time than that of
    /// this taking: by a false stamp it gets before those who come meanwhile, once.
    #[inline]
    fn take_quickly(
        &mut self,
        room: &mut [u8],
        wanted: impl Fn(&Arrival) -> bool + Copy,
    ) -> Option<Result<Option<Long>, Fail>> {
        let ordinary = self.quick < self.quick_max
            && self.notes_again == 0
            && self.inbox.is_empty()
            && !self.faces.iter().any(|face| face.hints.any());
        if !ordinary {
            self.quick = 0;
            return None;
        }
        let (index, arrival) = match self.inbox.only_message(&mut self.peers) {
            Ok(Some(found)) if wanted(&found.1) => found,
            Ok(None) => return Some(Ok(None)),
            _ => return None,
        };
        m3ipc_sys::pause_point("server.before_take");
        let incoming = self.take_untimed(index, arrival, room).ok()??;
        m3ipc_sys::pause_point("server.taken");
        self.quick += 1;
        self.latest_note = i32::MIN;
        Some(Ok(Some(self.delivered(index, &incoming))))
    }

    fn take_in_order(
        &mut self,
        room: &mut [u8],
        wanted: impl Fn(&Arrival) -> bool + Copy,
    ) -> Result<Option<Long>, Fail> {
        self.collect();
        if self.notes_again < NOTES_AGAIN_MAX
            && let Some(message) = self.next_notification(false)
        {
            return Ok(Some(message));
        }
        let mut slips = 0;
        while slips < SLIPS_MAX
            && let Some((index, arrival)) = self.inbox.next_message(&mut self.peers, wanted)
        {
            m3ipc_sys::pause_point("server.before_take");
            if let Ok(Some(incoming)) = self.take(index, arrival, room) {
                m3ipc_sys::pause_point("server.taken");
                self.notes_again = 0;
                self.latest_note = i32::MIN;
                let statuses = self.faces.iter().map(|face| &face.status);
                self.inbox.spoke(&mut self.peers, index, statuses);
                return Ok(Some(self.delivered(index, &incoming)));
            }
            // Withdrawn, or the peer broke the rules: the others still wait, and come first.
            slips += 1;
            self.peers.get_mut(index).floor = m3ipc_sys::ticks();
            self.inbox.look_at(&mut self.peers, index);
        }
        if self.notes_again < NOTES_AGAIN_MAX {
            return Ok(None);
        }
        // No message waited: the notifications go on, the others of them first.
        self.notes_again = 0;
        Ok(self.next_notification(true))
    }

    /// Finds out who has something.
    #[inline]
    fn collect(&mut self) {
        self.inbox.look_watched(&mut self.peers);
        for face in &self.faces {
            self.inbox.look_hinted(&mut self.peers, &face.hints);
        }
        if self.taken_ticks.saturating_sub(self.looked_ticks) > TICKS_PER_FULL_LOOK {
            self.looked_ticks = self.taken_ticks;
            self.inbox.look_everywhere(&mut self.peers);
        }
    }

    /// The next notification: of the lowest slot, or (`in_turn`) of the one after the latest let through so.
    fn next_notification(&mut self, in_turn: bool) -> Option<Long> {
        if let Some((source, foreign)) = self.inbox.foreign.pop_first() {
            return Some(self.foreign_note(Address(source), foreign));
        }
        let after = if in_turn { self.turn_note } else { i32::MIN };
        let index = self.inbox.next_notification(&mut self.peers, after)?;
        let slot = self.peers.get(index).address().slot();
        if slot <= self.latest_note {
            self.notes_again += 1;
        }
        self.latest_note = slot;
        if in_turn {
            self.turn_note = slot;
        }
        self.take_notification(index)
    }

    fn take_notification(&mut self, index: u32) -> Option<Long> {
        self.stamp(At::Found);
        let peer = self.peers.get_mut(index);
        let identity = peer.identity;
        let source = identity.address;
        let bits = peer.link.take_notification()?;
        self.trace_noted(index);
        self.taken_ticks = m3ipc_sys::ticks();
        self.desk.count(Counter::Received);
        self.latest = Some(identity);
        let statuses = self.faces.iter().map(|face| &face.status);
        self.inbox.spoke(&mut self.peers, index, statuses);
        let has_argument = source == HARDWARE || source == SYSTEM;
        Some(note(source, if has_argument { bits } else { 0 }))
    }

    fn receive_one(
        &mut self,
        source: Address,
        room: &mut [u8],
        deadline: Deadline,
    ) -> Result<Long, Fail> {
        // Its notification may come in its name without a link.
        let src_died = |fail: Fail| match fail.code {
            Code::DstDied => Code::SrcDied.into(),
            _ => fail,
        };
        if let Some(foreign) = self.inbox.foreign.remove(&source.0) {
            return Ok(self.foreign_note(source, foreign));
        }
        loop {
            let index = match self.contact(source, deadline) {
                // It is not there yet; when it comes, it rings.
                Err(fail) if fail.code == Code::Again && self.arm(source) => return Err(fail),
                other => other.map_err(src_died)?,
            };
            let want = Want {
                verb: Verb::Receive,
                peer: source,
                index: Some(index),
                posted: None,
                own_cell: false,
            };
            let received =
                self.wait(want, deadline, |endpoint| endpoint.look_for_one(index, &mut *room));
            match received {
                // The peer never got that link, and there is another now.
                Err(fail) if fail.code == Code::Unknown => {}
                Err(fail) if fail.code == Code::Again && self.arm(source) => {
                    return self.look_for_one(index, room)?.ok_or(fail);
                }
                other => return other,
            }
        }
    }

    fn look_for_one(&mut self, index: u32, room: &mut [u8]) -> Result<Option<Long>, Fail> {
        let peer = self.peers.get_mut(index);
        let address = peer.address();
        if peer.has_notification()
            && let Some(message) = self.take_notification(index)
        {
            return Ok(Some(message));
        }
        let peer = self.peers.get_mut(index);
        if let Some(arrival) = peer.look().or_else(|| peer.look_unasked())
            && let Some(incoming) = self.take(index, arrival, room)?
        {
            return Ok(Some(self.delivered(index, &incoming)));
        }
        self.hear()?;
        if let Some(foreign) = self.inbox.foreign.remove(&address.0) {
            return Ok(Some(self.foreign_note(address, foreign)));
        }
        self.peers.get(index).check(Code::SrcDied)?;
        Ok(None)
    }

    /// A notification that came through the daemon.
    fn foreign_note(&mut self, source: Address, foreign: Foreign) -> Long {
        let (pid, uid, gid) = foreign.by.unwrap_or((-1, u32::MAX, u32::MAX));
        self.latest = Some(Identity { address: source, pid, uid, gid });
        let has_argument = source == HARDWARE || source == SYSTEM;
        note(source, if has_argument { foreign.bits } else { 0 })
    }

    fn delivered(&self, index: u32, incoming: &TakenMessage) -> Long {
        let source = self.peers.get(index).address();
        Long {
            message: Message { source, m_type: incoming.m_type, payload: incoming.payload },
            bytes: incoming.long_bytes,
            is_request: incoming.kind == MessageKind::Request,
        }
    }
}

/// A notification as it is delivered, stamped with the time of day.
fn note(source: Address, bits: u64) -> Long {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, rest_ns) = (now.as_secs().cast_signed(), i64::from(now.subsec_nanos()));
    let message = Message::notification(source, bits, seconds, rest_ns);
    Long { message, bytes: 0, is_request: false }
}
