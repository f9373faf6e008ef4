//! A connection: found, checked, and given to both sides.

use super::port::Answer;
use super::{Failure, fail};
use crate::server::Server;
use m3ipc_sys::Errno;
use m3ipc_wire::sock::SOCK_PREPARED_MAX;
use m3ipc_wire::{Reply, SockArrival, SockConnection, SockKind, SockReply};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

impl Server {
    pub(super) fn connect_to(
        &mut self,
        token: u64,
        (address, port): (u32, u16),
        from: u16,
        spares: u8,
    ) -> Answer {
        let home = self.sock_home(token)?;
        let network = self.settings.sock_network;
        if address == network.broadcast() {
            return fail(
                Errno::NETUNREACH,
                "a stream has one other side; the broadcast address has many",
            );
        }
        let there = (home.0, self.reachable(home.0, address)?);
        let key = (there, SockKind::Stream, port);
        let Some(bound) = self.socks.ports.get_mut(&key).filter(|bound| bound.listener.is_some())
        else {
            return fail(
                Errno::CONNREFUSED,
                format!("nobody listens at {}:{port}", Ipv4Addr::from(address)),
            );
        };
        if !bound.has_room() {
            return fail(Errno::AGAIN, "as many connections wait there as its backlog allows");
        }
        // Who does not take what waits already gets nothing in advance.
        let spares = if bound.waits() { 0 } else { usize::from(spares).min(SOCK_PREPARED_MAX) };
        let other = bound.token;
        let from = if from == 0 { self.free_port(home, SockKind::Stream)? } else { from };
        let names = [(network.address_of(home.1), from), (address, port)];
        let (id, slot) = match self.take_slot([token, other], names) {
            Ok(found) => found,
            Err(errno) => return fail(errno, format!("no memory for a connection: {errno}")),
        };
        let ends = match m3ipc_sys::stream_pair() {
            Ok(ends) => ends,
            Err(errno) => {
                self.give_slot_back(id, slot);
                return fail(errno, format!("no descriptors for a connection: {errno}"));
            }
        };
        let spares = self.prepare(id, home, (address, port), spares);
        let (mut ours, mut theirs) = (vec![], vec![]);
        let mut slots = vec![slot];
        for (slot, (here, there)) in spares {
            slots.push(slot);
            ours.push(here);
            theirs.push(there);
        }
        theirs.insert(0, ends.1);
        if let Err(failure) = self.arrive(key, (id, &slots), [token, other], &theirs) {
            slots.iter().for_each(|slot| self.give_slot_back(id, *slot));
            return Err(failure);
        }
        let Some((seat, mut fds)) = self.seat(id, slot, 0, other) else {
            return fail(Errno::CONNREFUSED, "the other side has just gone");
        };
        fds.insert(0, Rc::new(ends.0));
        fds.extend(ours.into_iter().map(Rc::new));
        let spares =
            slots[1..].iter().filter_map(|slot| Some(self.seat(id, *slot, 0, other)?.0)).collect();
        Ok((Reply::Sock(SockReply::Connected(seat, spares)), fds))
    }

    /// Connections that may be opened later, by their slots: as many as there is room for in a pair that both sides have mapped.
    fn prepare(
        &mut self,
        id: u64,
        home: super::Home,
        to: (u32, u16),
        count: usize,
    ) -> Vec<(usize, (OwnedFd, OwnedFd))> {
        let mut all = vec![];
        let own = self.settings.sock_network.address_of(home.1);
        for _ in 0..count {
            let Ok(from) = self.free_port(home, SockKind::Stream) else { break };
            let Some(pair) = self.socks.pairs.get_mut(&id) else { break };
            let Some(slot) = pair.prepare_slot([(own, from), to]) else { break };
            match m3ipc_sys::stream_pair() {
                Ok(ends) => all.push((slot, ends)),
                Err(_none) => {
                    pair.leave_slot(slot);
                    break;
                }
            }
        }
        all
    }

    /// The domain of an address, if anybody is there.
    pub(super) fn reachable(&self, vm: i32, address: u32) -> Result<u32, Failure> {
        let domain = self.settings.sock_network.domain_of(address);
        match domain.filter(|domain| self.socks.domains.contains_key(&(vm, *domain))) {
            Some(domain) => Ok(domain),
            None => fail(Errno::HOSTUNREACH, format!("no domain has {}", Ipv4Addr::from(address))),
        }
    }

    /// Puts the accepting side's ends where its listener takes them from: of a connection, and of those that were prepared.
    fn arrive(
        &mut self,
        key: (super::Home, SockKind, u16),
        (id, slots): (u64, &[usize]),
        [token, other]: [u64; 2],
        ends: &[OwnedFd],
    ) -> Result<(), Failure> {
        let mut seats = slots.iter().filter_map(|slot| self.seat(id, *slot, 1, token));
        let (Some((seat, pair)), [end, spares @ ..]) = (seats.next(), ends) else {
            return fail(Errno::CONNREFUSED, "the other side has just gone");
        };
        let mut fds = vec![end.as_fd()];
        fds.extend(pair.iter().map(|fd| fd.as_fd()));
        fds.extend(spares.iter().map(|fd| fd.as_fd()));
        let frame = m3ipc_wire::encode(&SockArrival(seat, seats.map(|(seat, _)| seat).collect()));
        let Some(bound) = self.socks.ports.get_mut(&key).filter(|bound| bound.token == other)
        else {
            return fail(Errno::CONNREFUSED, "the other side has just gone");
        };
        let Some(listener) = &bound.listener else {
            return fail(Errno::CONNREFUSED, "nobody listens");
        };
        match m3ipc_sys::send_packet(listener, &frame, &fds, false) {
            Ok(()) => {
                bound.one_more();
                Ok(())
            }
            Err(Errno::AGAIN | Errno::TOOMANYREFS | Errno::NOBUFS) => {
                fail(Errno::AGAIN, "too many connections wait there")
            }
            Err(_closed) => {
                bound.listener = None;
                fail(Errno::CONNREFUSED, "nobody listens there any more")
            }
        }
    }

    fn seat(
        &self,
        id: u64,
        at: usize,
        side: usize,
        other: u64,
    ) -> Option<(SockConnection, Vec<Rc<OwnedFd>>)> {
        let pair = self.socks.pairs.get(&id)?;
        let slot = pair.slots.get(at)?;
        let fds = pair.fds(side);
        let by = self
            .connections
            .get(&other)
            .map_or((0, u32::MAX), |them| (them.cred.pid, them.cred.uid));
        let seat = SockConnection {
            pair: id,
            side: u8::from(side == 1),
            slot: u16::try_from(at).ok()?,
            own: slot.names[side],
            peer: slot.names[1 - side],
            by,
            with_pair: !fds.is_empty(),
        };
        Some((seat, fds))
    }

    fn give_slot_back(&mut self, id: u64, at: usize) {
        if let Some(pair) = self.socks.pairs.get_mut(&id) {
            pair.leave_slot(at);
        }
    }
}
