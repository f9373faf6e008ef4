//! Links that never reached this endpoint, because it had no descriptor or no memory for them.
//!
//! The daemon and the peer take such a link as made, and the peer may wait on it. So this endpoint
//! asks for the link again: when a call needs it, about once a second while it sleeps, and behind
//! its descriptor after each ring.

use super::Endpoint;
use super::settle::LinkLoss;
use crate::error::Fail;
use crate::timeout::Deadline;
use m3ipc_abi::{Address, Code};
use m3ipc_link::LinkSide;
use m3ipc_wire::{DaemonEvent, PeerInfo, Reply, Request};
use std::os::fd::OwnedFd;

/// The time between two renewals of missing links by polls.
const RENEW_NS: u64 = 1_000_000_000;

impl Endpoint {
    /// The request for a link. A missing link is renewed.
    pub(super) fn request_for(&self, peer: Address, deadline: Deadline) -> Request {
        match peer.0 {
            missing_links if self.missing_links.contains(&missing_links) => {
                Request::Renew(missing_links)
            }
            peer if deadline.no_wait => Request::ContactNow(peer),
            peer => Request::Contact(peer),
        }
    }

    /// Maps a link, or remembers it as missing.
    pub(super) fn adopt(
        &mut self,
        info: &PeerInfo,
        fds: Vec<OwnedFd>,
        side: LinkSide,
    ) -> Result<u32, Fail> {
        self.missing_links.retain(|address| *address != info.address);
        // A link made anew after a takeover: the peer may never have got the old one.
        if let Some(old) = self.peers.find(Address(info.address)) {
            self.settle_request(old, LinkLoss::Replaced);
        }
        let adopted = self.peers.adopt(info, fds, side);
        if adopted.is_err() {
            self.missing_links.push(info.address);
        }
        adopted.map_err(|_page| {
            let why = "this process has no descriptor or no memory left for a link; close \
                       something, or raise its limits (ulimit -n, ulimit -v)";
            Fail::new(Code::NoMem, why)
        })
    }

    /// Asks again for the missing links.
    #[inline]
    pub(super) fn renew_missing_links(&mut self) {
        if !self.missing_links.is_empty() {
            self.renew_missing_links_slow();
        }
    }

    /// The same for a poll, which may follow another one at once: after a ring or a frame, and
    /// about once a second.
    pub(super) fn renew_missing_links_for_poll(&mut self, any_news: bool) {
        if self.missing_links.is_empty() {
            return;
        }
        let now_ns = m3ipc_sys::monotonic_ns();
        if any_news || now_ns.saturating_sub(self.renewed_ns) >= RENEW_NS {
            self.renewed_ns = now_ns;
            self.renew_missing_links_slow();
        }
    }

    #[cold]
    fn renew_missing_links_slow(&mut self) {
        for address in self.missing_links.clone() {
            match self.control.request_soon(&Request::Renew(address), u64::MAX) {
                // Queue the link behind earlier events: a death among them may free the index of
                // this link.
                Ok((Reply::Contact(info), fds)) => {
                    self.control.requeue((DaemonEvent::Contact(info), fds, LinkSide::Zero));
                    self.events_seen = self.events_seen.wrapping_sub(1);
                }
                // Still no descriptor, or no daemon that answers: try at the next occasion.
                Err(fail)
                    if matches!(
                        fail.code,
                        Code::NoMem | Code::TimedOut | Code::Intr | Code::NotConn
                    ) =>
                {
                    return;
                }
                // The peer is gone, or privileges exclude it.
                _ => self.missing_links.retain(|missing_links| *missing_links != address),
            }
        }
    }
}
