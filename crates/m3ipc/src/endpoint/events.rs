//! Events of the daemon: links that peers made, deaths, ends.
//!
//! | when | how many events are received |
//! |---|---|
//! | at the begin of a call | all: a call knows what was so before it |
//! | while a call uses a link | up to the next death, which the call has to notice |

use super::Endpoint;
use super::kept_notifications::KeptNotification;
use crate::error::Fail;
use crate::observe;
use m3ipc_abi::{Address, Code};
use m3ipc_link::LinkSide;
use m3ipc_link::ends::Cause;
use m3ipc_wire::{DaemonEvent, PeerInfo, Request};
use std::os::fd::OwnedFd;

impl Endpoint {
    /// Receives all events at the begin of a call; two loads if there are none. No call uses a link
    /// yet, and a pending request ends within the event of its peer's death.
    #[inline]
    pub(super) fn receive_earlier_events(&mut self) {
        if self.session.begin_events().is_some() {
            self.receive_all_events();
        }
    }

    /// Receives the events of a call, up to a death; two loads if there are none.
    #[inline]
    pub(super) fn receive_events(&mut self) -> Result<(), Fail> {
        if let Some(event) = self.session.begin_events()
            && self.receive_events_to_next_death()
        {
            self.session.leave_events(event);
        }
        self.membership.check_left()
    }

    /// Receives all events from the control connection.
    pub(super) fn receive_all_events(&mut self) {
        while let Ok(Some((event, fds, side))) = self.session.control_mut().next_event() {
            self.apply_event(event, fds, side);
        }
    }

    /// Receives events up to a death. A call must notice the death before the index or the address
    /// belongs to another peer; the address of a system slot never changes.
    fn receive_events_to_next_death(&mut self) -> bool {
        while let Ok(Some((event, fds, side))) = self.session.control_mut().next_event() {
            if let DaemonEvent::Contact(info) = &event
                && let Some(index) = self.ended_before(info)
            {
                self.session.control_mut().put_back((event, fds, side));
                self.note_missed_end(index);
                return true;
            }
            let is_death = matches!(
                event,
                DaemonEvent::Died(_) | DaemonEvent::Lost(_) | DaemonEvent::Moved(_)
            );
            self.apply_event(event, fds, side);
            if is_death {
                return true;
            }
        }
        false
    }

    pub(super) fn apply_event(&mut self, event: DaemonEvent, fds: Vec<OwnedFd>, side: LinkSide) {
        self.fast.close();
        match event {
            DaemonEvent::Contact(info) => {
                // The peer of a link that cannot be mapped waits until the link is renewed.
                if let Ok(index) = self.adopt(&info, fds, side) {
                    self.inbox.poll_link(&mut self.peers, index);
                }
            }
            DaemonEvent::Died(address) => self.note_end_of(Address(address), Cause::Died),
            DaemonEvent::Lost(address) => self.note_end_of(Address(address), Cause::Lost),
            DaemonEvent::Moved(address) => self.note_end_of(Address(address), Cause::Moved),
            // These go to proxies.
            DaemonEvent::Nodes(_) => {}
            DaemonEvent::Ready { ticket, address } => self.session.note_ended_wait(ticket, address),
            DaemonEvent::Wakeup => {}
            DaemonEvent::Unbound => self.leave(Code::Shutdown),
            DaemonEvent::Ended => self.leave(Code::VmNotRun),
            DaemonEvent::Allowed { address, may_send, may_receive } => {
                if let Some(index) = self.peers.find(Address(address)) {
                    self.peers.get_mut(index).admission_mut().set_privileges(may_send, may_receive);
                    self.inbox.poll_link(&mut self.peers, index);
                }
            }
            DaemonEvent::Area(event) => self.apply_area_event(event, fds),
            DaemonEvent::Traps(traps) => self.membership.set_traps(traps),
            DaemonEvent::Trace(event) => self.trace.apply(event, fds, self.session.control()),
            DaemonEvent::CopyGate { peer, .. } => self.open_gate_for(Address(peer), fds),
            DaemonEvent::Notified { source, bits, by, at_ns } => {
                let notification = KeptNotification { bits, by, at_ns };
                self.inbox.keep_from_daemon(Address(source), notification);
            }
        }
    }

    /// The living peer, as far as this endpoint knows, in whose place a link has another endpoint.
    pub(super) fn ended_before(&self, info: &PeerInfo) -> Option<u32> {
        let index = self.peers.find(Address(info.address))?;
        let peer = self.peers.get(index);
        (peer.life() != info.life && !peer.admission().is_dead()).then_some(index)
    }

    /// The end of a peer of which the daemon has said nothing: it was killed before.
    pub(super) fn note_missed_end(&mut self, index: u32) {
        let peer = self.peers.get(index);
        let cause = if peer.admission().may_hold() { Cause::Lost } else { Cause::Died };
        self.note_end_of(peer.address(), cause);
    }

    /// A peer died, or its node cannot be reached any more.
    fn note_end_of(&mut self, peer: Address, cause: Cause) {
        observe::death(self.membership.vm(), self.membership.address(), peer);
        let found = self.peers.find(peer);
        let was_living = found.is_some_and(|index| !self.peers.get(index).admission().is_dead());
        self.inbox.note_death(peer, was_living);
        let Some(index) = found else { return };
        self.inbox.keep_last_of(self.peers.get_mut(index));
        if cause == Cause::Lost {
            self.peers.get_mut(index).admission_mut().set_lost();
        }
        if cause == Cause::Moved {
            self.peers.get_mut(index).admission_mut().set_moved();
        }
        self.peers.note_death(index);
        self.settle_request(index, cause);
        self.inbox.settle(&mut self.peers);
    }

    /// Another process has ended this endpoint: tell the daemon that it has left.
    fn leave(&mut self, code: Code) {
        if self.membership.end(code) {
            let _ = self.session.control().send(&Request::Left);
        }
    }

    /// Drops the links of dead peers, and leaves unused areas. Not while a call uses a link.
    #[inline]
    pub(super) fn forget_dead(&mut self) {
        if self.areas.need_maintenance() || self.peers.must_forget() {
            self.forget_dead_slow();
        }
    }

    #[cold]
    fn forget_dead_slow(&mut self) {
        if self.areas.need_maintenance() {
            self.maintain_areas();
        }
        self.peers.forget_dead();
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests;
