//! Prepared connections: the daemon makes them beside a connection that was asked for.
//!
//! ```text
//!   connecting side                                listener
//!     asks the daemon for one ───────────────────> gets it, and sockets that are not in use yet
//!     gets it, and the other ends of those
//!     opens one: a wakeup record through it ─────> its poll is ready; accept returns it
//! ```
//!
//! A process that connects repeatedly asks the daemon once for several connections. Each further
//! connect costs one record of eight bytes. The daemon made every prepared connection for these two
//! members, with its addresses, so opening one grants nothing that the member could not ask for. A
//! listener that ends closes its ends, and the opening then fails.

use crate::record::{RECORD_BYTES, Record};
use m3ipc_sys::{Errno, ReceiveFlags, receive_bytes, send_bytes};
use m3ipc_wire::SockConnection;
use m3ipc_wire::sock::SOCK_PREPARED_MAX;
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// Targets with prepared connections. Beyond this number all of them are closed.
const TARGETS_MAX: usize = 64;

/// The address and the port of a listener.
pub(crate) type Target = (u32, u16);

/// A connection that is not open yet.
#[derive(Debug)]
pub(crate) struct PreparedConnection {
    pub(crate) info: SockConnection,
    pub(crate) socket: OwnedFd,
}

impl PreparedConnection {
    /// The prepared connections of one packet: their records, and as many descriptors.
    pub(crate) fn pair_up(infos: Vec<SockConnection>, sockets: Vec<OwnedFd>) -> Vec<Self> {
        infos.into_iter().zip(sockets).map(|(info, socket)| Self { info, socket }).collect()
    }

    /// Opens the connection; `false` where the listener is gone.
    pub(crate) fn open(&self) -> bool {
        send_bytes(&self.socket, &Record::Wakeup.encode(), &[], false) == Ok(RECORD_BYTES)
    }

    /// Whether the peer has opened the connection; an error where it never can.
    pub(crate) fn is_opened(&self) -> Result<bool, Errno> {
        let mut head = [0; RECORD_BYTES];
        match receive_bytes(&self.socket, &mut head, ReceiveFlags::default()) {
            Ok(RECORD_BYTES) if Record::decode(head) == Some(Record::Wakeup) => Ok(true),
            Ok(_) => Err(Errno::PROTO),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(errno) => Err(errno),
        }
    }
}

#[derive(Debug, Default)]
struct TargetState {
    ready: Vec<PreparedConnection>,
    wanted: u8,
}

/// The prepared connections of a member.
#[derive(Debug, Default)]
pub(crate) struct PreparedConnections(HashMap<Target, TargetState>);

impl PreparedConnections {
    /// Takes one that leads to this target.
    pub(crate) fn take(&mut self, to: Target) -> Option<PreparedConnection> {
        self.0.get_mut(&to)?.ready.pop()
    }

    /// The number to ask for: none at the first connect, then more each time.
    pub(crate) fn wanted(&mut self, to: Target) -> u8 {
        let most = u8::try_from(SOCK_PREPARED_MAX).unwrap_or(u8::MAX);
        self.0.get(&to).map_or(0, |target| target.wanted.min(most))
    }

    /// Keeps the prepared connections of a packet. Returns those to close, where targets are too
    /// many.
    pub(crate) fn put(
        &mut self,
        to: Target,
        connections: Vec<PreparedConnection>,
    ) -> Vec<PreparedConnection> {
        let dropped = if self.0.len() >= TARGETS_MAX && !self.0.contains_key(&to) {
            self.clear()
        } else {
            vec![]
        };
        let target = self.0.entry(to).or_default();
        target.wanted = target.wanted.saturating_mul(2).saturating_add(1);
        target.ready.extend(connections);
        dropped
    }

    /// Takes all of them.
    pub(crate) fn clear(&mut self) -> Vec<PreparedConnection> {
        self.0.drain().flat_map(|(_, target)| target.ready).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_connect_prepares_none_and_later_ones_more() {
        let mut connections = PreparedConnections::default();
        let to = (1, 80);
        let wanted: Vec<u8> = (0..5)
            .map(|_| {
                let wanted = connections.wanted(to);
                connections.put(to, vec![]);
                wanted
            })
            .collect();
        assert_eq!(wanted, [0, 1, 3, 7, 7]);
        assert_eq!(connections.wanted((1, 81)), 0);
        (0..TARGETS_MAX)
            .for_each(|port| drop(connections.put((2, u16::try_from(port).unwrap()), vec![])));
        assert_eq!(connections.wanted(to), 0, "beyond {TARGETS_MAX} targets all are forgotten");
    }
}
