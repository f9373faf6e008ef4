//! Notifications and wakeups for endpoints that have not attached to this daemon yet.
//!
//! A notification never waits, and stays pending until its destination receives it. A destination
//! that is about to bind, or has not noticed a takeover yet, has no link to this daemon's pages.
//! The daemon keeps its notifications until it attaches. The destination may wait in a receive,
//! which the first notification ends; so the first one of each source stays apart from later ones.

use crate::tables::MemberId;
use m3ipc_abi::Address;
use std::collections::{BTreeMap, BTreeSet};

/// Sources of one destination, from which on those that ended are forgotten.
const LEFT_MAX: usize = 1024;

/// A pending notification, or several that coalesced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingNotification {
    pub(crate) bits: u64,
    /// Process, user and group of the source.
    pub(crate) by: Option<(i32, u32, u32)>,
    /// When the daemon got it, or the first of several, by the monotonic clock.
    pub(crate) at_ns: u64,
}

/// The pending notifications of one source.
#[derive(Clone, Copy, Debug)]
struct OfSource {
    first: PendingNotification,
    later: Option<PendingNotification>,
}

/// All pending notifications, by destination and source, and the destinations of wakeups.
#[derive(Debug, Default)]
pub(crate) struct PendingNotifications {
    notifications: BTreeMap<MemberId, BTreeMap<i32, OfSource>>,
    wakeups: BTreeSet<MemberId>,
}

impl PendingNotifications {
    /// Adds a notification. The notifications of one source after the first coalesce.
    pub(crate) fn add(
        &mut self,
        destination: MemberId,
        source: Address,
        added: PendingNotification,
    ) {
        let sources = self.notifications.entry(destination).or_default();
        let of_source = sources.entry(source.0).and_modify(|of_source| {
            let later = of_source.later.get_or_insert(added);
            (later.bits, later.by) = (later.bits | added.bits, added.by);
        });
        of_source.or_insert(OfSource { first: added, later: None });
    }

    /// Takes the notifications for an endpoint, with their sources.
    pub(crate) fn take(&mut self, destination: MemberId) -> Vec<(Address, PendingNotification)> {
        let sources = self.notifications.remove(&destination).unwrap_or_default();
        let of_source = |(source, OfSource { first, later })| {
            [Some(first), later].into_iter().flatten().map(move |one| (Address(source), one))
        };
        sources.into_iter().flat_map(of_source).collect()
    }

    /// Adds a wakeup. Several are one.
    pub(crate) fn add_wakeup(&mut self, destination: MemberId) {
        self.wakeups.insert(destination);
    }

    /// Takes the wakeup for an endpoint; `false` if there is none.
    pub(crate) fn take_wakeup(&mut self, destination: MemberId) -> bool {
        self.wakeups.remove(&destination)
    }

    /// Forgets an endpoint that ended. What it notified before stays, in a bounded number: those
    /// calls were accepted.
    pub(crate) fn forget(&mut self, ended: MemberId) {
        self.notifications.remove(&ended);
        self.wakeups.remove(&ended);
        for (destination, sources) in &mut self.notifications {
            if destination.vm == ended.vm && sources.len() > LEFT_MAX {
                sources.remove(&ended.address.0);
            }
        }
    }
}
