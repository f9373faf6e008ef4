//! Looking at endpoints: what `m3 ps` and getprocinfo show.

use crate::server::Server;
use m3ipc_link::{Counter, WaitCall as Verb};
use m3ipc_model::tables::{Credentials, Endpoint, MemberId};
use m3ipc_wire::{EndpointInfo, Reply, WaitInfo};

/// Endpoints told of in one frame: so many, and as their names leave room for.
const PAGE: usize = 64;
const PAGE_BYTES: usize = m3ipc_wire::REPLY_MAX_BYTES / 2;
/// What one takes in a frame beside its names, at most.
const ENDPOINT_BYTES: usize = 128;

impl Server {
    pub(super) fn endpoints(&mut self, token: u64, cred: &Credentials, vm: i32, from: i32) {
        if let Err(error) = self.node.check_see(vm, cred) {
            return self.refuse(token, error.code(), error);
        }
        let now_ns = m3ipc_sys::monotonic_ns();
        let (mut list, mut bytes, mut next) = (Vec::new(), 0, None);
        for endpoint in self.node.endpoints(vm).filter(|endpoint| endpoint.address.slot() >= from) {
            let names: usize = endpoint.names.iter().map(|name| name.len() + 1).sum();
            if list.len() == PAGE || bytes > PAGE_BYTES {
                next = Some(endpoint.address.slot());
                break;
            }
            bytes += ENDPOINT_BYTES + names;
            list.push(self.shown(vm, endpoint, now_ns));
        }
        self.reply(token, Reply::Endpoints { list, next }, Vec::new());
    }

    fn shown(&self, vm: i32, endpoint: &Endpoint, now_ns: u64) -> EndpointInfo {
        let place = MemberId::new(vm, endpoint.address);
        let connection = self.present.get(&place).and_then(|token| self.connections.get(token));
        let desk =
            connection.and_then(|connection| connection.pages.as_ref()).map(|pages| &pages.desk);
        let count = |counter| desk.map_or(0, |desk| desk.counter(counter));
        let blocked = desk.map(|desk| desk.blocked());
        let wait = match blocked {
            Some(blocked) => WaitInfo {
                verb: verb_name(blocked.call).to_owned(),
                peer: blocked.peer.0,
                for_ns: match blocked.since_ns {
                    0 => 0,
                    since_ns => now_ns.saturating_sub(since_ns),
                },
            },
            None => WaitInfo { verb: "absent".to_owned(), peer: 0, for_ns: 0 },
        };
        EndpointInfo {
            vm,
            slot: endpoint.address.slot(),
            address: endpoint.address.0,
            pid: endpoint.member.pid,
            tid: endpoint.member.tid.unwrap_or(0),
            uid: endpoint.uid,
            gid: endpoint.gid,
            names: endpoint.names.iter().cloned().collect(),
            wait,
            links: u32::try_from(self.node.peers(place).len()).unwrap_or(u32::MAX),
            sent: count(Counter::Sent),
            received: count(Counter::Received),
            slept: count(Counter::Slept),
            copies_direct: count(Counter::CopiedDirect),
            copies_shared: count(Counter::CopiedShared),
            copies_served: count(Counter::CopiedServed),
            connected: desk.is_some(),
        }
    }
}

fn verb_name(verb: Verb) -> &'static str {
    match verb {
        Verb::None => "running",
        Verb::Send => "send",
        Verb::Receive => "receive",
        Verb::SendRec => "sendrec",
        Verb::Await => "sendrec (taken)",
        Verb::Rcvrqst => "rcvrqst",
        Verb::Wait => "wait4",
    }
}
