//! The event loop: it accepts connections, serves frames, and fires timers.

use crate::quota::Resource;
use crate::runtime_directory::RuntimeDirectory;
use crate::server::{EXHAUSTED_PAUSE_NS, Server, ServerError, refused};
use crate::settings::Settings;
use crate::state::connection::Connection;
use crate::state::event_sources::Source;
use crate::state::lifecycle::Leaving;
use crate::state::reserve_descriptor;
use crate::state::timers::Timer;
use crate::tables::{Credentials, Rights, with_capabilities};
use crate::token::Token;
use m3ipc_sys::{Capabilities, Capability, Errno, PeerCredentials, Ready, UserNames};
use m3ipc_wire::{Malformed, Request};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::OnceLock;

/// The time within which a new connection has to send its greeting.
const GREETING_LIMIT_NS: u64 = 5_000_000_000;
/// The pause between two looks at the socket of a daemon that was started on demand.
const PLACE_PERIOD_NS: u64 = 2_000_000_000;
/// The number of newcomers per scheduling round, so that a flood of them delays no member.
const NEWCOMERS_PER_ROUND: usize = 64;

/// Runs the daemon until a request, a signal or an idle time ends it. Calls `serving` when it
/// serves.
pub(crate) fn run(
    settings: Settings,
    directory: RuntimeDirectory,
    serving: impl FnOnce(),
) -> Result<(), ServerError> {
    let mut server = Server::new(settings, directory)?;
    if server.lifecycle.has_taken_over() {
        server.take_over();
    }
    server.start_idle_timer();
    server.watch_place();
    tracing::info!(
        runtime_dir = %server.runtime_directory.path.display(),
        nodeid = server.node.nodeid(),
        takeovers = server.lifecycle.takeovers(),
        "node up"
    );
    serving();
    server.serve_until_leaving()?;
    if server.lifecycle.leaving() == Some(Leaving::MembersStay) {
        tracing::info!("the daemon ends by a signal; the next one takes its members over");
    } else {
        tracing::info!("node down");
        server.runtime_directory.remove(server.nodes.proxy.is_some());
    }
    Ok(())
}

impl Server {
    fn serve_until_leaving(&mut self) -> Result<(), ServerError> {
        let mut ready = Vec::new();
        while self.lifecycle.leaving().is_none() {
            // The takeover may have marked some.
            self.do_marked_work();
            match self.sources.wait(&mut ready) {
                Ok(()) => {}
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(refused("a wait for events")(errno)),
            }
            self.areas.begin_turn();
            let connections = &self.connections;
            self.sources.begin_round(&mut ready, |token| {
                connections.get(token).map_or(0, |connection| connection.served_in)
            });
            for event in &ready {
                self.serve_event(*event);
                self.do_marked_work();
            }
            self.fire_timers();
        }
        Ok(())
    }

    /// Closes the marked connections, and reclaims extents of the marked areas.
    fn do_marked_work(&mut self) {
        loop {
            // A close may mark connections and areas.
            while let Some(token) = self.connections.take_broken() {
                self.close(token);
            }
            self.reclaim_marked_areas();
            if !self.connections.has_broken() {
                return;
            }
        }
    }

    fn serve_event(&mut self, event: Ready) {
        let token = Token::of(event.token);
        match self.sources.of(token) {
            Some(Source::Listener) => self.accept_newcomers(),
            Some(Source::DeathWatcher) => {
                for token in self.deaths.take_ended() {
                    self.liveness_lock_marked(token);
                }
            }
            Some(Source::Signals) => self.leave_by_signal(),
            Some(Source::Connection) => self.serve_connection(token, event),
            Some(Source::Process(pid)) => self.process_died(pid),
            Some(Source::Thread(pid, tid)) => self.thread_died(pid, tid),
            None => {}
        }
    }

    fn accept_newcomers(&mut self) {
        for _ in 0..NEWCOMERS_PER_ROUND {
            let listener = &self.runtime_directory.listener;
            match m3ipc_sys::accept(listener) {
                Ok(socket) => self.add_connection(socket),
                Err(Errno::AGAIN) => return,
                Err(Errno::MFILE | Errno::NFILE) if self.sources.refuse_newcomer(listener) => {}
                Err(errno) => {
                    if crate::log::admits(u32::MAX) {
                        tracing::warn!(%errno, "cannot accept a connection; trying again shortly");
                    }
                    // The newcomer stays in the queue. Without a pause the loop would spin on it.
                    self.sources.pause_listener(listener);
                    self.sources.set_timer(EXHAUSTED_PAUSE_NS, Timer::Accept);
                    return;
                }
            }
        }
    }

    fn add_connection(&mut self, socket: OwnedFd) {
        let peer = match m3ipc_sys::peer_identity(&socket) {
            Ok(peer) => peer,
            Err(Errno::SRCH) => return reserve_descriptor::refuse_outsider(&socket),
            // A newcomer that has left already needs no answer.
            Err(_) => return,
        };
        let started = match m3ipc_sys::process_start_ticks(peer.pid) {
            Ok(started) => started,
            // A newcomer that lives is hidden from this daemon; one that has left needs no answer.
            Err(errno @ (Errno::SRCH | Errno::ACCESS | Errno::PERM)) => {
                return reserve_descriptor::refuse_hidden(&socket, peer.uid, errno);
            }
            Err(errno) => return reserve_descriptor::refuse(&socket, errno),
        };
        let uid = peer.uid;
        // A process of several threads, as this one, cannot enter another user namespace.
        static USERS: OnceLock<UserNames> = OnceLock::new();
        if !USERS.get_or_init(UserNames::read).names_one(uid) {
            return reserve_descriptor::refuse_unknown_user(&socket, uid);
        }
        let socket = Rc::new(socket);
        let rights = rights_of(&socket, peer);
        // The mode of the socket keeps others out already, unless somebody changes it.
        if !self.settings.system && uid != m3ipc_sys::user_id() && !rights.has(Capability::IpcOwner)
        {
            return reserve_descriptor::refuse_other_user(&socket, uid);
        }
        let amounts = [(Resource::Connections, 1), (Resource::Descriptors, 1)];
        let charges = match self.accounts.charge(uid, &amounts) {
            Ok(charges) => charges,
            Err(exceeded) => return reserve_descriptor::refuse_at_quota(&socket, &exceeded),
        };
        let groups = m3ipc_sys::peer_groups(&socket).unwrap_or_default();
        let cred = Credentials { uid, gid: peer.gid, groups, pid: peer.pid, rights };
        let token = match self.sources.add(&socket, Source::Connection) {
            Ok(token) => token,
            Err(errno) => return reserve_descriptor::refuse(&socket, errno),
        };
        self.connections.add(token, Connection::new(socket, cred, started, charges));
        self.sources.set_timer(GREETING_LIMIT_NS, Timer::Greeting(token));
    }

    fn serve_connection(&mut self, token: Token, event: Ready) {
        let is_full = self.connections.get(token).is_some_and(|connection| connection.is_full);
        // Frames may wait for room for descriptors, and no send would show that the member is gone.
        if is_full && event.gone {
            return self.close(token);
        }
        if event.writable {
            self.flush(token);
        }
        if !event.readable {
            return;
        }
        let mut buffer = [0; m3ipc_wire::REQUEST_MAX_BYTES];
        while self.sources.admit_connection(token) {
            let Some(connection) = self.connections.get_mut(token) else { return };
            // Requests of a member that does not read wait in its socket.
            if !self.sources.admit_user(connection) || connection.is_full {
                return;
            }
            let (pid, uid) = (connection.cred.pid, connection.cred.uid);
            let Some(bytes) = self.take_packet(token, &mut buffer) else { return };
            if let Err(malformed) = self.serve_packet(token, &buffer[..bytes]) {
                if crate::log::admits(uid) {
                    tracing::warn!(
                        pid, uid, %malformed, "a malformed request closes a connection"
                    );
                }
                return self.close(token);
            }
        }
    }

    /// Serves a packet: a request, a greeting, or a greeting and the first request.
    fn serve_packet(&mut self, token: Token, packet: &[u8]) -> Result<(), Malformed> {
        let is_greeted = |server: &Self| {
            server.connections.get(token).is_some_and(|connection| connection.greeted)
        };
        let mut rest = packet;
        if !is_greeted(self) {
            let (greeting, behind) = m3ipc_wire::decode_first(packet)?;
            self.serve(token, greeting);
            self.do_marked_work();
            // A member of another version may have put anything behind its greeting.
            if behind.is_empty() || !is_greeted(self) {
                return Ok(());
            }
            rest = behind;
        }
        let request: Request = m3ipc_wire::decode(rest)?;
        self.serve(token, request);
        self.do_marked_work();
        Ok(())
    }

    /// Takes the next packet of a connection, and returns its length. Closes the connection at its
    /// end, or at a packet that its member must not send.
    fn take_packet(&mut self, token: Token, buffer: &mut [u8]) -> Option<usize> {
        let connection = self.connections.get(token)?;
        match m3ipc_sys::receive_packet(&connection.socket, buffer, false, false) {
            Err(Errno::AGAIN | Errno::INTR) => return None,
            // A child that inherited the socket must not speak for its parent.
            Ok(packet)
                if packet.bytes != 0
                    && !packet.truncated
                    && packet.sender_pid == Some(connection.cred.pid) =>
            {
                return Some(packet.bytes);
            }
            Ok(_) | Err(_) => {}
        }
        self.close(token);
        None
    }

    /// Fires the timers that are due now. Those that they set wait for the next turn, so that
    /// members are served in between.
    fn fire_timers(&mut self) {
        let now_ns = m3ipc_sys::monotonic_ns();
        while let Some(timer) = self.sources.take_due_timer(now_ns) {
            self.fire(timer);
            self.do_marked_work();
        }
    }

    fn fire(&mut self, timer: Timer) {
        match timer {
            Timer::Greeting(token) => {
                if self.connections.get(token).is_some_and(|connection| !connection.greeted) {
                    self.close(token);
                }
            }
            // Other members wait for the pages, some of them in calls with short limits.
            Timer::Mapping(token, id) => {
                self.look_for_mapping(token);
                let is_late = self.connections.get(token).is_some_and(|connection| {
                    connection.id == Some(id)
                        && connection.pages.as_ref().is_some_and(|pages| !pages.sealed)
                });
                if is_late {
                    self.close(token);
                }
            }
            Timer::Look => self.look_for_mappings(),
            Timer::VmGrace(vm) => self.kill_members(vm),
            // The next holder of a system slot has the same address, but another life.
            Timer::UnbindGrace(id, life) => {
                if self.node.endpoint(id).is_some_and(|endpoint| endpoint.life == life) {
                    self.unbind_endpoint(id);
                }
            }
            Timer::Idle => self.leave_if_idle(),
            Timer::Place => self.leave_if_removed(),
            Timer::Flush(token) => self.flush_stalled(token),
            Timer::Reclaim => self.areas.end_pause(),
            Timer::Accept => self.sources.resume_listener(&self.runtime_directory.listener),
            Timer::WatchProcess(pid) => self.watch_process_again(pid),
            Timer::WatchThread(pid, tid) => self.watch_thread_again(pid, tid),
            Timer::Journal => self.rewrite_journal(),
        }
    }

    /// Leaves an empty node as a request would. Members and VMs stay for the next daemon.
    fn leave_by_signal(&mut self) {
        let is_empty = self.has_no_vms();
        self.lifecycle.leave(if is_empty { Leaving::NodeEnds } else { Leaving::MembersStay });
    }

    /// Begins to look after the socket. A daemon that a person or systemd started stays: its
    /// starter ends it.
    pub(crate) fn watch_place(&mut self) {
        if self.settings.idle_exit_ns.is_some() {
            self.sources.set_timer(PLACE_PERIOD_NS, Timer::Place);
        }
    }

    /// Leaves if no newcomer can find the daemon and it has no members. The idle time does not
    /// count: a VM without members would keep the daemon for ever.
    fn leave_if_removed(&mut self) {
        if !self.runtime_directory.is_in_place() {
            let runtime_dir = self.runtime_directory.path.display();
            let members: usize = self.node.vms().map(|vm| vm.endpoint_count()).sum();
            if members == 0 {
                tracing::warn!(%runtime_dir, "the socket or its directory was removed: node ends");
                self.lifecycle.leave(Leaving::NodeEnds);
            } else if self.lifecycle.note_removed() {
                tracing::warn!(
                    %runtime_dir, members,
                    "the socket or its directory was removed: the node ends with its last member"
                );
            }
        }
        self.watch_place();
    }

    fn leave_if_idle(&mut self) {
        if self.is_idle() {
            tracing::info!("the node is idle");
            self.lifecycle.leave(Leaving::NodeEnds);
        }
    }
}

/// The capabilities of the process behind a connection. Where they cannot be read, it has those of
/// its user alone.
fn rights_of(socket: &Rc<OwnedFd>, peer: PeerCredentials) -> Rights {
    // A request that ends its connection must not keep the socket open.
    let socket = Rc::downgrade(socket);
    with_capabilities(move || {
        let Some(socket) = socket.upgrade() else { return Capabilities::NONE };
        m3ipc_sys::peer_capabilities(&*socket, peer).unwrap_or_else(|errno| {
            if crate::log::admits(peer.uid) {
                let (pid, uid) = (peer.pid, peer.uid);
                tracing::warn!(pid, uid, %errno, "the capabilities of a process cannot be read");
            }
            Capabilities::NONE
        })
    })
}
