//! Ways to datagram sockets.
//!
//! A datagram socket is one of the kernel's, bound where only the daemon reaches it. Who sends there gets a socket of
//! its own that the daemon has bound to the sender's name and connected: so the receiver hears from the kernel
//! who sent, and nobody can send in another's name.

use super::fail;
use super::port::Answer;
use crate::server::Server;
use m3ipc_sys::Errno;
use m3ipc_wire::{Reply, SockKind, SockReply};
use std::net::Ipv4Addr;
use std::rc::Rc;

impl Server {
    pub(super) fn reach(&mut self, token: u64, from: u16, address: u32, port: u16) -> Answer {
        let home = self.sock_home(token)?;
        let own = self.socks.ports.get(&(home, SockKind::Datagram, from));
        if own.is_none_or(|bound| bound.token != token) {
            return fail(Errno::INVAL, format!("port {from} is not the caller's"));
        }
        let there = (home.0, self.reachable(home.0, address)?);
        let refused =
            || format!("no datagram socket is bound at {}:{port}", Ipv4Addr::from(address));
        if !self.socks.ports.contains_key(&(there, SockKind::Datagram, port)) {
            return fail(Errno::CONNREFUSED, refused());
        }
        self.socks.next_way += 1;
        let source = self.home.datagrams_from(home, from, self.socks.next_way);
        match m3ipc_sys::connect_datagrams(&self.home.datagrams(there, port), &source) {
            Ok(way) => Ok((Reply::Done, vec![Rc::new(way)])),
            Err(Errno::NOENT | Errno::CONNREFUSED) => fail(Errno::CONNREFUSED, refused()),
            Err(errno) => {
                fail(errno, format!("no way to {}:{port}: {errno}", Ipv4Addr::from(address)))
            }
        }
    }

    pub(super) fn everybody(&mut self, token: u64, port: u16) -> Answer {
        let vm = self.sock_home(token)?.0;
        let network = self.settings.sock_network;
        let bound =
            self.socks.ports.keys().filter(|((of, _), kind, at)| {
                *of == vm && *kind == SockKind::Datagram && *at == port
            });
        let all = bound.map(|((_, domain), ..)| network.address_of(*domain)).collect();
        Ok((Reply::Sock(SockReply::Addresses(all)), Vec::new()))
    }
}
