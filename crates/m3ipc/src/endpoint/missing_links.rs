//! Links that never reached this endpoint, because it had no descriptor or no memory for them.
//!
//! The daemon and the peer take such a link as made, and the peer may wait on it. So this endpoint
//! asks for the link again: when a call needs it, about once a second while it sleeps, and behind
//! its descriptor after each ring.

use crate::control::Control;
use crate::timeout::Deadline;
use m3ipc_abi::{Address, Code};
use m3ipc_link::LinkSide;
use m3ipc_wire::{DaemonEvent, Reply, Request};

/// The time between two renewals of missing links by polls.
const RENEW_NS: u64 = 1_000_000_000;

/// Peers whose links could not be mapped.
#[derive(Debug, Default)]
pub(super) struct MissingLinks {
    peers: Vec<i32>,
    /// When a poll asked for them last.
    renewed_ns: u64,
}

impl MissingLinks {
    pub(super) fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// Notes that the link with this peer is missing.
    pub(super) fn add(&mut self, peer: i32) {
        self.peers.push(peer);
    }

    /// Notes that the link with this peer is there, or no longer wanted.
    pub(super) fn remove(&mut self, peer: i32) {
        self.peers.retain(|missing| *missing != peer);
    }

    /// The request for a link. A missing link is renewed.
    pub(super) fn request_for(&self, peer: Address, deadline: Deadline) -> Request {
        match peer.0 {
            missing if self.peers.contains(&missing) => Request::Renew(missing),
            peer if deadline.no_wait => Request::ContactNow(peer),
            peer => Request::Contact(peer),
        }
    }

    /// Whether a poll asks for the missing links: after a ring or a frame, and about once a second.
    /// Notes the time.
    pub(super) fn is_due(&mut self, any_news: bool) -> bool {
        if self.peers.is_empty() {
            return false;
        }
        let now_ns = m3ipc_sys::monotonic_ns();
        let is_due = any_news || now_ns.saturating_sub(self.renewed_ns) >= RENEW_NS;
        if is_due {
            self.renewed_ns = now_ns;
        }
        is_due
    }

    /// Asks for the missing links. `true` if some came: they are queued behind earlier events, as a
    /// death among those may free the index of a link.
    pub(super) fn renew(&mut self, control: &mut Control) -> bool {
        let mut any_came = false;
        for peer in self.peers.clone() {
            match control.request_soon(&Request::Renew(peer), u64::MAX) {
                Ok((Reply::Contact(info), fds)) => {
                    control.requeue((DaemonEvent::Contact(info), fds, LinkSide::Zero));
                    any_came = true;
                }
                // Still no descriptor, or no daemon that answers: try at the next occasion.
                Err(fail)
                    if matches!(
                        fail.code,
                        Code::NoMem | Code::TimedOut | Code::Intr | Code::NotConn
                    ) =>
                {
                    break;
                }
                // The peer is gone, or privileges exclude it.
                _ => self.remove(peer),
            }
        }
        any_came
    }
}
