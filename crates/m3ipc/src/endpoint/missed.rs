//! Links that never reached this endpoint: it had no descriptor or no memory
//! for them when the daemon gave them.
//!
//! The daemon and the peer take such a link for made, and the peer may wait
//! there. So it is asked for again, until it can be had: when this endpoint
//! wants it, and now and then (about once a second where it sleeps).

use super::Endpoint;
use crate::error::Fail;
use crate::timeout::Deadline;
use m3ipc_abi::{Address, Code};
use m3ipc_link::LinkSide;
use m3ipc_wire::{DaemonEvent, PeerInfo, Reply, Request};
use std::os::fd::OwnedFd;

impl Endpoint {
    /// The request for a link: made anew where the former one was missed.
    pub(super) fn request_for(&self, peer: Address, deadline: Deadline) -> Request {
        match peer.0 {
            missed if self.missed.contains(&missed) => Request::Renew(missed),
            peer if deadline.no_wait => Request::ContactNow(peer),
            peer => Request::Contact(peer),
        }
    }

    /// Takes up a link, or remembers that it was missed.
    pub(super) fn adopt(
        &mut self,
        info: &PeerInfo,
        fds: Vec<OwnedFd>,
        side: LinkSide,
    ) -> Result<u32, Fail> {
        self.missed.retain(|address| *address != info.address);
        let adopted = self.peers.adopt(info, fds, side);
        if adopted.is_err() {
            self.missed.push(info.address);
        }
        adopted.map_err(|_page| {
            let why = "this process has no descriptor or no memory left for a link; close something, or raise \
                       its limits (ulimit -n, ulimit -v)";
            Fail::new(Code::NoMem, why)
        })
    }

    /// Asks again for the links that were missed.
    #[inline]
    pub(super) fn take_up_missed(&mut self) {
        if !self.missed.is_empty() {
            self.ask_for_missed();
        }
    }

    #[cold]
    fn ask_for_missed(&mut self) {
        for address in self.missed.clone() {
            match self.control.request_soon(&Request::Renew(address)) {
                // Heard in its turn: a death before it may have freed the very index that it has.
                Ok((Reply::Contact(info), fds)) => {
                    self.control.keep((DaemonEvent::Contact(info), fds, LinkSide::Zero));
                    self.news_seen = self.news_seen.wrapping_sub(1);
                }
                // No descriptor yet, or a daemon that is busy: once more at the next occasion.
                Err(fail) if matches!(fail.code, Code::NoMem | Code::TimedOut | Code::Intr) => {
                    return;
                }
                // It has gone, or may not be spoken with.
                _ => self.missed.retain(|missed| *missed != address),
            }
        }
    }
}
