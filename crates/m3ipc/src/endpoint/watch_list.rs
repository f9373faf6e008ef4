//! The list of watched endpoints, and the reports of their deaths.

use super::waiting_arrivals::Ticket;
use m3ipc_abi::Address;
use std::collections::{HashSet, VecDeque};

/// The endpoints whose deaths are reported, and the reports that wait for a receive.
#[derive(Debug, Default)]
pub(super) struct WatchList {
    /// Whether the death of each peer with a link is reported.
    all: bool,
    peers: HashSet<i32>,
    /// Watched endpoints that died, in the order of their deaths.
    deaths: VecDeque<(Address, Ticket)>,
}

impl WatchList {
    /// Watches an endpoint.
    pub(super) fn add(&mut self, peer: Address) {
        self.peers.insert(peer.0);
    }

    /// Ends the watch of an endpoint. The report of an earlier death stays.
    pub(super) fn remove(&mut self, peer: Address) {
        self.peers.remove(&peer.0);
    }

    /// Watches each peer with a link, or no longer.
    pub(super) fn watch_all(&mut self, on: bool) {
        self.all = on;
    }

    /// Queues the report of a death, if the endpoint is watched. The next daemon may repeat the
    /// report of a death: `was_living` tells whether a link with the endpoint was alive.
    pub(super) fn note_death(
        &mut self,
        peer: Address,
        was_living: bool,
        ticket: impl FnOnce() -> Ticket,
    ) {
        if self.peers.remove(&peer.0) || self.all && was_living {
            self.deaths.push_back((peer, ticket()));
        }
    }

    /// Whether a report waits.
    #[inline]
    pub(super) fn has_death(&self) -> bool {
        !self.deaths.is_empty()
    }

    /// Whether the report of this ticket waits. Reports leave in the order of their tickets.
    pub(super) fn has_ticket(&self, ticket: Ticket) -> bool {
        self.deaths.front().is_some_and(|(_, first)| *first <= ticket)
    }

    /// The next endpoint whose death is reported.
    pub(super) fn first_death(&self) -> Option<Address> {
        self.deaths.front().map(|(peer, _)| *peer)
    }

    /// Takes the next report.
    pub(super) fn next_death(&mut self) -> Option<Address> {
        self.deaths.pop_front().map(|(peer, _)| peer)
    }
}
