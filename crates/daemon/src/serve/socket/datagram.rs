//! Routes to datagram sockets.
//!
//! A datagram socket is a kernel socket at a path that only the daemon reaches. A sender gets a
//! socket of its own, which the daemon has bound to the sender's name and connected. The receiver
//! therefore learns the sender from the kernel, and no party can send in the name of another.

use crate::server::Server;
use crate::state::sockets::{SocketAnswer, fail};
use crate::token::Token;
use m3ipc_sys::Errno;
use m3ipc_wire::{Reply, SockKind, SockReply};
use std::net::Ipv4Addr;
use std::rc::Rc;

impl Server {
    pub(super) fn open_route(
        &mut self,
        token: Token,
        from: u16,
        address: u32,
        port: u16,
    ) -> SocketAnswer {
        let domain = self.sockets.domain_of(token)?;
        let own = self.sockets.ports.get(&(domain, SockKind::Datagram, from));
        if own.is_none_or(|bound| bound.party != token) {
            return fail(Errno::INVAL, format!("port {from} is not the caller's; bind it first"));
        }
        let to = (domain.0, self.reachable_domain(domain.0, address)?);
        let receiver = format!("{}:{port}", Ipv4Addr::from(address));
        let refused = format!("no datagram socket is bound at {receiver}; start its program");
        if !self.sockets.ports.contains_key(&(to, SockKind::Datagram, port)) {
            return fail(Errno::CONNREFUSED, refused);
        }
        let route = self.sockets.new_route();
        let source = self.runtime_directory.datagram_route(domain, from, route);
        let target = self.runtime_directory.datagram_socket(to, port);
        match m3ipc_sys::connect_datagrams(&target, &source) {
            Ok(socket) => Ok((Reply::Done, vec![Rc::new(socket.into())])),
            Err(Errno::NOENT | Errno::CONNREFUSED) => fail(Errno::CONNREFUSED, refused),
            Err(errno) => fail(errno, format!("no route to {receiver}: {errno}; try again")),
        }
    }

    /// The addresses of all datagram sockets with this port, for a broadcast.
    pub(super) fn list_receivers(&mut self, token: Token, port: u16) -> SocketAnswer {
        let vm = self.sockets.domain_of(token)?.0;
        let network = self.settings.sock_network;
        let bound =
            self.sockets.ports.keys().filter(|((of, _), kind, at)| {
                *of == vm && *kind == SockKind::Datagram && *at == port
            });
        let all = bound.map(|((_, domain), ..)| network.address_of(*domain)).collect();
        Ok((Reply::Sock(SockReply::Addresses(all)), Vec::new()))
    }
}
