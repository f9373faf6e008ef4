//! Spares: connections that the daemon prepared beside one that was asked for.
//!
//! ```text
//!   connecting side                                    listener
//!     asks the daemon for one ──────────────────────────> gets it, and some further sockets that nobody uses yet
//!     gets it, and the other ends of those
//!     opens one of them: a bell through its socket ─────> its poll is ready; accept gives it
//! ```
//! So who connects again and again asks once in a while, and sends eight bytes else. The daemon has made each of them, between
//! these two parties, with its addresses: whoever opens one can do nothing that he could not have asked for. A listener that
//! ends closes its ends, and the bell fails.

use crate::record::{RECORD_BYTES, Record};
use m3ipc_sys::{Errno, ReceiveFlags, receive_bytes, send_bytes};
use m3ipc_wire::SockConnection;
use m3ipc_wire::sock::SOCK_PREPARED_MAX;
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// Addresses that spares are kept of; beyond that all are given back.
const TARGETS_MAX: usize = 64;

/// Where spares lead.
pub(crate) type Target = (u32, u16);

/// A connection that nobody has opened yet.
#[derive(Debug)]
pub(crate) struct Spare {
    pub(crate) seat: SockConnection,
    pub(crate) socket: OwnedFd,
}

impl Spare {
    /// Those that came with a packet: seats, and as many descriptors.
    pub(crate) fn all(seats: Vec<SockConnection>, sockets: Vec<OwnedFd>) -> Vec<Self> {
        seats.into_iter().zip(sockets).map(|(seat, socket)| Self { seat, socket }).collect()
    }

    /// Opens it; `false` where the listener has gone.
    pub(crate) fn knock(&self) -> bool {
        send_bytes(&self.socket, &Record::Bell.encode(), &[], false) == Ok(RECORD_BYTES)
    }

    /// Whether it was opened; an error where it never will be.
    pub(crate) fn is_opened(&self) -> Result<bool, Errno> {
        let mut head = [0; RECORD_BYTES];
        match receive_bytes(&self.socket, &mut head, ReceiveFlags::default()) {
            Ok(RECORD_BYTES) if Record::decode(head) == Some(Record::Bell) => Ok(true),
            Ok(_) => Err(Errno::PROTO),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(errno) => Err(errno),
        }
    }
}

#[derive(Debug, Default)]
struct Kept {
    ready: Vec<Spare>,
    wish: u8,
}

/// The spares of a party.
#[derive(Debug, Default)]
pub(crate) struct Spares(HashMap<Target, Kept>);

impl Spares {
    /// One that leads there.
    pub(crate) fn take(&mut self, to: Target) -> Option<Spare> {
        self.0.get_mut(&to)?.ready.pop()
    }

    /// How many to ask for: none at first, and more each time.
    pub(crate) fn wish(&mut self, to: Target) -> u8 {
        let most = u8::try_from(SOCK_PREPARED_MAX).unwrap_or(u8::MAX);
        self.0.get(&to).map_or(0, |kept| kept.wish.min(most))
    }

    /// A connection came, with so many spares; those that have to be given back, since they lead to too many places.
    pub(crate) fn put(&mut self, to: Target, spares: Vec<Spare>) -> Vec<Spare> {
        let dropped = if self.0.len() >= TARGETS_MAX && !self.0.contains_key(&to) {
            self.clear()
        } else {
            vec![]
        };
        let kept = self.0.entry(to).or_default();
        kept.wish = kept.wish.saturating_mul(2).saturating_add(1);
        kept.ready.extend(spares);
        dropped
    }

    /// All of them.
    pub(crate) fn clear(&mut self) -> Vec<Spare> {
        self.0.drain().flat_map(|(_, kept)| kept.ready).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_connects_once_gets_none_and_who_goes_on_gets_more() {
        let mut spares = Spares::default();
        let to = (1, 80);
        let wishes: Vec<u8> = (0..5)
            .map(|_| {
                let wish = spares.wish(to);
                spares.put(to, vec![]);
                wish
            })
            .collect();
        assert_eq!(wishes, [0, 1, 3, 7, 7]);
        assert_eq!(spares.wish((1, 81)), 0);
        (0..TARGETS_MAX)
            .for_each(|port| drop(spares.put((2, u16::try_from(port).unwrap()), vec![])));
        assert_eq!(spares.wish(to), 0, "many places: what was known is forgotten");
    }
}
