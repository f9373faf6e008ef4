//! The take of messages and notifications: from links, and from what came through the daemon.

use super::Endpoint;
use super::buffer::Buffer;
use super::received::{Received, ReceivedKind};
use super::stamps::Moment;
use super::waiting_arrivals::NextArrival;
use crate::error::Fail;
use m3ipc_abi::Address;
use m3ipc_link::waiting::EndsWait;
use m3ipc_link::{Arrival, Counter, MessageKind, RuleBroken, TakenMessage};

impl Endpoint {
    /// Copies and takes a message and notes the time; `None` if its sender withdrew it.
    pub(super) fn take(
        &mut self,
        index: u32,
        arrival: Arrival,
        buffer: &mut Buffer<'_>,
    ) -> Result<Option<TakenMessage>, Fail> {
        let taken = self.take_untimed(index, arrival, buffer)?;
        if taken.is_some() {
            let now_ticks = m3ipc_sys::ticks();
            self.inbox.order().note_time(now_ticks);
            self.peers.get_mut(index).marks().note_take(now_ticks);
        }
        Ok(taken)
    }

    /// Copies and takes a message without reading the clock.
    #[inline]
    pub(super) fn take_untimed(
        &mut self,
        index: u32,
        arrival: Arrival,
        buffer: &mut Buffer<'_>,
    ) -> Result<Option<TakenMessage>, Fail> {
        if self.peers.get(index).link().has_incoming_block() {
            return self.take_with_block(index, arrival, buffer);
        }
        self.take_now(index, arrival, buffer)
    }

    /// Copies and takes a message whose block, if any, has been accepted.
    #[inline]
    pub(super) fn take_now(
        &mut self,
        index: u32,
        arrival: Arrival,
        buffer: &mut Buffer<'_>,
    ) -> Result<Option<TakenMessage>, Fail> {
        let mut sender = self.conversation(index);
        sender.trace().stamp(Moment::Found);
        let identity = sender.peer().identity();
        let taken = sender.try_publish(|sender| {
            let taken = sender
                .on_link(|link| link.take(arrival, buffer.for_link(link.claimed_long_bytes())))?;
            let Some(incoming) = taken else { return Ok((None, EndsWait::None)) };
            if !buffer.is_filled(incoming.long_bytes) {
                return Err(sender.poison(RuleBroken));
            }
            let (m_type, bytes) = (incoming.m_type, incoming.long_bytes);
            sender.trace().took(identity.address, arrival, m_type, bytes);
            let ends = match incoming.kind {
                // The sender may have slept until now.
                MessageKind::Send => EndsWait::OnThisLink,
                // A server with more to send may wait for the slot.
                MessageKind::Reply | MessageKind::Relay => EndsWait::ForThisEndpoint,
                // A message that this endpoint has posted becomes the answer.
                MessageKind::Request if sender.link().is_free() == Ok(false) => {
                    EndsWait::OnThisLink
                }
                MessageKind::Request => EndsWait::None,
            };
            Ok((Some(incoming), ends))
        })?;
        self.ring_again();
        if let Some(incoming) = &taken {
            if self.priorities.inherits() && incoming.kind == MessageKind::Request {
                self.note_client(index);
                self.inherit();
            }
            self.inbox.note_taken(identity, incoming.kind.into());
            self.session.page().count(Counter::Received);
            self.areas.forget_incoming();
        }
        Ok(taken)
    }

    /// Takes a notification, a pulse or the report of a death. Of the dead, the report comes last.
    pub(super) fn take_notified(&mut self, what: NextArrival) -> Option<Received> {
        match what {
            NextArrival::Kept(source) => self.take_kept(source),
            NextArrival::Death => match self.inbox.left_by_dead() {
                Some(source) => self.take_kept(source),
                None => self.inbox.take_death(),
            },
            NextArrival::Timer => self.take_timer(),
            NextArrival::Notification(index) => {
                self.inbox.unmark_notification(&mut self.peers, index);
                self.take_notification(index)
            }
            NextArrival::Message(_) => None,
        }
    }

    /// Takes the notification of a peer, or else its first pulse, if it has one. A receive that
    /// waited takes the first notification: that one ended the wait.
    pub(super) fn take_notification(&mut self, index: u32) -> Option<Received> {
        self.trace.stamp(Moment::Found);
        let peer = self.peers.get_mut(index);
        let identity = peer.identity();
        let source = identity.address;
        let has_pulse = peer.link().has_pulse();
        let bits = if has_pulse && peer.marks().is_pulse_due() {
            None
        } else if self.inbox.has_waited() {
            peer.link().take_first_notification()
        } else {
            peer.link().take_notifications()
        };
        peer.marks().note_pass(has_pulse && bits.is_some());
        let received = match bits {
            Some(bits) => {
                self.inbox.note_taken(identity, ReceivedKind::Notification);
                Received::of_notification(source, bits)
            }
            None => Received::pulse(self.take_pulse(index)?),
        };
        self.trace.took_notification(source);
        self.inbox.order().note_time(m3ipc_sys::ticks());
        self.session.page().count(Counter::Received);
        let statuses = self.waiter.pages().statuses();
        self.inbox.record_sender(&mut self.peers, index, statuses);
        if self.peers.get(index).has_notification() {
            // Later notifications and pulses wait for the next receive.
            self.inbox.poll_link(&mut self.peers, index);
        }
        Some(received)
    }

    /// Takes a notification of a source that lies on no link, if there is one.
    pub(super) fn take_kept(&mut self, source: Address) -> Option<Received> {
        self.inbox.take_kept(source, self.session.slept_since_ns())
    }
}
