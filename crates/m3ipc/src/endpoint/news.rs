//! News of the daemon: links that peers made, deaths, ends; and its takeovers.

use super::inbox::Foreign;
use super::{Endpoint, Face};
use crate::control::{Absent, Control};
use crate::error::Fail;
use core::sync::atomic::Ordering;
use m3ipc_abi::{Address, Code};
use m3ipc_link::{
    CONTROL_PAGE_BYTES, ControlPage, LIVENESS_LOCK_OFFSET, LinkSide, OwnStatus, ReadyBitmap,
};
use m3ipc_sys::LivenessLock;
use m3ipc_wire::{DaemonEvent, Reply, Request};
use std::os::fd::OwnedFd;

/// Peers told of in one frame: what surely fits.
const RECALL_PEERS: usize = 1024;

impl Endpoint {
    /// Hears what the daemon has to tell, if anything: one load where there is nothing.
    #[inline]
    pub(super) fn hear(&mut self) -> Result<(), Fail> {
        let news = self.desk.event_word().load(Ordering::Acquire);
        if news != self.news_seen {
            self.news_seen = news;
            if self.hear_to_next_death() {
                // The rest is for the next look: heard before, seen by nobody.
                self.news_seen = news.wrapping_sub(1);
            }
        }
        match self.left {
            None => Ok(()),
            Some(code) => Err(code.into()),
        }
    }

    /// Reads all news from the control connection.
    pub(super) fn hear_all(&mut self) {
        while let Ok(Some((news, fds, side))) = self.control.next_news() {
            self.take_note(news, fds, side);
        }
    }

    /// Reads news up to a death, which a call must notice before the dead one's
    /// index or address (a system slot's is always the same) belongs to another.
    fn hear_to_next_death(&mut self) -> bool {
        while let Ok(Some((news, fds, side))) = self.control.next_news() {
            let is_death = matches!(news, DaemonEvent::Died(_));
            self.take_note(news, fds, side);
            if is_death {
                return true;
            }
        }
        false
    }

    pub(super) fn take_note(&mut self, news: DaemonEvent, fds: Vec<OwnedFd>, side: LinkSide) {
        match news {
            DaemonEvent::Contact(info) => {
                // Where it cannot be mapped the peer waits until it can.
                if let Ok(index) = self.adopt(&info, fds, side) {
                    self.inbox.look_at(&mut self.peers, index);
                }
            }
            DaemonEvent::Died(address) => {
                if let Some(index) = self.peers.find(Address(address)) {
                    self.peers.get_mut(index).dead = true;
                    self.dead.push(index);
                }
            }
            DaemonEvent::Ready { ticket, address } => self.ready.push((ticket, address)),
            DaemonEvent::Wakeup => {}
            DaemonEvent::Unbound => self.leave(Code::Shutdown),
            DaemonEvent::Ended => self.leave(Code::VmNotRun),
            DaemonEvent::Allowed { address, may_send, may_receive } => {
                if let Some(index) = self.peers.find(Address(address)) {
                    let peer = self.peers.get_mut(index);
                    peer.may_send = may_send;
                    peer.may_receive = may_receive;
                    self.inbox.look_at(&mut self.peers, index);
                }
            }
            DaemonEvent::Area(news) => self.area_news(&news, fds),
            DaemonEvent::Traps(traps) => self.traps = traps,
            DaemonEvent::Trace(news) => self.trace_news(news, fds),
            DaemonEvent::CopyGate { peer, .. } => self.lie_still_for(Address(peer), fds),
            DaemonEvent::Notified { source, bits, by } => {
                let noted = self.inbox.foreign.entry(source).or_insert(Foreign { bits: 0, by });
                *noted = Foreign { bits: noted.bits | bits, by };
            }
        }
    }

    /// Another has ended this endpoint: it says that it has left.
    fn leave(&mut self, code: Code) {
        if self.left.is_none() {
            self.left = Some(code);
            let _ = self.control.send(&Request::Left);
        }
    }

    /// Lets go of the links of the dead; not while a call still looks at one.
    #[inline]
    pub(super) fn forget_dead(&mut self) {
        if !self.dead.is_empty() {
            for index in std::mem::take(&mut self.dead) {
                self.peers.remove_dead(index);
            }
        }
        self.peers.remove_retired();
    }

    /// Where the daemon has died: finds or starts another and makes itself
    /// known to it. Links go on as they are; only new ones need a daemon.
    pub(super) fn reattach_if_cut(&mut self) {
        if self.left.is_none()
            && self.control.is_cut()
            && let Err(fail) = self.reattach()
            && fail.code == Code::NotBind
        {
            self.left = Some(Code::NotBind);
        }
    }

    fn reattach(&mut self) -> Result<(), Fail> {
        let directory = self.control.directory().to_owned();
        let mut control = Control::connect(&directory, Absent::Start)?;
        let request = Request::Reattach { vm: self.vm, address: self.address.0, tid: self.tid };
        let (Reply::Bound { traps, .. }, fds) = control.request(&request)? else {
            return Err(crate::control::unexpected());
        };
        let (desk, face, pulse) = map_pages(fds)?;
        control.request(&Request::Mapped)?;
        if let Some((verb, peer, since_ns)) = self.blocked {
            desk.set_blocked(verb, peer);
            desk.set_sleep_start(since_ns, m3ipc_sys::thread_id().cast_unsigned());
        }
        self.traps = traps;
        // It knows of no tracing; who traces asks it anew.
        (self.tracing, self.set_aside) = (None, None);
        // What the former one said still counts, and is heard death by death as ever.
        control.inherit(&mut self.control);
        self.control = control;
        self.news_seen = desk.event_word().load(Ordering::Acquire).wrapping_sub(1);
        (self.desk, self.pulse) = (desk, pulse);
        self.faces.push(face);
        self.recall()?;
        self.reopen_bell()
    }

    /// Tells a new daemon of our links: it answers with the deaths that its
    /// predecessor could not tell of.
    fn recall(&mut self) -> Result<(), Fail> {
        let held = self.peers.indexes().map(|index| self.peers.get(index).address().0);
        let peers: Vec<i32> = held.chain(self.control.unheard_contacts()).collect();
        for part in peers.chunks(RECALL_PEERS) {
            self.control.request(&Request::Recall(part.to_vec()))?;
        }
        self.recall_areas()
    }
}

/// Maps what the daemon gives with a bind: desk, status page, hints.
pub(super) fn map_pages(
    fds: Vec<OwnedFd>,
) -> Result<(ControlPage, Face, Option<LivenessLock>), Fail> {
    let Ok([desk, status, hints]) = <[OwnedFd; 3]>::try_from(fds) else {
        return Err(crate::control::unexpected());
    };
    let face = Face { status: OwnStatus::map(status)?, hints: ReadyBitmap::map(hints)? };
    // Without a pulse the daemon learns of a death somewhat later.
    let pulse = LivenessLock::take(&desk, CONTROL_PAGE_BYTES, LIVENESS_LOCK_OFFSET).ok();
    Ok((ControlPage::map(desk)?, face, pulse))
}
