//! `receive` and `rcvrqst`: which message they take, and in which order.

use std::collections::BTreeSet;

use m3ipc_abi::{Address, Code, Message, Slot};

use super::machine::{Endpoint, Fault, Machine, State};
use super::op::{Completion, Fate, Limit, Source};

impl State {
    /// Whether a message of `sender` ends this wait.
    ///
    /// The contract: any send or reply of `dst` ends a sendrec, and third parties queue. A receive
    /// from one source takes only its messages. A rcvrqst takes only requests of sendrec.
    pub(super) fn takes_message(self, sender: Address, sendrec: bool) -> bool {
        match self {
            Self::Receiving { src, requests_only, .. } => {
                src.fits(sender) && (sendrec || !requests_only)
            }
            Self::Awaiting { dst, .. } => dst == sender,
            Self::Running | Self::Sending { .. } | Self::AwaitingUnbind { .. } => false,
        }
    }

    /// Whether a notification of `source` ends this wait.
    ///
    /// The contract: a notification never ends a sendrec. A receive from one source delivers only
    /// its notifications. A rcvrqst also delivers notifications.
    pub(super) fn takes_notification(self, source: Address) -> bool {
        matches!(self, Self::Receiving { src, .. } if src.fits(source))
    }
}

impl Endpoint {
    /// The slots whose notification or pulse is pending, the lowest first.
    pub(super) fn notifying(&self) -> impl Iterator<Item = Slot> {
        let with_pulses = self.pulses.iter().filter(|(_, pulses)| !pulses.is_empty());
        let mut slots: BTreeSet<Slot> = with_pulses.map(|(slot, _)| *slot).collect();
        slots.extend(&self.notified);
        slots.into_iter()
    }
}

impl Source {
    fn fits(self, source: Address) -> bool {
        match self {
            Self::Any => true,
            Self::From(wanted) => wanted == source,
        }
    }
}

impl Machine {
    /// The contract, in this order: a remembered wakeup (ANY only); notifications and pulses, the
    /// lowest slot first, one per call, of a peer its notification before its pulses; messages in
    /// order of arrival. A dead source at entry gives -108, after what it left.
    pub(super) fn receive(&mut self, me: Address, src: Source, requests_only: bool) {
        if let Source::From(source) = src
            && let Some(message) = self.take_left(me, source)
        {
            return self.hand_over(me, message);
        }
        if let Source::From(source) = src
            && let Err(code) = self.check_peer(me, source, Code::SrcDied)
        {
            return self.fail(me, code);
        }
        if src == Source::Any && core::mem::take(&mut self.living(me).woken) {
            return self.fail(me, Code::WokenUp);
        }
        let waiting = State::Receiving { src, requests_only, stamp: self.now() };
        let living = self.first_notification(me, waiting);
        if let Some(dead) = self.first_left(me, src)
            && living.is_none_or(|source| dead.slot() <= source.slot())
        {
            let message = self.take_left(me, dead).expect("it left something");
            return self.hand_over(me, message);
        }
        if let Some(source) = living {
            let message = match self.living(me).notified.remove(&source.slot()) {
                true => Some(notification(source)),
                false => self.take_pulse(me, source),
            };
            return self.hand_over(me, message.expect("this source has one of them"));
        }
        if let Some(sender) = self.first_sender(me, waiting) {
            return self.take(me, sender);
        }
        if self.limit_of(me) == Limit::NoWait {
            return self.fail(me, Code::Again);
        }
        if self.deadlock(me, waiting) {
            return self.fail(me, Code::Locked);
        }
        self.living(me).state = waiting;
    }

    /// The dead endpoint of the lowest slot that left something.
    fn first_left(&self, me: Address, src: Source) -> Option<Address> {
        let left = &self.endpoints.get(&me.slot())?.left;
        let sources = left.iter().map(|left| left.source).filter(|source| src.fits(*source));
        sources.min_by_key(|source| (source.slot(), source.0))
    }

    /// Takes the notification that a dead endpoint left, or else its first pulse.
    fn take_left(&mut self, me: Address, source: Address) -> Option<Message> {
        let endpoint = self.endpoints.get_mut(&me.slot())?;
        let left = endpoint.left.iter_mut().find(|left| left.source == source)?;
        let message = match core::mem::take(&mut left.notified) {
            true => Some(notification(source)),
            false => {
                left.pulses.pop_front().map(|(code, value)| Message::pulse(source, code, value, 1))
            }
        };
        endpoint.left.retain(|left| left.notified || !left.pulses.is_empty());
        message
    }

    /// The lowest slot with a notification or a pulse: tasks come before processes.
    fn first_notification(&self, me: Address, waiting: State) -> Option<Address> {
        let endpoint = self.endpoints.get(&me.slot())?;
        let mut sources = endpoint.notifying().filter_map(|slot| self.address(slot));
        sources.find(|source| waiting.takes_notification(*source))
    }

    /// The sender of the message that arrived first.
    pub(super) fn first_sender(&self, me: Address, waiting: State) -> Option<Address> {
        let arrival = |(slot, endpoint): (&Slot, &Endpoint)| match endpoint.state {
            State::Sending { dst, sendrec, stamp, .. }
                if dst == me && waiting.takes_message(endpoint.address, sendrec) =>
            {
                Some((stamp, *slot))
            }
            _ => None,
        };
        let (_, slot) = self.endpoints.iter().filter_map(arrival).min()?;
        self.address(slot)
    }

    /// Takes the queued message of `sender`. Its send ends; its sendrec goes on to wait for the
    /// answer.
    fn take(&mut self, me: Address, sender: Address) {
        let State::Sending { message, sendrec, stamp, .. } = self.state_of(sender) else { return };
        self.hand_over(me, message);
        if sendrec {
            self.living(sender).state = State::Awaiting { dst: me, request: message, stamp };
        } else if self.fault != Fault::DeliveredTwice {
            self.living(sender).state = State::Running;
            self.end(Completion::done(sender.slot()).with(Fate::Delivered));
        }
    }

    /// Ends the receive or sendrec of `who` with this message.
    pub(super) fn hand_over(&mut self, who: Address, message: Message) {
        let endpoint = self.living(who);
        let fate = matches!(endpoint.state, State::Awaiting { .. }).then_some(Fate::Delivered);
        endpoint.state = State::Running;
        self.end(Completion { who: who.slot(), result: Ok(Some(message)), fate });
    }
}

/// A notification of `source`. Its time is 0, because the oracle has no clock.
pub(super) fn notification(source: Address) -> Message {
    Message::notification(source, 0, 0, 0)
}
