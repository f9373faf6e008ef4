//! A bound port, and the connections that wait at its listener.

use crate::quota::Charge;
use crate::token::Token;
use std::os::fd::OwnedFd;

/// The number of connections that may wait at a listener.
const BACKLOG_MAX: u32 = 4_096;

/// A port in use.
#[derive(Debug)]
pub(crate) struct BoundPort {
    /// The party that bound the port.
    pub(crate) party: Token,
    /// The daemon's end of the socket through which a listener gets its connections.
    pub(crate) listener: Option<OwnedFd>,
    _charges: Vec<Charge>,
    backlog: u32,
    waiting: u32,
    /// Descriptors of connections that the listener may not have taken yet. The connecting users
    /// pay for them.
    on_their_way: Vec<Charge>,
}

impl BoundPort {
    pub(crate) fn new(party: Token) -> Self {
        Self {
            party,
            listener: None,
            _charges: Vec::new(),
            backlog: 0,
            waiting: 0,
            on_their_way: Vec::new(),
        }
    }

    /// Listens at this socket, whose descriptor `charges` count.
    pub(crate) fn listen(&mut self, listener: OwnedFd, backlog: u32, charges: Vec<Charge>) {
        self._charges = charges;
        (self.backlog, self.waiting) = (backlog.min(BACKLOG_MAX), 0);
        self.listener = Some(listener);
    }

    /// Whether another connection may wait. The listener's party sends one byte for each
    /// connection that it has taken.
    pub(crate) fn has_room(&mut self) -> bool {
        let Some(listener) = &self.listener else { return false };
        let flags = m3ipc_sys::ReceiveFlags::default();
        let mut byte = [0_u8; 8];
        // Bounded: a party that sends bytes without end only reports that it took everything.
        for _ in 0..=BACKLOG_MAX {
            match m3ipc_sys::receive_bytes(listener, &mut byte, flags) {
                Ok(bytes) if bytes > 0 => self.waiting = self.waiting.saturating_sub(1),
                _ => break,
            }
        }
        self.waiting <= self.backlog
    }

    /// Whether connections wait, as of the last [`BoundPort::has_room`].
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    pub(crate) fn add_waiting(&mut self, descriptors: Vec<Charge>) {
        self.waiting += 1;
        self.on_their_way.extend(descriptors);
    }

    /// Forgets the descriptors on their way, if the listener has taken all connections.
    pub(crate) fn count_taken_descriptors(&mut self) {
        let Some(listener) = &self.listener else { return };
        if !self.on_their_way.is_empty() && m3ipc_sys::unread_bytes(listener) == Ok(0) {
            self.on_their_way.clear();
        }
    }
}
