//! The return of an endpoint to a new daemon, after the death of the old one.
//!
//! ```text
//! attach:     connect ── reattach ── map the pages ── doorbell       waits for the new daemon
//!    │
//! take over:  events of the old daemon ── new pages ── recall of peers and areas
//! ```
//!
//! Existing links go on without a daemon; only new links need one. An asynchronous endpoint blocks
//! no thread of its runtime: a thread of the return attaches, and then makes the endpoint's
//! descriptor readable. That thread has taken the new liveness lock, so it stays until the endpoint
//! ends or returns again.

use super::Endpoint;
use super::leaving::Leaving;
use super::peer::Peer;
use super::return_state::{Attached, Attachment, Returning};
use crate::area::AreaState;
use crate::control::IfAbsent;
use crate::error::Fail;
use m3ipc_abi::Code;
use m3ipc_wire::{PeerInfo, RecalledPeer, Request};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Peers in one frame: a number that surely fits.
const RECALL_PEERS: usize = 512;

impl Endpoint {
    /// From now on, returns to a new daemon block no thread of a runtime, or do so again.
    #[cfg(feature = "tokio")]
    pub(crate) fn set_asynchronous(&mut self, is_asynchronous: bool) {
        self.session.returns_mut().set_asynchronous(is_asynchronous);
        if is_asynchronous && let Some(doorbell) = self.waiter.doorbell_mut() {
            doorbell.forget_receive();
        }
    }

    /// Connects to a new daemon if the old one has died.
    pub(super) fn reattach_if_closed(&mut self) {
        if self.membership.has_left() {
            return;
        }
        if let Some(returning) = self.session.returns_mut().take_under_way() {
            let attached = returning.wait();
            self.end_return(returning, attached);
        }
        if !self.session.control_mut().is_closed() {
            return;
        }
        self.fast.close();
        let returned = self.attachment().attach().and_then(|attached| self.take_over(attached));
        self.note_return(&returned);
    }

    /// The same for a call that does not wait. In a runtime, begins the return or takes it over.
    pub(super) fn reattach_soon(&mut self) {
        if !self.session.returns().is_asynchronous() {
            return self.reattach_if_closed();
        }
        if self.membership.has_left() {
            return;
        }
        if let Some(returning) = self.session.returns_mut().take_under_way() {
            match returning.poll() {
                Some(attached) => self.end_return(returning, attached),
                None => self.session.returns_mut().begin(returning),
            }
        }
        if self.session.returns().is_under_way()
            || self.membership.has_left()
            || !self.session.control_mut().is_closed()
        {
            return;
        }
        self.fast.close();
        let pause = self.session.returns().pause();
        let begun = Returning::begin(self.attachment(), pause).and_then(|returning| {
            self.waiter.doorbell().map_or(Ok(()), |doorbell| doorbell.watch(&returning))?;
            Ok(returning)
        });
        match begun {
            Ok(returning) => self.session.returns_mut().begin(returning),
            // Without a thread or a descriptor, the return waits in this one.
            Err(_) => self.reattach_if_closed(),
        }
    }

    pub(super) fn attachment(&self) -> Attachment {
        Attachment {
            directory: self.session.control().directory().to_owned(),
            request: self.membership.reattach_request(),
            has_doorbell: self.waiter.doorbell().is_some(),
        }
    }

    /// Takes over what the thread of a return got.
    fn end_return(&mut self, returning: Returning, attached: Result<Attached, Fail>) {
        if let Some(doorbell) = self.waiter.doorbell() {
            doorbell.unwatch(&returning);
        }
        self.fast.close();
        let returned = attached.and_then(|attached| self.take_over(attached));
        if returned.is_ok() {
            self.session.returns_mut().keep_thread_of(returning);
        }
        self.note_return(&returned);
    }

    fn note_return(&mut self, returned: &Result<(), Fail>) {
        self.session.returns_mut().note(returned);
        if returned.as_ref().is_err_and(|fail| fail.code == Code::NotBind) {
            self.membership.end(Code::NotBind);
        }
    }

    pub(super) fn take_over(&mut self, attached: Attached) -> Result<(), Fail> {
        let Attached { control, traps, control_page, page_set, liveness_lock, doorbell } = attached;
        self.membership.set_traps(traps);
        // The new daemon knows of no tracing; the tracer asks again.
        self.trace.end();
        self.session.take_over(control, control_page, liveness_lock);
        let watched = self.waiter.take_over(page_set, doorbell, self.session.control());
        let recalled = self.recall();
        self.repeat_rings();
        recalled.and(watched)
    }

    /// Tells a new daemon the peers and the areas of this endpoint. The daemon answers with the
    /// deaths that its predecessor could not report.
    fn recall(&mut self) -> Result<(), Fail> {
        let unread = self.session.control().unread_contacts().map(|peer| RecalledPeer {
            address: peer.address,
            life: peer.life,
            was_stand_in: peer.may_send & PeerInfo::MAY_HOLD != 0,
        });
        // The last link of an address is the latest one.
        let links = self.peers.living().map(Peer::recalled).chain(unread);
        let latest: BTreeMap<i32, RecalledPeer> = links.map(|link| (link.address, link)).collect();
        let peers: Vec<RecalledPeer> = latest.into_values().collect();
        for part in peers.chunks(RECALL_PEERS) {
            self.session.tell(&Request::Recall(part.to_vec()))?;
        }
        self.recall_areas()
    }

    /// Asks for the events about areas that the former daemon may not have sent. Extents that the
    /// new daemon does not list are gone; an asynchronous endpoint does not wait for the list.
    fn recall_areas(&mut self) -> Result<(), Fail> {
        // Events of the former daemon are no part of the lists.
        self.receive_area_events();
        let all: Vec<Arc<AreaState>> = self.areas.all().map(Arc::clone).collect();
        for area in all {
            if self.session.returns().is_asynchronous() {
                self.session.recall_area(area.info.area)?;
                continue;
            }
            area.member().begin_extent_list();
            self.session.recall_area(area.info.area)?;
            self.receive_area_events();
            area.member().end_extent_list();
        }
        Ok(())
    }

    /// Unbinds this endpoint, which is dropped. The slot is free afterwards, unless the daemon
    /// takes too long: then a thread goes on, or the next bind of this process.
    pub(super) fn unbind_dropped(&mut self) {
        let unbind = self.membership.unbind_request();
        let is_returning = self.session.returns_mut().take_under_way().is_some();
        let soon = match is_returning {
            true => Err(Code::NotConn.into()),
            false => self.session.control_mut().request_soon(&unbind, u64::MAX).map(drop),
        };
        let is_open =
            |fail: &Fail| matches!(fail.code, Code::NotConn | Code::TimedOut | Code::Intr);
        if !soon.as_ref().is_err_and(is_open) {
            return;
        }
        let directory = self.session.control().directory().to_owned();
        let leaving = Leaving::new(directory, self.membership.reattach_request(), unbind);
        // A silent daemon notices the closed connection, unless it is killed before.
        let has_died = soon.is_err_and(|fail| fail.code == Code::NotConn);
        let if_absent = if has_died { IfAbsent::Revive } else { IfAbsent::Fail };
        let is_asynchronous = self.session.returns().is_asynchronous();
        if has_died && !is_asynchronous && leaving.leave(if_absent) {
            return;
        }
        leaving.leave_late(if_absent);
    }
}

#[cfg(test)]
mod tests {
    use crate::test::TestNode;
    use crate::{ReceiveError, Source};
    use m3ipc_link::{OwnStatus, WaitMode};

    fn kill_daemon_of(node: &TestNode) {
        let daemon = crate::Node::find(node.directory()).and_then(|mut node| node.info());
        let pid = daemon.expect("a daemon").daemon_pid.to_string();
        std::process::Command::new("kill").args(["-9", &pid]).status().expect("kill runs");
    }

    #[test]
    fn an_armed_endpoint_stays_armed_on_the_pages_of_a_new_daemon() {
        let node = crate::test::node();
        let (mut server, _client) = node.pair_without_link();
        server.fd().expect("a descriptor");
        server.try_receive(Source::Any).expect_err("nothing is there");

        kill_daemon_of(&node);
        // A poll of a pending request takes a return over between its arming and its last look.
        let attached = server.attachment().attach().expect("a new connection");
        server.take_over(attached).expect("the daemon knows the endpoint");
        let modes = server.waiter.pages().statuses().map(OwnStatus::mode);
        let armed = WaitMode::AtDoorbell(m3ipc_abi::ANY);
        assert_eq!(modes.collect::<Vec<_>>(), [armed, armed]);
    }

    #[test]
    fn a_remembered_wakeup_outlives_the_daemon() {
        let node = crate::test::node();
        let (mut server, mut client) = node.pair_without_link();
        let code = client.wakeup(server.address()).expect_err("it runs").code();
        assert_eq!(code, m3ipc_abi::Code::ProcRun);

        kill_daemon_of(&node);
        let attached = server.attachment().attach().expect("a new connection");
        server.take_over(attached).expect("the daemon knows the endpoint");
        assert_eq!(server.try_receive(Source::Any), Err(ReceiveError::Woken(m3ipc_abi::ANY)));
    }

    /// The daemon lists the extents before it reads that the endpoint returns them.
    #[test]
    #[cfg(feature = "tokio")]
    fn an_asynchronous_endpoint_keeps_its_extents_until_a_new_daemon_has_listed_them() {
        use crate::{AreaConfig, BlockLifetime};
        let node = crate::test::node();
        let (mut own, mut other) = node.pair();
        let area = own.create_area(&AreaConfig::vm(8 << 20)).expect("room");
        drop(own.allocate(&area, 1000, BlockLifetime::Short).expect("an extent"));
        let there = other.attach_area(area.id()).expect("it is in the VM");
        own.set_asynchronous(true);

        let signal = |signal: &str| {
            let daemon = crate::Node::find(node.directory()).and_then(|mut node| node.info());
            let pid = daemon.expect("a daemon").daemon_pid.to_string();
            std::process::Command::new("kill").args([signal, &pid]).status().expect("kill runs");
            pid
        };
        signal("-9");
        let attached = own.attachment().attach().expect("a new connection");
        let daemon = signal("-STOP");
        own.areas.note_room_wanted(area.id());
        own.take_over(attached).expect("it waits for no reply");
        own.maintain_areas();
        std::process::Command::new("kill").args(["-CONT", &daemon]).status().expect("kill runs");
        while own.session.control().has_open_recall() {
            own.receive_area_events();
            std::thread::yield_now();
        }
        let theirs = other.allocate(&there, 1000, BlockLifetime::Short).expect("an extent");
        let block = own.allocate(&area, 1000, BlockLifetime::Short).expect("an extent");
        assert_ne!(block.address(), theirs.address(), "one memory for two blocks");
        drop(block);
        own.maintain_areas();
        assert_eq!(area.state().member().free_and_total_bytes().1, 0, "they go back later");
    }
}
