//! The state of each other node, for the status.

use super::config::Config;
use super::local::Local;
use super::network::Network;
use crate::status::{NodeStatus, State, Status, now_s};
use m3ipc_fabric::{Incarnation, NodeEntry, NodeId};
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
struct Link {
    state: State,
    since_s: u64,
    incarnation: Option<Incarnation>,
    refusal: Option<String>,
    lost: u64,
}

/// The status of a proxy that waits for a daemon.
pub fn without_daemon(config: &Config) -> Status {
    Status {
        cluster: config.registry.cluster.clone(),
        node: config.name.to_string(),
        id: config.own.id.0,
        address: config.own.address.to_string(),
        incarnation: 0,
        since: now_s(),
        tls: !config.without_security,
        daemon: false,
        stand_ins: 0,
        certificate: None,
        nodes: Vec::new(),
    }
}

/// The states of all nodes that this life has met, and its begin.
#[derive(Debug)]
pub struct Links {
    incarnation: Incarnation,
    since_s: u64,
    links: BTreeMap<NodeId, Link>,
}

impl Links {
    /// A life begins.
    pub fn new(incarnation: Incarnation) -> Self {
        Self { incarnation, since_s: now_s(), links: BTreeMap::new() }
    }

    fn link(&mut self, node: NodeId) -> &mut Link {
        let since_s = self.since_s;
        self.links.entry(node).or_insert(Link {
            state: State::Awaited,
            since_s,
            incarnation: None,
            refusal: None,
            lost: 0,
        })
    }

    /// A node can be reached.
    pub fn up(&mut self, node: NodeId, incarnation: Incarnation) {
        let link = self.link(node);
        (link.state, link.since_s, link.refusal) = (State::Up, now_s(), None);
        link.incarnation = Some(incarnation);
    }

    /// A node cannot be reached any more.
    pub fn lost(&mut self, node: NodeId) {
        let link = self.link(node);
        (link.state, link.since_s) = (State::Lost, now_s());
        link.lost += 1;
    }

    /// A connection was refused, by either side.
    pub fn refused(&mut self, node: NodeId, why: String) {
        self.link(node).refusal = Some(why);
    }

    /// All of it.
    pub fn status(&self, config: &Config, network: &Network, local: &Local) -> Status {
        let node = |entry: &NodeEntry| {
            let link = self.links.get(&entry.id);
            let line = network.line(entry.id);
            let state = link.map_or(State::Awaited, |link| link.state);
            let refusal = link.and_then(|link| link.refusal.clone());
            NodeStatus {
                name: entry.name.clone(),
                id: entry.id.0,
                address: entry.address.to_string(),
                state,
                since: link.map_or(self.since_s, |link| link.since_s),
                why: refusal.or(line.failure).filter(|_| state != State::Up),
                incarnation: link.and_then(|link| link.incarnation).map(|it| it.0),
                round_trip_us: line
                    .round_trip
                    .and_then(|trip| u64::try_from(trip.as_micros()).ok()),
                sent: line.sent,
                received: line.received,
                lost: link.map_or(0, |link| link.lost),
            }
        };
        Status {
            cluster: config.registry.cluster.clone(),
            node: config.name.to_string(),
            id: config.own.id.0,
            address: config.own.address.to_string(),
            incarnation: self.incarnation.0,
            since: self.since_s,
            tls: !config.without_security,
            daemon: true,
            stand_ins: local.stand_ins(),
            certificate: None,
            nodes: config.peers().map(node).collect(),
        }
    }
}
