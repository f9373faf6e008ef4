//! Notifications for endpoints that have not attached to this daemon yet.
//!
//! A notification never waits, and stays pending until its destination receives it. A destination
//! that is about to bind, or has not noticed a takeover yet, has no link to this daemon's pages.
//! The daemon keeps its notifications until it attaches.

use crate::tables::MemberId;
use m3ipc_abi::Address;
use std::collections::BTreeMap;

/// The pending notification of one source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingNotification {
    pub(crate) bits: u64,
    /// Process, user and group of the source.
    pub(crate) by: Option<(i32, u32, u32)>,
}

/// All pending notifications, by destination and source.
#[derive(Debug, Default)]
pub(crate) struct PendingNotifications(BTreeMap<MemberId, BTreeMap<i32, PendingNotification>>);

impl PendingNotifications {
    /// Adds a notification. Notifications of one source coalesce.
    pub(crate) fn add(
        &mut self,
        destination: MemberId,
        source: Address,
        bits: u64,
        by: Option<(i32, u32, u32)>,
    ) {
        let sources = self.0.entry(destination).or_default();
        let pending = sources.entry(source.0).or_insert(PendingNotification { bits: 0, by });
        (pending.bits, pending.by) = (pending.bits | bits, by);
    }

    /// Takes the notifications for an endpoint, by source.
    pub(crate) fn take(&mut self, destination: MemberId) -> BTreeMap<i32, PendingNotification> {
        self.0.remove(&destination).unwrap_or_default()
    }

    /// Forgets an endpoint that ended, as a destination and as a source.
    pub(crate) fn forget(&mut self, ended: MemberId) {
        self.0.remove(&ended);
        for (destination, sources) in &mut self.0 {
            if destination.vm == ended.vm {
                sources.remove(&ended.address.0);
            }
        }
        self.0.retain(|_, sources| !sources.is_empty());
    }
}
