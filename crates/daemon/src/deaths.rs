//! Deaths: how the daemon learns of them, and what it does about them.
//!
//! The crate documentation draws the whole chain. A process or thread is reported by its liveness
//! lock ([`Server::liveness_lock_marked`]), by its pidfd ([`Server::process_died`],
//! [`Server::thread_died`]), or by the end of its connection ([`Server::close`]). Reports after the
//! first one find nothing left to do.

use crate::death_watcher::is_gone;
use crate::server::Server;
use crate::state::connection::Deferred;
use crate::state::death_watches::PidfdWatch;
use crate::state::event_sources::Source;
use crate::tables::{Death, LinkedPeer, Member, MemberId, MemberKind};
use crate::token::Token;
use m3ipc_abi::Code;
use m3ipc_sys::Errno;
use m3ipc_wire::{DaemonEvent, Reply};
use std::os::fd::OwnedFd;

impl Server {
    /// Watches a process by its pidfd. The kernel vouches for the identity behind it.
    pub(crate) fn watch_process(&mut self, pid: i32, fd: OwnedFd) -> Result<(), Errno> {
        if self.deaths.has_process(pid) {
            return Ok(());
        }
        let token = self.sources.add(&fd, Source::Process(pid))?;
        self.deaths.add_process(pid, PidfdWatch { fd, token });
        Ok(())
    }

    /// Watches a thread by its pidfd. Before Linux 6.9 threads have none, and the liveness lock
    /// alone reports the end.
    ///
    /// # Errors
    /// `SRCH` if the thread has ended.
    pub(crate) fn watch_thread(&mut self, pid: i32, tid: i32) -> Result<(), Errno> {
        let fd = match m3ipc_sys::open_thread(tid) {
            Ok(fd) => fd,
            Err(Errno::INVAL) if is_gone(pid, tid) => return Err(Errno::SRCH),
            Err(Errno::INVAL) => return Ok(()),
            Err(errno) => return Err(errno),
        };
        let token = self.sources.add(&fd, Source::Thread(pid, tid))?;
        self.deaths.add_thread(pid, tid, PidfdWatch { fd, token });
        Ok(())
    }

    fn unwatch(&mut self, watch: Option<PidfdWatch>) {
        if let Some(watch) = watch {
            self.sources.remove(&watch.fd, watch.token);
        }
    }

    /// The liveness lock of this connection's endpoint reported the end of its thread or process.
    pub(crate) fn liveness_lock_marked(&mut self, token: Token) {
        let endpoint = self.endpoint_of(token).and_then(|id| self.node.endpoint(id));
        match endpoint.map(|endpoint| endpoint.member) {
            Some(Member { pid, tid: Some(tid), .. }) => self.thread_died(pid, tid),
            Some(Member { pid, tid: None, .. }) => self.process_died(pid),
            None => {}
        }
    }

    /// A process died, and all its endpoints with it, and the VMs that end with their creator.
    pub(crate) fn process_died(&mut self, pid: i32) {
        self.end_process(pid, Self::notify_peers_at_once);
        self.end_vms_of(pid);
        self.unwatch_unneeded(pid);
    }

    /// Ends all endpoints of a process, which may live on without them.
    pub(crate) fn release_process(&mut self, pid: i32) {
        self.end_process(pid, Self::notify_peers);
    }

    fn end_process(&mut self, pid: i32, notify_peers: fn(&mut Self, &[Death])) {
        let deaths = self.node.exit(pid);
        notify_peers(self, &deaths);
        self.log_deaths(&deaths);
        self.end_endpoints(&deaths);
        self.unwatch_unneeded(pid);
        // A child of the process may hold its sockets open.
        for token in self.connections.of_process(pid) {
            self.close(token);
        }
        self.start_idle_timer();
    }

    /// A thread died; its process goes on.
    pub(crate) fn thread_died(&mut self, pid: i32, tid: i32) {
        let death = self.node.exit_thread(pid, tid);
        self.notify_peers_at_once(death.as_slice());
        self.log_deaths(death.as_slice());
        self.end_endpoints(death.as_slice());
        let watch = self.deaths.remove_thread(pid, tid);
        self.unwatch(watch);
    }

    /// Writes down who died and what the dead held.
    fn log_deaths(&self, deaths: &[Death]) {
        for Death { id, member, uid, names, peers, .. } in deaths {
            if !crate::log::admits(*uid) {
                continue;
            }
            // The kernel tells the exit of a process of this user, until its parent has read it.
            let exit = m3ipc_sys::process_exit(member.pid).ok().map(|exit| exit.to_string());
            tracing::info!(
                vm = id.vm,
                address = id.address.0,
                names = names.join(" "),
                pid = member.pid,
                tid = member.tid,
                exit,
                links = peers.len(),
                areas = self.node.areas_of(*id).len(),
                "a member died"
            );
        }
    }

    /// Closes a connection, and ends its endpoint.
    pub(crate) fn close(&mut self, token: Token) {
        let Some(connection) = self.connections.remove(token) else { return };
        connection.note_end();
        self.sources.remove(&connection.socket, token);
        self.deaths.unwatch_lock(token);
        self.leave_domain(token);
        for ticket in &connection.tickets {
            self.node.cancel_wait(*ticket);
        }
        self.end_traces_of(token);
        self.note_closed_proxy(token);
        let id = connection.id.filter(|id| self.connections.of_endpoint(*id) == Some(token));
        if let Some(id) = id {
            self.connections.detach(id);
            let pages = connection.pages.as_ref();
            // If the endpoint is older than this connection, its owner may return: it lacked the
            // memory for the pages.
            if !pages.is_some_and(|pages| pages.is_return && !pages.sealed) {
                self.unbind_closed(id);
            }
            self.renew_waits(pages.map_or(&[], |pages| &pages.tickets));
        }
        self.start_idle_timer();
    }

    /// Unbinds an endpoint whose connection has closed. The end of a process closes its connection
    /// too, perhaps ahead of the other reports; a program that executes another one goes on.
    fn unbind_closed(&mut self, id: MemberId) {
        let Ok(deaths) = self.node.unbind(id) else { return };
        // A process that cannot be looked at is not called dead.
        let has_died = |Death { member, .. }: &Death| {
            matches!(m3ipc_sys::is_ending(member.pid, member.tid), Ok(true) | Err(Errno::SRCH))
        };
        self.notify_peers(&deaths);
        if deaths.iter().any(has_died) {
            self.log_deaths(&deaths);
        }
        self.end_endpoints(&deaths);
    }

    /// Unbinds an endpoint, without a check of the caller.
    pub(crate) fn unbind_endpoint(&mut self, id: MemberId) {
        if let Ok(deaths) = self.node.unbind(id) {
            self.announce_deaths(&deaths);
        }
    }

    /// Performs the effects of deaths: first it notifies the peers, then the waiters.
    pub(crate) fn announce_deaths(&mut self, deaths: &[Death]) {
        self.notify_peers(deaths);
        self.end_endpoints(deaths);
    }

    /// Records ends of endpoints, and notifies the living peers. Calls wait for that, so it comes
    /// before all else, the log too.
    fn notify_peers(&mut self, deaths: &[Death]) {
        m3ipc_sys::pause_point("daemon.death_seen");
        self.record();
        m3ipc_sys::pause_point("daemon.death_recorded");
        self.send_ends(deaths);
    }

    /// The same for processes and threads that have ended. The notice comes first: a successor that
    /// finds no record finds them dead, too, and a write to a file can wait for a disk.
    fn notify_peers_at_once(&mut self, deaths: &[Death]) {
        m3ipc_sys::pause_point("daemon.death_seen");
        if self.send_ends(deaths) && self.deaths.yields.may_yield() {
            // A peer that sleeps on this CPU runs first: the rest of this work takes 0.1 ms.
            m3ipc_sys::yield_cpu();
        }
        self.record();
        m3ipc_sys::pause_point("daemon.death_recorded");
    }

    /// Notifies the living peers of the dead. Returns whether there are any.
    fn send_ends(&mut self, deaths: &[Death]) -> bool {
        let mut has_peers = false;
        for death in deaths {
            let (id, event) = (death.id, self.end_event(death));
            self.forget_links(id, &death.peers);
            self.pending_notifications.forget(id);
            for peer in &death.peers {
                let peer = MemberId::new(id.vm, peer.address);
                let is_dead = deaths.iter().any(|other| other.id == peer);
                if !is_dead && self.connections.of_endpoint(peer).is_some() {
                    has_peers = true;
                    self.send_event_to(peer, event.clone());
                    m3ipc_sys::pause_point("daemon.death_notified_one");
                }
            }
            self.tell_proxy_ended(death);
        }
        has_peers
    }

    /// Ends the endpoints of the dead, and answers those that wait for that.
    fn end_endpoints(&mut self, deaths: &[Death]) {
        for death in deaths {
            let (id, address) = (death.id, death.id.address.0);
            self.leave_areas(id);
            self.end_member_trace(id);
            self.complete_tickets(&death.tickets, address);
            self.forget_endpoint(id);
            tracing::debug!(vm = id.vm, address, pid = death.member.pid, "an endpoint ended");
        }
        for death in deaths {
            for token in self.connections.deferred_until(Deferred::Unbind(death.id)) {
                self.reply(token, Reply::Done, Vec::new());
            }
            if death.kind != MemberKind::StandIn {
                self.end_vm_if_left(death.id.vm);
            }
            self.finish_vm_if_empty(death.id.vm);
        }
        self.unwatch_deaths(deaths);
    }

    /// Forgets the links of an endpoint that ended.
    fn forget_links(&mut self, id: MemberId, peers: &[LinkedPeer]) {
        for peer in peers {
            let peer = MemberId::new(id.vm, peer.address);
            self.links.forget(id, peer);
        }
    }

    /// Forgets the connection and the pages of an endpoint that ended.
    fn forget_endpoint(&mut self, id: MemberId) {
        // The endpoint may have had no doorbell.
        let _ = std::fs::remove_file(self.runtime_directory.doorbell(id.vm, id.address.0));
        if let Some(token) = self.connections.detach(id) {
            // A living thread whose process's endpoint ended must not wait for ever.
            self.send_event(token, DaemonEvent::Unbound, Vec::new());
            if let Some(connection) = self.connections.get_mut(token) {
                connection.former = connection.id.take();
                let pages = connection.pages.take();
                self.deaths.unwatch_lock(token);
                self.renew_waits(&pages.map_or_else(Vec::new, |pages| pages.tickets));
            }
        }
        let (code, why) = self.why_ended(id);
        for token in self.connections.deferred_until(Deferred::Contact(id)) {
            self.refuse(token, code, why.as_str());
        }
        // A copy has no second try.
        for token in self.connections.deferred_until(Deferred::CopyGate(id)) {
            self.refuse(token, Code::DstDied, why.as_str());
        }
        self.nodes.asked.remove(&id);
        // The proxy finds no endpoint that could move, and says nothing.
        if !self.nodes.moved.contains(&id) {
            for token in self.connections.deferred_until(Deferred::Move(id)) {
                self.refuse(token, Code::NotBind, "the endpoint ended before it could move");
            }
        }
    }

    /// Why a peer gets no link with an endpoint that has ended.
    pub(crate) fn why_ended(&self, id: MemberId) -> (Code, String) {
        match self.nodes.moved.contains(&id) || self.node.is_arriving(id) {
            true => (
                Code::Migrate,
                format!("endpoint {} moves between two nodes; call again", id.address),
            ),
            false => {
                (Code::DstDied, format!("endpoint {} died; look up its successor", id.address))
            }
        }
    }

    /// Ends the watch of processes and threads without endpoints.
    fn unwatch_deaths(&mut self, deaths: &[Death]) {
        for death in deaths {
            if let Some(tid) = death.member.tid {
                let watch = self.deaths.remove_thread(death.member.pid, tid);
                self.unwatch(watch);
            }
            self.unwatch_unneeded(death.member.pid);
        }
    }

    /// Ends the watch of a process that has no endpoint, and with which no VM ends.
    pub(crate) fn unwatch_unneeded(&mut self, pid: i32) {
        if self.node.endpoint_of_process(pid).is_none() && !self.creates_running_vm(pid) {
            let watch = self.deaths.remove_process(pid);
            self.unwatch(watch);
        }
    }
}
