//! Notifications that came through the daemon, by their sources.
//!
//! As on a link, notifications of one source coalesce at the take: see
//! [`m3ipc_link::Link::take_first_notification`]. The daemon keeps notifications for a member that
//! has not returned to it. Their times tell whether they came before the member began to wait.

use m3ipc_abi::Address;
use std::collections::BTreeMap;

/// A notification that came through the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DaemonNotification {
    pub(super) bits: u64,
    /// Process, user and group of the source; `None` if the notification is in the name of another.
    pub(super) by: Option<(i32, u32, u32)>,
    /// When the daemon got it, or the first of several, by the monotonic clock.
    pub(super) at_ns: u64,
}

impl DaemonNotification {
    fn join(self, later: Self) -> Self {
        Self { bits: self.bits | later.bits, by: later.by, at_ns: self.at_ns }
    }
}

/// The pending notifications of one source.
#[derive(Clone, Copy, Debug)]
struct Pending {
    first: DaemonNotification,
    later: Option<DaemonNotification>,
}

/// The pending notifications of all sources.
#[derive(Debug, Default)]
pub(super) struct DaemonNotifications(BTreeMap<i32, Pending>);

impl DaemonNotifications {
    /// Adds a notification of this source.
    pub(super) fn add(&mut self, source: Address, notification: DaemonNotification) {
        let added = Pending { first: notification, later: None };
        let pending = self.0.entry(source.0).and_modify(|pending| {
            let later = pending.later.map_or(notification, |later| later.join(notification));
            pending.later = Some(later);
        });
        pending.or_insert(added);
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The source with the lowest address.
    pub(super) fn first_source(&self) -> Option<Address> {
        self.0.first_key_value().map(|(source, _)| Address(*source))
    }

    pub(super) fn has(&self, source: Address) -> bool {
        self.0.contains_key(&source.0)
    }

    /// Takes the notifications of a source as one. For a receive that waits since `since_ns`, takes
    /// the first one if it came during that wait.
    pub(super) fn take(
        &mut self,
        source: Address,
        since_ns: Option<u64>,
    ) -> Option<DaemonNotification> {
        let Pending { first, later } = self.0.remove(&source.0)?;
        match later {
            Some(later) if since_ns.is_some_and(|since_ns| first.at_ns >= since_ns) => {
                self.0.insert(source.0, Pending { first: later, later: None });
                Some(first)
            }
            Some(later) => Some(first.join(later)),
            None => Some(first),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: Address = Address(7);

    fn pending(all: &[(u64, u64)]) -> DaemonNotifications {
        let mut pending = DaemonNotifications::default();
        all.iter().for_each(|one| pending.add(SOURCE, notification(*one)));
        pending
    }

    fn notification((bits, at_ns): (u64, u64)) -> DaemonNotification {
        DaemonNotification { bits, by: None, at_ns }
    }

    #[test]
    fn pending_notifications_are_taken_as_one() {
        for since_ns in [None, Some(11)] {
            let mut pending = pending(&[(1, 10), (2, 20), (4, 30)]);
            assert_eq!(pending.first_source(), Some(SOURCE));
            assert_eq!(pending.take(SOURCE, since_ns), Some(notification((7, 10))));
            assert!(pending.is_empty() && pending.take(SOURCE, since_ns).is_none());
        }
    }

    #[test]
    fn the_first_notification_in_a_wait_leaves_the_later_ones_as_one() {
        let mut pending = pending(&[(1, 10), (2, 20), (4, 30)]);
        assert_eq!(pending.take(SOURCE, Some(10)), Some(notification((1, 10))));
        assert_eq!(pending.take(SOURCE, Some(15)), Some(notification((6, 20))));
        assert!(pending.is_empty());
    }
}
