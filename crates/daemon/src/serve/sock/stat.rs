//! The sockets of a VM, with the counters that lie in their pairs.

use crate::server::Server;
use core::sync::atomic::Ordering;
use m3ipc_model::tables::Credentials;
use m3ipc_wire::sock::{SOCK_HEAD_BYTES, SOCK_SLOT_BYTES, half};
use m3ipc_wire::{Reply, SockInfo, SockReply};

/// Sockets told of in one frame.
const PAGE: usize = 200;

impl Server {
    pub(super) fn list_socks(&mut self, token: u64, cred: &Credentials, vm: i32, from: u32) {
        if let Err(error) = self.node.check_see(vm, cred) {
            return self.refuse(token, error.code(), error);
        }
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let all = self.bound_socks(vm).chain(self.connected_socks(vm));
        let mut list: Vec<SockInfo> = all.skip(from).take(PAGE + 1).collect();
        let next = (list.len() > PAGE).then(|| u32::try_from(from + PAGE).unwrap_or(u32::MAX));
        list.truncate(PAGE);
        self.reply(token, Reply::Sock(SockReply::Sockets { list, next }), Vec::new());
    }

    fn blank(&self, token: u64, kind: m3ipc_wire::SockKind, own: (u32, u16)) -> SockInfo {
        let (pid, uid) = self
            .connections
            .get(&token)
            .map_or((0, u32::MAX), |party| (party.cred.pid, party.cred.uid));
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

    fn bound_socks(&self, vm: i32) -> impl Iterator<Item = SockInfo> {
        let network = self.settings.sock_network;
        let of_vm = self.socks.ports.iter().filter(move |((home, ..), _)| home.0 == vm);
        of_vm.map(move |(((_, domain), kind, port), bound)| {
            self.blank(bound.token, *kind, (network.address_of(*domain), *port))
        })
    }

    fn connected_socks(&self, vm: i32) -> impl Iterator<Item = SockInfo> {
        let homes = &self.socks.homes;
        let pairs = self.socks.pairs.values();
        let pairs =
            pairs.filter(move |pair| homes.get(&pair.parties[0]).is_some_and(|home| home.0 == vm));
        pairs.flat_map(move |pair| {
            let slots = pair.slots.iter().enumerate().filter(|(at, _)| pair.is_open(*at));
            slots.flat_map(move |(at, slot)| {
                [0, 1].map(|side: usize| {
                    let base = SOCK_HEAD_BYTES + at * SOCK_SLOT_BYTES + side * half::BYTES;
                    let count = |word: usize| pair.view.word64(base + word).load(Ordering::Relaxed);
                    let mut info = self.blank(
                        pair.parties[side],
                        m3ipc_wire::SockKind::Stream,
                        slot.names[side],
                    );
                    info.peer = Some(slot.names[1 - side]);
                    (info.ring_bytes, info.kernel_bytes) = (count(half::TAIL), count(half::GIVEN));
                    (info.wakeups, info.wakeups_suppressed) =
                        (count(half::WAKEUPS), count(half::WAKEUPS_SUPPRESSED));
                    info.overflows = count(half::OVERFLOWS);
                    info
                })
            })
        })
    }
}
