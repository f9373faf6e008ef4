//! The sockets of a VM, with the counters in their pairs.

use crate::server::Server;
use crate::state::sockets::{EndpointName, Pair};
use crate::tables::Credentials;
use crate::token::Token;
use m3ipc_wire::sock::half;
use m3ipc_wire::{Reply, SockInfo, SockKind, SockReply};

/// The number of sockets in one frame.
const FRAME_SOCKETS: usize = 200;

impl Server {
    pub(super) fn list_sockets(&mut self, token: Token, cred: &Credentials, vm: i32, from: u32) {
        if let Err(error) = self.node.visible_vm(vm, cred) {
            return self.refuse(token, error.code(), error);
        }
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let all = self.bound_sockets(vm).chain(self.connected_sockets(vm));
        let mut list: Vec<SockInfo> = all.skip(from).take(FRAME_SOCKETS + 1).collect();
        let next = (list.len() > FRAME_SOCKETS)
            .then(|| u32::try_from(from + FRAME_SOCKETS).unwrap_or(u32::MAX));
        list.truncate(FRAME_SOCKETS);
        self.reply(token, Reply::Sock(SockReply::Sockets { list, next }), Vec::new());
    }

    /// A socket of a party, with all counters at 0.
    fn socket_info(&self, party: Token, kind: SockKind, own: EndpointName) -> SockInfo {
        let connection = self.connections.get(party);
        let cred = connection.map(|connection| (connection.cred.pid, connection.cred.uid));
        let (pid, uid) = cred.unwrap_or((0, u32::MAX));
        SockInfo {
            kind,
            pid,
            uid,
            own,
            peer: None,
            ring_bytes: 0,
            kernel_bytes: 0,
            wakeups: 0,
            wakeups_suppressed: 0,
            overflows: 0,
        }
    }

    fn bound_sockets(&self, vm: i32) -> impl Iterator<Item = SockInfo> {
        let network = self.settings.sock_network;
        let of_vm = self.sockets.ports.iter().filter(move |((domain, ..), _)| domain.0 == vm);
        of_vm.map(move |(((_, domain), kind, port), bound)| {
            self.socket_info(bound.party, *kind, (network.address_of(*domain), *port))
        })
    }

    fn connected_sockets(&self, vm: i32) -> impl Iterator<Item = SockInfo> {
        let of_vm = self.sockets.pairs().filter(move |pair| {
            self.sockets.domain_of(pair.parties[0]).is_ok_and(|domain| domain.0 == vm)
        });
        of_vm.flat_map(move |pair| {
            pair.open_slots().flat_map(move |(at, slot)| {
                [0, 1].map(|side: usize| {
                    let (own, peer) = (slot.names[side], slot.names[1 - side]);
                    let info = self.socket_info(pair.parties[side], SockKind::Stream, own);
                    SockInfo { peer: Some(peer), ..with_counters(info, pair, at, side) }
                })
            })
        })
    }
}

fn with_counters(info: SockInfo, pair: &Pair, at: usize, side: usize) -> SockInfo {
    let count = |word: usize| pair.word(at, side * half::BYTES + word);
    SockInfo {
        ring_bytes: count(half::TAIL),
        kernel_bytes: count(half::GIVEN),
        wakeups: count(half::WAKEUPS),
        wakeups_suppressed: count(half::WAKEUPS_SUPPRESSED),
        overflows: count(half::OVERFLOWS),
        ..info
    }
}
