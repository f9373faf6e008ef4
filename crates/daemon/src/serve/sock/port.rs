//! Ports of a domain: bound, listened at, given back.

use super::{Failure, Home, fail};
use crate::server::Server;
use m3ipc_sys::Errno;
use m3ipc_wire::{Reply, SockKind, SockReply};
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// The first port that is given to who names none, and the last.
const FREE_PORTS: core::ops::RangeInclusive<u16> = 32_768..=60_999;
/// Ports that one user may have, and how many of them may listen.
const PORTS_PER_USER: usize = 16_384;
const LISTENERS_PER_USER: usize = 1_024;
/// Connections that may wait at a listener at most.
const BACKLOG_MAX: u32 = 4_096;

/// A port in use.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) token: u64,
    /// The daemon's end of what its connections come through, where it listens.
    pub(crate) listener: Option<OwnedFd>,
    backlog: u32,
    waiting: u32,
}

/// What a request is answered with.
pub(crate) type Answer = Result<(Reply, Vec<Rc<OwnedFd>>), Failure>;

impl Bound {
    /// Whether another connection may wait: those that were taken have been told of by a byte each.
    pub(crate) fn has_room(&mut self) -> bool {
        let Some(listener) = &self.listener else { return false };
        let mut byte = [0_u8; 8];
        // Bounded: who sends bytes without end only says that it took everything.
        for _ in 0..=BACKLOG_MAX {
            match m3ipc_sys::receive_bytes(listener, &mut byte, m3ipc_sys::ReceiveFlags::default())
            {
                Ok(bytes) if bytes > 0 => self.waiting = self.waiting.saturating_sub(1),
                _ => break,
            }
        }
        self.waiting <= self.backlog
    }

    /// Whether connections wait there, as far as is known.
    pub(crate) fn waits(&self) -> bool {
        self.waiting > 0
    }

    pub(crate) fn one_more(&mut self) {
        self.waiting += 1;
    }
}

impl Server {
    pub(super) fn bind_port(&mut self, token: u64, kind: SockKind, port: u16) -> Answer {
        let home = self.sock_home(token)?;
        let port = if port == 0 { self.free_port(home, kind)? } else { port };
        if self.socks.ports.contains_key(&(home, kind, port)) {
            return fail(Errno::ADDRINUSE, format!("port {port} of domain {} is in use", home.1));
        }
        self.check_quota(token, PORTS_PER_USER, |_| true)?;
        let mut fds = Vec::new();
        if kind == SockKind::Datagram {
            let path = self.home.datagrams(home, port);
            // What a killed predecessor's party left there, if anything: it did not come back for it.
            let _ = std::fs::remove_file(&path);
            match m3ipc_sys::bind_datagrams(&path) {
                Ok(socket) => fds.push(Rc::new(socket)),
                Err(errno) => {
                    return fail(errno, format!("no socket at {}: {errno}", path.display()));
                }
            }
        }
        let bound = Bound { token, listener: None, backlog: 0, waiting: 0 };
        self.socks.ports.insert((home, kind, port), bound);
        Ok((Reply::Sock(SockReply::Port(port)), fds))
    }

    /// A datagram socket that its party kept over a takeover.
    pub(super) fn keep_port(&mut self, token: u64, port: u16) -> Answer {
        let home = self.sock_home(token)?;
        let key = (home, SockKind::Datagram, port);
        if self.socks.ports.contains_key(&key) || !self.home.datagrams(home, port).exists() {
            return fail(
                Errno::ADDRINUSE,
                format!("port {port} of domain {} is another's now", home.1),
            );
        }
        self.socks.ports.insert(key, Bound { token, listener: None, backlog: 0, waiting: 0 });
        Ok((Reply::Done, Vec::new()))
    }

    pub(super) fn listen_at(&mut self, token: u64, port: u16, backlog: u32) -> Answer {
        let home = self.sock_home(token)?;
        let key = (home, SockKind::Stream, port);
        if self.socks.ports.get(&key).is_none_or(|bound| bound.token != token) {
            return fail(Errno::INVAL, format!("port {port} is not the caller's"));
        }
        self.check_quota(token, LISTENERS_PER_USER, |bound| bound.listener.is_some())?;
        let (here, there) = match m3ipc_sys::packet_pair() {
            Ok(pair) => pair,
            Err(errno) => return fail(errno, format!("no descriptors for a listener: {errno}")),
        };
        if let Some(bound) = self.socks.ports.get_mut(&key) {
            (bound.backlog, bound.waiting) = (backlog.min(BACKLOG_MAX), 0);
            bound.listener = Some(here);
        }
        Ok((Reply::Done, vec![Rc::new(there)]))
    }

    /// Whether the caller's user may have another such port.
    fn check_quota(
        &self,
        token: u64,
        most: usize,
        such: fn(&Bound) -> bool,
    ) -> Result<(), Failure> {
        let uid = self.party_uid(token);
        let of_user = |bound: &&Bound| such(bound) && self.party_uid(bound.token) == uid;
        if uid != 0 && self.socks.ports.values().filter(of_user).count() >= most {
            return fail(Errno::NOBUFS, format!("user {uid} has {most} such ports already"));
        }
        Ok(())
    }

    /// The user of a party; nobody's, where it has gone.
    pub(super) fn party_uid(&self, token: u64) -> u32 {
        self.connections.get(&token).map_or(u32::MAX, |party| party.cred.uid)
    }

    pub(super) fn release_port(&mut self, token: u64, kind: SockKind, port: u16) {
        let Ok(home) = self.sock_home(token) else { return };
        if self.socks.ports.get(&(home, kind, port)).is_some_and(|bound| bound.token == token) {
            self.drop_port(home, kind, port);
        }
    }

    pub(super) fn drop_port(&mut self, home: Home, kind: SockKind, port: u16) {
        if self.socks.ports.remove(&(home, kind, port)).is_some() && kind == SockKind::Datagram {
            let _ = std::fs::remove_file(self.home.datagrams(home, port));
        }
    }

    pub(super) fn free_port(&mut self, home: Home, kind: SockKind) -> Result<u16, Failure> {
        let count = FREE_PORTS.len();
        for _ in 0..count {
            let port = self.socks.next_port.clamp(*FREE_PORTS.start(), *FREE_PORTS.end());
            self.socks.next_port =
                if port == *FREE_PORTS.end() { *FREE_PORTS.start() } else { port + 1 };
            if !self.socks.ports.contains_key(&(home, kind, port)) {
                return Ok(port);
            }
        }
        fail(Errno::ADDRINUSE, "every free port of the domain is in use")
    }

    pub(super) fn sock_home(&self, token: u64) -> Result<Home, Failure> {
        match self.socks.homes.get(&token) {
            Some(home) => Ok(*home),
            None => fail(Errno::NETDOWN, "the caller is in no domain"),
        }
    }
}
