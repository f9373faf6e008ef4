//! Notifications and pulses that lie on no link, by their sources: they came through the daemon, or
//! their sender has ended and its link with it.
//!
//! As on a link, notifications of one source coalesce at the take (see
//! [`m3ipc_link::Link::take_first_notification`]) and come before its pulses. The daemon keeps
//! notifications for a member that has not returned to it. Their times tell whether they came
//! before the member began to wait.

use super::received::Pulse;
use super::waiting_arrivals::Ticket;
use m3ipc_abi::Address;
use std::collections::{BTreeMap, VecDeque};

/// Notifications and pulses that ended senders of one user leave at an endpoint. What comes after
/// them is lost: no user can fill the memory of another one.
const LEFT_BY_USER_MAX: usize = 1024;

/// Process, user and group of a source.
pub(super) type By = (i32, u32, u32);

/// A notification that was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeptNotification {
    pub(super) bits: u64,
    /// `None` if the notification is in the name of another.
    pub(super) by: Option<By>,
    /// When the daemon got it, or the first of several, by the monotonic clock.
    pub(super) at_ns: u64,
}

impl KeptNotification {
    fn join(self, later: Self) -> Self {
        Self { bits: self.bits | later.bits, by: later.by, at_ns: self.at_ns }
    }
}

/// What a take finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    Notification(KeptNotification),
    Pulse(Pulse, By),
}

/// What is kept of one source.
#[derive(Debug, Default)]
struct OfSource {
    first: Option<KeptNotification>,
    later: Option<KeptNotification>,
    pulses: VecDeque<(Pulse, By)>,
    /// That of the next take.
    ticket: Ticket,
}

impl OfSource {
    fn add(&mut self, notification: KeptNotification) {
        match (self.first, self.later) {
            (None, _) => self.first = Some(notification),
            (_, None) => self.later = Some(notification),
            (_, Some(later)) => self.later = Some(later.join(notification)),
        }
    }

    /// The notifications and pulses of this user.
    fn count_of(&self, uid: u32) -> usize {
        let is_of = |by: By| by.1 == uid;
        let notifications = [self.first, self.later].into_iter().flatten();
        notifications.filter(|kept| kept.by.is_some_and(is_of)).count()
            + self.pulses.iter().filter(|(_, by)| is_of(*by)).count()
    }

    fn take_notification(&mut self, since_ns: Option<u64>) -> Option<KeptNotification> {
        let first = self.first.take()?;
        match self.later.take() {
            Some(later) if since_ns.is_some_and(|since_ns| first.at_ns >= since_ns) => {
                self.first = Some(later);
                Some(first)
            }
            Some(later) => Some(first.join(later)),
            None => Some(first),
        }
    }
}

/// What is kept of all sources, by their slots.
#[derive(Debug, Default)]
pub(super) struct KeptNotifications(BTreeMap<(i32, i32), OfSource>);

impl KeptNotifications {
    /// Adds a notification of this source.
    pub(super) fn add(&mut self, source: Address, notification: KeptNotification) {
        self.0.entry(key(source)).or_default().add(notification);
    }

    /// Adds what a sender left that has ended. Its last notifications came during a wait, if this
    /// endpoint waits: a pending one would have ended the wait.
    pub(super) fn add_left(
        &mut self,
        source: Address,
        by: By,
        notified: impl Iterator<Item = u64>,
        pulses: impl Iterator<Item = Pulse>,
    ) {
        let present: usize = self.0.values().map(|of_source| of_source.count_of(by.1)).sum();
        let mut left = LEFT_BY_USER_MAX.saturating_sub(present);
        let of_source = self.0.entry(key(source)).or_default();
        for bits in notified.take(left) {
            of_source.add(KeptNotification { bits, by: Some(by), at_ns: u64::MAX });
            left -= 1;
        }
        of_source.pulses.extend(pulses.take(left).map(|pulse| (pulse, by)));
        self.forget_if_empty(source);
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The source with the lowest slot.
    pub(super) fn first_source(&self) -> Option<Address> {
        self.0.first_key_value().map(|((_, source), _)| Address(*source))
    }

    pub(super) fn has(&self, source: Address) -> bool {
        self.0.contains_key(&key(source))
    }

    /// The ticket of what is kept of a source.
    pub(super) fn ticket(&self, source: Address) -> Option<Ticket> {
        self.0.get(&key(source)).map(|of_source| of_source.ticket)
    }

    /// Gives what is kept of a source, if there is any, its ticket.
    pub(super) fn set_ticket(&mut self, source: Address, ticket: impl FnOnce() -> Ticket) {
        if let Some(of_source) = self.0.get_mut(&key(source)) {
            of_source.ticket = ticket();
        }
    }

    /// Takes the notifications of a source as one, or else its first pulse. For a receive that
    /// waits since `since_ns`, takes the first notification if it came during that wait.
    pub(super) fn take(&mut self, source: Address, since_ns: Option<u64>) -> Option<Kept> {
        let of_source = self.0.get_mut(&key(source))?;
        let notification = of_source.take_notification(since_ns).map(Kept::Notification);
        let taken = notification
            .or_else(|| of_source.pulses.pop_front().map(|(pulse, by)| Kept::Pulse(pulse, by)));
        self.forget_if_empty(source);
        taken
    }

    fn forget_if_empty(&mut self, source: Address) {
        let is_empty =
            |it: &OfSource| it.first.is_none() && it.later.is_none() && it.pulses.is_empty();
        if self.0.get(&key(source)).is_some_and(is_empty) {
            self.0.remove(&key(source));
        }
    }
}

fn key(source: Address) -> (i32, i32) {
    (source.slot(), source.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: Address = Address(7);

    fn kept(all: &[(u64, u64)]) -> KeptNotifications {
        let mut kept = KeptNotifications::default();
        all.iter().for_each(|one| kept.add(SOURCE, notification(*one)));
        kept
    }

    fn notification((bits, at_ns): (u64, u64)) -> KeptNotification {
        KeptNotification { bits, by: None, at_ns }
    }

    fn taken(one: (u64, u64)) -> Option<Kept> {
        Some(Kept::Notification(notification(one)))
    }

    #[test]
    fn pending_notifications_are_taken_as_one() {
        for since_ns in [None, Some(11)] {
            let mut kept = kept(&[(1, 10), (2, 20), (4, 30)]);
            assert_eq!(kept.first_source(), Some(SOURCE));
            assert_eq!(kept.take(SOURCE, since_ns), taken((7, 10)));
            assert!(kept.is_empty() && kept.take(SOURCE, since_ns).is_none());
        }
    }

    #[test]
    fn the_first_notification_in_a_wait_leaves_the_later_ones_as_one() {
        let mut kept = kept(&[(1, 10), (2, 20), (4, 30)]);
        assert_eq!(kept.take(SOURCE, Some(10)), taken((1, 10)));
        assert_eq!(kept.take(SOURCE, Some(15)), taken((6, 20)));
        assert!(kept.is_empty());
    }

    #[test]
    fn ended_senders_of_one_user_leave_a_bounded_number() {
        let mut kept = KeptNotifications::default();
        let pulses = (0..16).map(|value| Pulse { code: 1, value });
        let left = |kept: &mut KeptNotifications, slot: i32, uid: u32| {
            kept.add_left(Address(slot), (1, uid, 1), [1, 2].into_iter(), pulses.clone());
        };
        (0..100).for_each(|slot| left(&mut kept, slot, 7));
        let count = |kept: &KeptNotifications, uid| -> usize {
            kept.0.values().map(|of_source| of_source.count_of(uid)).sum()
        };
        assert_eq!(count(&kept, 7), LEFT_BY_USER_MAX);
        left(&mut kept, 200, 8);
        assert_eq!(count(&kept, 8), 18, "another user is not touched");
        let (from, by) = (Address(200), (1, 8, 1));
        let note = |bits| KeptNotification { bits, by: Some(by), at_ns: u64::MAX };
        assert_eq!(kept.take(from, Some(5)), Some(Kept::Notification(note(1))));
        assert_eq!(kept.take(from, None), Some(Kept::Notification(note(2))));
        for pulse in pulses {
            assert_eq!(kept.take(from, None), Some(Kept::Pulse(pulse, by)));
        }
        assert!(!kept.has(from));
    }
}
