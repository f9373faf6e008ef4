//! Events of the daemon: links that peers made, deaths, ends; and its takeovers.

use super::Endpoint;
use super::daemon_notifications::DaemonNotification;
use super::page_set::map_pages;
use super::settle::LinkLoss;
use crate::control::{Control, IfAbsent};
use crate::error::Fail;
use crate::observe;
use core::sync::atomic::Ordering;
use m3ipc_abi::{Address, Code};
use m3ipc_link::LinkSide;
use m3ipc_wire::{DaemonEvent, Reply, Request};
use std::os::fd::OwnedFd;

/// Peers in one frame: a number that surely fits.
const RECALL_PEERS: usize = 1024;

impl Endpoint {
    /// Receives the events of the daemon, if there are any; one load if there are none.
    #[inline]
    pub(super) fn receive_events(&mut self) -> Result<(), Fail> {
        let event = self.control_page.event_word().load(Ordering::Acquire);
        if event != self.events_seen {
            self.events_seen = event;
            if self.receive_events_to_next_death() {
                // More events are queued; decrement `events_seen` so that the next call reads them.
                self.events_seen = event.wrapping_sub(1);
            }
        }
        match self.left {
            None => Ok(()),
            Some(code) => Err(code.into()),
        }
    }

    /// Receives all events from the control connection.
    pub(super) fn receive_all_events(&mut self) {
        while let Ok(Some((event, fds, side))) = self.control.next_event() {
            self.apply_event(event, fds, side);
        }
    }

    /// Receives events up to a death. A call must notice the death before the index or the address
    /// belongs to another peer; the address of a system slot never changes.
    fn receive_events_to_next_death(&mut self) -> bool {
        while let Ok(Some((event, fds, side))) = self.control.next_event() {
            let is_death = matches!(event, DaemonEvent::Died(_));
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
            DaemonEvent::Died(address) => {
                observe::death(self.vm, self.address, Address(address));
                self.note_death(Address(address));
                if let Some(index) = self.peers.find(Address(address)) {
                    self.peers.get_mut(index).set_dead();
                    self.dead.push(index);
                    self.settle_request(index, LinkLoss::Died);
                }
            }
            DaemonEvent::Ready { ticket, address } => self.ready.push((ticket, address)),
            DaemonEvent::Wakeup => {}
            DaemonEvent::Unbound => self.leave(Code::Shutdown),
            DaemonEvent::Ended => self.leave(Code::VmNotRun),
            DaemonEvent::Allowed { address, may_send, may_receive } => {
                if let Some(index) = self.peers.find(Address(address)) {
                    self.peers.get_mut(index).set_privileges(may_send, may_receive);
                    self.inbox.poll_link(&mut self.peers, index);
                }
            }
            DaemonEvent::Area(event) => self.apply_area_event(event, fds),
            DaemonEvent::Traps(traps) => self.traps = traps,
            DaemonEvent::Trace(event) => self.apply_trace_event(event, fds),
            DaemonEvent::CopyGate { peer, .. } => self.open_gate_for(Address(peer), fds),
            DaemonEvent::Notified { source, bits, by, at_ns } => {
                let notification = DaemonNotification { bits, by, at_ns };
                self.inbox.via_daemon.add(Address(source), notification);
            }
        }
    }

    /// Another process has ended this endpoint: tell the daemon that it has left.
    fn leave(&mut self, code: Code) {
        if self.left.is_none() {
            self.left = Some(code);
            let _ = self.control.send(&Request::Left);
        }
    }

    /// Drops the links of dead peers, and leaves unused areas. Not while a call uses a link.
    #[inline]
    pub(super) fn forget_dead(&mut self) {
        if self.areas.need_maintenance() || !self.dead.is_empty() || self.peers.has_retired() {
            self.forget_dead_slow();
        }
    }

    #[cold]
    fn forget_dead_slow(&mut self) {
        if self.areas.need_maintenance() {
            self.maintain_areas();
        }
        for index in std::mem::take(&mut self.dead) {
            self.peers.remove_dead(index);
        }
        self.peers.remove_retired();
    }

    /// Connects to a new daemon if the old one has died. Existing links go on without a daemon;
    /// only new links need one.
    pub(super) fn reattach_if_closed(&mut self) {
        if self.left.is_some() || !self.control.is_closed() {
            return;
        }
        self.fast.close();
        if let Err(fail) = self.reattach()
            && fail.code == Code::NotBind
        {
            self.left = Some(Code::NotBind);
        }
    }

    fn reattach(&mut self) -> Result<(), Fail> {
        let directory = self.control.directory().to_owned();
        let mut control = Control::connect(&directory, IfAbsent::Start)?;
        let request = Request::Reattach { vm: self.vm, address: self.address.0, tid: self.tid };
        let (Reply::Bound { traps, .. }, fds) = control.request(&request)? else {
            return Err(crate::control::unexpected());
        };
        let (control_page, page_set, liveness_lock) = map_pages(fds)?;
        control.request(&Request::Mapped)?;
        if let Some((verb, peer, since_ns)) = self.blocked {
            control_page.set_blocked(verb, peer);
            control_page.set_sleep_start(since_ns, m3ipc_sys::thread_id().cast_unsigned());
        }
        self.traps = traps;
        // The new daemon knows of no tracing; the tracer asks again.
        (self.tracing, self.suspended) = (None, None);
        // The events of the former daemon still count, and are received death by death.
        control.inherit(&mut self.control);
        self.control = control;
        self.events_seen = control_page.event_word().load(Ordering::Acquire).wrapping_sub(1);
        (self.control_page, self.liveness_lock) = (control_page, liveness_lock);
        self.page_sets.push(page_set);
        self.recall()?;
        self.reopen_doorbell()
    }

    /// Tells a new daemon the peers of this endpoint. The daemon answers with the deaths that its
    /// predecessor could not report.
    fn recall(&mut self) -> Result<(), Fail> {
        let held = self.peers.indexes().map(|index| self.peers.get(index).address().0);
        let peers: Vec<i32> = held.chain(self.control.unread_contacts()).collect();
        for part in peers.chunks(RECALL_PEERS) {
            self.control.request(&Request::Recall(part.to_vec()))?;
        }
        self.recall_areas()
    }
}
