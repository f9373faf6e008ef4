//! A connection: the daemon finds the listener, makes the socket, and gives its ends to both sides.

use crate::quota::Resource;
use crate::server::Server;
use crate::state::member_fd::MemberFd;
use crate::state::sockets::{
    DomainId, EndpointName, PairId, PortId, SocketAnswer, SocketFailure, fail,
};
use crate::token::Token;
use m3ipc_sys::Errno;
use m3ipc_wire::sock::SOCK_PREPARED_MAX;
use m3ipc_wire::{Reply, SockArrival, SockConnection, SockKind, SockReply};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

/// The two ends of a stream socket: of the connecting side, of the accepting side.
type Ends = (OwnedFd, OwnedFd);

/// The refusal after the listener's party left.
const PARTY_LEFT: &str = "the program at that address has just left; start it again";
/// The refusal without a listener.
const NO_LISTENER: &str = "no program listens there any more; start it again";

impl Server {
    pub(super) fn connect_to(
        &mut self,
        token: Token,
        to: EndpointName,
        from: u16,
        wanted: u8,
    ) -> SocketAnswer {
        let domain = self.sockets.domain_of(token)?;
        let network = self.settings.sock_network;
        let (address, port) = to;
        if address == network.broadcast() {
            let why =
                "a stream has one peer, and the broadcast address many; connect to one address";
            return fail(Errno::NETUNREACH, why);
        }
        let peer_domain = (domain.0, self.reachable_domain(domain.0, address)?);
        let listener = (peer_domain, SockKind::Stream, port);
        let bound = self.sockets.ports.get_mut(&listener).filter(|port| port.listener.is_some());
        let Some(bound) = bound else {
            let address = Ipv4Addr::from(address);
            let why = format!("no program listens at {address}:{port}; start it first");
            return fail(Errno::CONNREFUSED, why);
        };
        bound.count_taken_descriptors();
        if !bound.has_room() {
            return fail(Errno::AGAIN, "the backlog of the listener is full; try again");
        }
        // A listener with waiting connections gets no prepared ones.
        let wanted =
            if bound.has_waiting() { 0 } else { usize::from(wanted).min(SOCK_PREPARED_MAX) };
        let other = bound.party;
        let from = if from == 0 { self.sockets.free_port(domain, SockKind::Stream)? } else { from };
        let names = [(network.address_of(domain.1), from), to];
        let (pair, slot) = match self.take_slot([token, other], names) {
            Ok(found) => found,
            Err(errno) => return fail(errno, format!("no memory for a connection: {errno}")),
        };
        let ends = match m3ipc_sys::stream_pair() {
            Ok(ends) => ends,
            Err(errno) => {
                self.release_slots(pair, &[slot]);
                return fail(errno, format!("no descriptors for a connection: {errno}"));
            }
        };
        let prepared = self.prepare(pair, domain, to, wanted);
        let slots: Vec<usize> =
            std::iter::once(slot).chain(prepared.iter().map(|(slot, _)| *slot)).collect();
        let all_ends = std::iter::once(ends).chain(prepared.into_iter().map(|(_, ends)| ends));
        let (own_ends, peer_ends): (Vec<OwnedFd>, Vec<OwnedFd>) = all_ends.unzip();
        if let Err(failure) = self.offer(listener, (pair, &slots), [token, other], &peer_ends) {
            self.release_slots(pair, &slots);
            return Err(failure);
        }
        self.connected((pair, &slots), other, own_ends)
    }

    /// The answer for the connecting side.
    fn connected(
        &self,
        (pair, slots): (PairId, &[usize]),
        other: Token,
        ends: Vec<OwnedFd>,
    ) -> SocketAnswer {
        let mut all = slots.iter().filter_map(|slot| self.connection_info(pair, *slot, 0, other));
        let Some((connection, pair_fds)) = all.next() else {
            return fail(Errno::CONNREFUSED, PARTY_LEFT);
        };
        let prepared = all.map(|(connection, _)| connection).collect();
        let mut fds: Vec<Rc<MemberFd>> = ends.into_iter().map(|end| Rc::new(end.into())).collect();
        // Order of the descriptors: the socket, the pair, the prepared sockets.
        fds.splice(1..1, pair_fds);
        Ok((Reply::Sock(SockReply::Connected(connection, prepared)), fds))
    }

    /// Prepares connections that the connecting side may open later: slots and sockets. Both sides
    /// must have mapped the pair.
    fn prepare(
        &mut self,
        pair: PairId,
        domain: DomainId,
        to: EndpointName,
        count: usize,
    ) -> Vec<(usize, Ends)> {
        let mut all = vec![];
        let own = self.settings.sock_network.address_of(domain.1);
        for _ in 0..count {
            let Ok(from) = self.sockets.free_port(domain, SockKind::Stream) else { break };
            let Some(pair) = self.sockets.pair_mut(pair) else { break };
            let Some(slot) = pair.prepare_slot([(own, from), to]) else { break };
            match m3ipc_sys::stream_pair() {
                Ok(ends) => all.push((slot, ends)),
                Err(_no_descriptors) => {
                    pair.release_slot(slot);
                    break;
                }
            }
        }
        all
    }

    /// The domain with this address, if it has parties.
    pub(super) fn reachable_domain(&self, vm: i32, address: u32) -> Result<u32, SocketFailure> {
        let domain = self.settings.sock_network.domain_of(address);
        match domain.filter(|domain| self.sockets.has_domain((vm, *domain))) {
            Some(domain) => Ok(domain),
            None => {
                let address = Ipv4Addr::from(address);
                let why = format!("no domain has address {address}; start a program in it first");
                fail(Errno::HOSTUNREACH, why)
            }
        }
    }

    /// Sends the peer's ends to its listener: of the connection, and of prepared connections.
    fn offer(
        &mut self,
        listener: PortId,
        (pair, slots): (PairId, &[usize]),
        [token, other]: [Token; 2],
        ends: &[OwnedFd],
    ) -> Result<(), SocketFailure> {
        let mut all = slots.iter().filter_map(|slot| self.connection_info(pair, *slot, 1, token));
        let (Some((connection, pair_fds)), [end, prepared @ ..]) = (all.next(), ends) else {
            return fail(Errno::CONNREFUSED, PARTY_LEFT);
        };
        let mut fds = vec![end.as_fd()];
        fds.extend(pair_fds.iter().map(|fd| fd.as_fd()));
        fds.extend(prepared.iter().map(|fd| fd.as_fd()));
        let arrival = SockArrival(connection, all.map(|(connection, _)| connection).collect());
        let frame = m3ipc_wire::encode(&arrival);
        let uid = self.user_of_party(token);
        let bound = self.sockets.ports.get_mut(&listener).filter(|bound| bound.party == other);
        let Some(bound) = bound else { return fail(Errno::CONNREFUSED, PARTY_LEFT) };
        let Some(socket) = &bound.listener else { return fail(Errno::CONNREFUSED, NO_LISTENER) };
        let amounts = [(Resource::OnTheirWay, fds.len() as u64)];
        let charges = match self.accounts.charge(uid, &amounts) {
            Ok(charges) => charges,
            Err(exceeded) => {
                // The next attempt finds what listeners have taken meanwhile.
                if self.accounts.begin_count(uid, m3ipc_sys::monotonic_ns()) {
                    self.count_read_descriptors(uid);
                }
                return fail(Errno::AGAIN, exceeded.to_string());
            }
        };
        match m3ipc_sys::send_packet(socket, &frame, &fds, false) {
            Ok(()) => {
                bound.add_waiting(charges);
                Ok(())
            }
            Err(Errno::AGAIN | Errno::TOOMANYREFS | Errno::NOBUFS) => {
                fail(Errno::AGAIN, "too many connections wait at the listener; try again")
            }
            Err(_closed) => {
                bound.listener = None;
                fail(Errno::CONNREFUSED, NO_LISTENER)
            }
        }
    }

    /// One side's view of a connection, and the descriptors of a pair that the side has not mapped.
    fn connection_info(
        &self,
        id: PairId,
        at: usize,
        side: usize,
        other: Token,
    ) -> Option<(SockConnection, Vec<Rc<MemberFd>>)> {
        let pair = self.sockets.pair(id)?;
        let slot = pair.slot(at)?;
        let fds = pair.fds(side);
        let other = self.connections.get(other);
        let connection = SockConnection {
            pair: id.number(),
            side: u8::from(side == 1),
            slot: u16::try_from(at).ok()?,
            own: slot.names[side],
            peer: slot.names[1 - side],
            by: other.map_or((0, u32::MAX), |other| (other.cred.pid, other.cred.uid)),
            with_pair: !fds.is_empty(),
        };
        Some((connection, fds))
    }

    fn release_slots(&mut self, pair: PairId, slots: &[usize]) {
        if let Some(pair) = self.sockets.pair_mut(pair) {
            slots.iter().for_each(|slot| pair.release_slot(*slot));
        }
    }
}
