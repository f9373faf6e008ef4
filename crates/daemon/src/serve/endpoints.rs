//! The list of a VM's endpoints, for `m3 ps` and `getprocinfo`.

use crate::server::Server;
use crate::tables::{Credentials, Endpoint, MemberId};
use crate::token::Token;
use m3ipc_abi::WaitState;
use m3ipc_link::{Counter, WaitCall};
use m3ipc_wire::{EndpointInfo, NODE_NAME_MAX_BYTES, Reply, WaitInfo};

/// The number of endpoints in one frame. Long names reduce it.
const FRAME_ENDPOINTS: usize = 64;
const FRAME_BYTES: usize = m3ipc_wire::REPLY_MAX_BYTES / 2;
/// The largest size of an endpoint in a frame without its names.
const ENDPOINT_BYTES: usize = 128;

impl Server {
    pub(super) fn list_endpoints(&mut self, token: Token, cred: &Credentials, vm: i32, from: i32) {
        if let Err(error) = self.node.visible_vm(vm, cred) {
            return self.refuse(token, error.code(), error);
        }
        let now_ns = m3ipc_sys::monotonic_ns();
        let (mut list, mut bytes, mut next) = (Vec::new(), 0, None);
        for endpoint in self.node.endpoints(vm).filter(|endpoint| endpoint.address.slot() >= from) {
            let names: usize = endpoint.names.iter().map(|name| name.len() + 1).sum();
            if list.len() == FRAME_ENDPOINTS || bytes > FRAME_BYTES {
                next = Some(endpoint.address.slot());
                break;
            }
            bytes += ENDPOINT_BYTES + NODE_NAME_MAX_BYTES + names;
            list.push(self.endpoint_info(vm, endpoint, now_ns));
        }
        self.reply(token, Reply::Endpoints { list, next }, Vec::new());
    }

    fn endpoint_info(&self, vm: i32, endpoint: &Endpoint, now_ns: u64) -> EndpointInfo {
        let id = MemberId::new(vm, endpoint.address);
        let page = self.connections.pages_of(id).map(|pages| &pages.control_page);
        let count = |counter| page.map_or(0, |page| page.counter(counter));
        let wait = match page.map(|page| page.blocked()) {
            Some(blocked) => WaitInfo {
                state: state_of(blocked.call),
                peer: blocked.peer.0,
                for_ns: match blocked.since_ns {
                    0 => 0,
                    since_ns => now_ns.saturating_sub(since_ns),
                },
            },
            None => WaitInfo { state: WaitState::Absent, peer: 0, for_ns: 0 },
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
            links: u32::try_from(self.node.peers(id).len()).unwrap_or(u32::MAX),
            sent: count(Counter::Sent),
            received: count(Counter::Received),
            slept: count(Counter::Slept),
            copies_direct: count(Counter::CopiedDirect),
            copies_shared: count(Counter::CopiedShared),
            copies_served: count(Counter::CopiedServed),
            connected: page.is_some(),
            node: self.node.node_of(vm, endpoint.address).map(str::to_owned),
        }
    }
}

fn state_of(call: WaitCall) -> WaitState {
    match call {
        WaitCall::None => WaitState::Running,
        WaitCall::Send => WaitState::Send,
        WaitCall::Receive => WaitState::Receive,
        WaitCall::SendRec => WaitState::SendRec,
        WaitCall::Await => WaitState::Await,
        WaitCall::Rcvrqst => WaitState::Rcvrqst,
        WaitCall::Wait => WaitState::Wait,
    }
}
