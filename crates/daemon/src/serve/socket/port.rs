//! Ports of a domain: bind, listen, release.

use crate::quota::Resource;
use crate::server::Server;
use crate::state::sockets::{BoundPort, PortId, SocketAnswer, SocketFailure, fail};
use crate::token::Token;
use m3ipc_sys::Errno;
use m3ipc_wire::{Reply, SockKind, SockReply};
use std::rc::Rc;

/// The number of ports that one user may have.
const PORTS_PER_USER: usize = 16_384;
/// The number of listening ports that one user may have.
const LISTENERS_PER_USER: usize = 1_024;

impl Server {
    pub(super) fn bind_port(&mut self, token: Token, kind: SockKind, port: u16) -> SocketAnswer {
        let domain = self.sockets.domain_of(token)?;
        let port = if port == 0 { self.sockets.free_port(domain, kind)? } else { port };
        if self.sockets.ports.contains_key(&(domain, kind, port)) {
            let why = format!("port {port} of domain {} is in use; bind another port", domain.1);
            return fail(Errno::ADDRINUSE, why);
        }
        self.check_port_quota(token, PORTS_PER_USER, |_| true)?;
        let mut fds = Vec::new();
        if kind == SockKind::Datagram {
            let path = self.runtime_directory.datagram_socket(domain, port);
            // A party of a killed predecessor left the file, and has not returned for it.
            let _ = std::fs::remove_file(&path);
            match m3ipc_sys::bind_datagrams(&path) {
                Ok(socket) => fds.push(Rc::new(socket.into())),
                Err(errno) => {
                    let path = path.display();
                    return fail(errno, format!("no socket can be bound at {path}: {errno}"));
                }
            }
        }
        self.sockets.ports.insert((domain, kind, port), BoundPort::new(token));
        Ok((Reply::Sock(SockReply::Port(port)), fds))
    }

    /// Takes back a datagram port whose socket the party kept over a takeover.
    pub(super) fn keep_port(&mut self, token: Token, port: u16) -> SocketAnswer {
        let domain = self.sockets.domain_of(token)?;
        let id = (domain, SockKind::Datagram, port);
        let exists = self.runtime_directory.datagram_socket(domain, port).exists();
        if self.sockets.ports.contains_key(&id) || !exists {
            let why = format!(
                "port {port} of domain {} belongs to another party now; bind another port",
                domain.1
            );
            return fail(Errno::ADDRINUSE, why);
        }
        self.sockets.ports.insert(id, BoundPort::new(token));
        Ok((Reply::Done, Vec::new()))
    }

    pub(super) fn listen_at(&mut self, token: Token, port: u16, backlog: u32) -> SocketAnswer {
        let id = (self.sockets.domain_of(token)?, SockKind::Stream, port);
        if self.sockets.ports.get(&id).is_none_or(|bound| bound.party != token) {
            return fail(Errno::INVAL, format!("port {port} is not the caller's; bind it first"));
        }
        self.check_port_quota(token, LISTENERS_PER_USER, |bound| bound.listener.is_some())?;
        let uid = self.user_of_party(token);
        let charges = match self.accounts.charge(uid, &[(Resource::Descriptors, 1)]) {
            Ok(charges) => charges,
            Err(exceeded) => return fail(Errno::NOBUFS, exceeded.to_string()),
        };
        let (own, listener) = match m3ipc_sys::packet_pair() {
            Ok(pair) => pair,
            Err(errno) => return fail(errno, format!("no descriptors for a listener: {errno}")),
        };
        if let Some(bound) = self.sockets.ports.get_mut(&id) {
            bound.listen(own, backlog, charges);
        }
        Ok((Reply::Done, vec![Rc::new(listener.into())]))
    }

    /// Checks whether the caller's user may have another port of a sort.
    fn check_port_quota(
        &self,
        token: Token,
        quota: usize,
        counts: fn(&BoundPort) -> bool,
    ) -> Result<(), SocketFailure> {
        let uid = self.user_of_party(token);
        let of_user = |bound: &&BoundPort| counts(bound) && self.user_of_party(bound.party) == uid;
        if uid != 0 && self.sockets.ports.values().filter(of_user).count() >= quota {
            let why = format!("user {uid} has {quota} such ports, its quota; release one first");
            return fail(Errno::NOBUFS, why);
        }
        Ok(())
    }

    /// The user of a party; `u32::MAX` for a party that left.
    pub(super) fn user_of_party(&self, party: Token) -> u32 {
        self.connections.get(party).map_or(u32::MAX, |party| party.cred.uid)
    }

    pub(super) fn release_port(&mut self, token: Token, kind: SockKind, port: u16) {
        let Ok(domain) = self.sockets.domain_of(token) else { return };
        let id = (domain, kind, port);
        if self.sockets.ports.get(&id).is_some_and(|bound| bound.party == token) {
            self.drop_port(id);
        }
    }

    pub(super) fn drop_port(&mut self, id: PortId) {
        let (domain, kind, port) = id;
        if self.sockets.ports.remove(&id).is_some() && kind == SockKind::Datagram {
            // The next bind of the port removes the file, too.
            let _ = std::fs::remove_file(self.runtime_directory.datagram_socket(domain, port));
        }
    }
}
