//! The server: all state of the daemon, and the loop that drives it.

use crate::connection::{Connection, Deferred, Sent};
use crate::death::Watch;
use crate::home::Home;
use crate::journal::Journal;
use crate::serve::area::AreaMemory;
use crate::serve::sock::Socks;
use crate::serve::{Notes, Traces};
use crate::settings::{self, Settings};
use crate::spare::Spare;
use crate::turn::Turn;
use crate::ward::Ward;
use m3ipc_model::tables::{Credentials, Death, MemberId, Node, Quota};
use m3ipc_sys::{Errno, Poll, Ready};
use m3ipc_wire::{DaemonEvent, FromDaemon, Refusal, Reply, Request};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// How long a stranger may take to say hello, and a new member to map its pages.
pub(crate) const HELLO_LIMIT_NS: u64 = 5_000_000_000;
/// How many connections one user may have.
const CONNECTIONS_PER_USER: usize = 8_192;
const LISTENER: u64 = 0;
const WARD: u64 = 1;
/// How long to wait where the system is out of something that others will give back.
const CROWDED_NS: u64 = 10_000_000;

/// What a token of the poll stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    Connection,
    Process(i32),
    Thread(i32, i32),
}

/// Something to do at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alarm {
    Hello(u64),
    Mapped(u64, MemberId),
    VmGrace(i32),
    UnbindGrace(MemberId, Option<u64>),
    Idle,
    /// Try to send again what waits for this connection.
    Flush(u64),
    /// Listen again, after the system had no descriptor for a newcomer.
    Listen,
    /// Watch this process, after the system had no descriptor for that.
    Watch(i32),
    /// The same for a thread of a process.
    WatchThread(i32, i32),
    /// Begin the journal anew, after a record did not fit into the runtime directory.
    Journal,
}

/// All that the daemon has.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) settings: Settings,
    pub(crate) home: Home,
    pub(crate) node: Node,
    pub(crate) initialised: bool,
    pub(crate) takeovers: u32,
    /// Who holds a link with whom, as far as this daemon knows: it made the
    /// link, or the holder recalled it after a takeover.
    pub(crate) held: BTreeSet<(MemberId, MemberId)>,
    /// Windows made so far: for whom, and through which peer's memory.
    pub(crate) windows: BTreeMap<(MemberId, MemberId), u32>,
    /// Notifications for those who have not come (back) yet.
    pub(crate) notes: Notes,
    pub(crate) poll: Poll,
    pub(crate) sources: HashMap<u64, Source>,
    pub(crate) connections: HashMap<u64, Connection>,
    pub(crate) present: BTreeMap<MemberId, u64>,
    pub(crate) processes: HashMap<i32, Watch>,
    pub(crate) threads: HashMap<(i32, i32), Watch>,
    pub(crate) ward: Ward,
    /// Tickets: which connection waits.
    pub(crate) tickets: HashMap<u64, u64>,
    pub(crate) grace_ms: HashMap<i32, u32>,
    /// The memory of areas that this daemon made, by VM and number.
    pub(crate) areas: BTreeMap<(i32, u32), AreaMemory>,
    pub(crate) traces: Traces,
    pub(crate) socks: Socks,
    /// Of areas that a predecessor made, by VM, number and dead member: who says that its extents are deserted.
    pub(crate) deserted: BTreeMap<(i32, u32, u16), BTreeSet<u16>>,
    pub(crate) leaving: bool,
    pub(crate) spare: Spare,
    pub(crate) turn: Turn,
    pub(crate) journal: Journal,
    alarms: BTreeMap<(u64, u64), Alarm>,
    next_token: u64,
}

/// Why the daemon cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    #[error("the system refuses {what}: {cause}")]
    System { what: &'static str, cause: std::io::Error },
    #[error("{0}")]
    Settings(#[from] settings::SettingsError),
}

fn system<E: Into<std::io::Error>>(what: &'static str) -> impl FnOnce(E) -> ServerError {
    move |cause| ServerError::System { what, cause: cause.into() }
}

impl Server {
    /// A server in its home: with the tables of a killed predecessor, if there was one.
    pub(crate) fn new(settings: Settings, home: Home) -> Result<Self, ServerError> {
        let _ = m3ipc_sys::raise_fd_limit();
        let records = Journal::read(&home.journal()).map_err(system("the journal"))?;
        let (node, takeovers) = match Node::replay(&records, Quota::default()) {
            Ok(node) => (node, 1),
            Err(_none) => {
                let (nodeid, limits) =
                    settings::join(&settings.node, &m3ipc_wire::NodeParams::default())?;
                (Node::new(nodeid, limits, Quota::default()), 0)
            }
        };
        let journal =
            Journal::begin(&home.journal(), &node.snapshot()).map_err(system("the journal"))?;
        let poll = Poll::new().map_err(system("a poll"))?;
        poll.add(&home.listener, LISTENER).map_err(system("a poll"))?;
        let ward = Ward::new().map_err(system("a pipe"))?;
        poll.add(ward.endings(), WARD).map_err(system("a poll"))?;
        let socks = Socks::new(&home.socks());
        let mut server = Self {
            initialised: takeovers > 0 || !settings.uninitialised,
            settings,
            home,
            node,
            takeovers,
            held: BTreeSet::new(),
            notes: Notes::new(),
            windows: BTreeMap::new(),
            poll,
            sources: HashMap::new(),
            connections: HashMap::new(),
            present: BTreeMap::new(),
            processes: HashMap::new(),
            threads: HashMap::new(),
            ward,
            tickets: HashMap::new(),
            grace_ms: HashMap::new(),
            areas: BTreeMap::new(),
            traces: Traces::default(),
            socks,
            deserted: BTreeMap::new(),
            leaving: false,
            spare: Spare::new(),
            turn: Turn::default(),
            journal,
            alarms: BTreeMap::new(),
            next_token: 1,
        };
        server.node.drain_records();
        if takeovers > 0 {
            server.take_over();
        }
        server.rest();
        tracing::info!(
            runtime_dir = %server.home.path.display(), nodeid = server.node.nodeid(), takeovers, "node up"
        );
        Ok(server)
    }

    /// Serves until told to leave, and leaves nothing behind.
    pub(crate) fn run(mut self) -> Result<(), ServerError> {
        let mut ready = Vec::new();
        while !self.leaving {
            let limit = self.next_alarm_ns().map(|at| at.saturating_sub(m3ipc_sys::monotonic_ns()));
            match self.poll.wait(&mut ready, limit) {
                Ok(()) => {}
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(system("waiting")(errno)),
            }
            self.begin_turn(&mut ready);
            for event in &ready {
                self.serve_event(*event);
            }
            self.ring_alarms();
        }
        tracing::info!("node down");
        self.home.leave();
        Ok(())
    }

    fn serve_event(&mut self, event: Ready) {
        if event.token == LISTENER {
            return self.accept_all();
        }
        if event.token == WARD {
            return self.ward.take().into_iter().for_each(|token| self.pulse_stopped(token));
        }
        match self.sources.get(&event.token).copied() {
            Some(Source::Connection) => self.serve_connection(event),
            Some(Source::Process(pid)) => self.process_died(pid),
            Some(Source::Thread(pid, tid)) => self.thread_died(pid, tid),
            None => {}
        }
    }

    /// A token that was never used.
    pub(crate) fn new_token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    fn accept_all(&mut self) {
        // Bounded, so that a flood of strangers cannot keep the members waiting.
        for _ in 0..64 {
            match m3ipc_sys::accept(&self.home.listener) {
                Ok(socket) => self.welcome(socket),
                Err(Errno::AGAIN) => return,
                // The newcomer is told, with the one descriptor that is kept for that.
                Err(Errno::MFILE | Errno::NFILE)
                    if self.spare.refuse_newcomer(&self.home.listener) => {}
                Err(errno) => {
                    tracing::warn!(%errno, "cannot accept a connection");
                    // The newcomer still waits: without a pause we would do nothing else.
                    let _ = self.poll.remove(&self.home.listener);
                    self.set_alarm(CROWDED_NS, Alarm::Listen);
                    return;
                }
            }
        }
    }

    fn welcome(&mut self, socket: OwnedFd) {
        let Ok(identity) = m3ipc_sys::peer_identity(&socket) else { return };
        let started = match m3ipc_sys::process_start_ticks(identity.pid) {
            Ok(started) => started,
            Err(Errno::SRCH) => return,
            Err(errno) => return crate::spare::refuse(&socket, errno),
        };
        let uid = identity.uid;
        let same = self.connections.values().filter(|other| other.cred.uid == uid).count();
        if uid != 0 && same >= CONNECTIONS_PER_USER {
            tracing::warn!(uid, "too many connections of one user");
            return;
        }
        let groups = m3ipc_sys::peer_groups(&socket).unwrap_or_default();
        let cred = Credentials { uid, gid: identity.gid, groups, pid: identity.pid };
        let token = self.new_token();
        if let Err(errno) = self.poll.add(&socket, token) {
            return crate::spare::refuse(&socket, errno);
        }
        self.sources.insert(token, Source::Connection);
        self.connections.insert(token, Connection::new(socket, cred, started));
        self.set_alarm(HELLO_LIMIT_NS, Alarm::Hello(token));
    }

    fn serve_connection(&mut self, event: Ready) {
        if event.writable {
            self.flush(event.token);
        }
        if !event.readable {
            return;
        }
        let mut buffer = [0; m3ipc_wire::REQUEST_MAX_BYTES];
        while self.turn.takes_another(event.token) {
            let Some(connection) = self.connections.get_mut(&event.token) else { return };
            if !self.turn.takes_of(connection) {
                return;
            }
            // Who does not read gets no more to read: its requests wait in its own socket.
            if connection.is_full {
                return;
            }
            let packet =
                match m3ipc_sys::receive_packet(&connection.socket, &mut buffer, false, false) {
                    Ok(packet) => packet,
                    Err(Errno::AGAIN | Errno::INTR) => return,
                    Err(_) => return self.close(event.token),
                };
            // A child that inherited the socket must not speak for its parent.
            let stranger = packet.sender_pid != Some(connection.cred.pid);
            if packet.bytes == 0 || packet.truncated || stranger {
                return self.close(event.token);
            }
            match m3ipc_wire::decode::<Request>(&buffer[..packet.bytes]) {
                Ok(request) => self.serve(event.token, request),
                Err(malformed) => {
                    tracing::warn!(pid = connection.cred.pid, %malformed, "closing a connection");
                    return self.close(event.token);
                }
            }
        }
    }

    /// Answers the open request of a connection.
    pub(crate) fn reply(&mut self, token: u64, reply: Reply, fds: Vec<Rc<OwnedFd>>) {
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.waits_for = None;
            let sent = connection.send(&FromDaemon::Reply(reply), fds);
            self.after_send(token, sent);
        }
    }

    /// Refuses the open request of a connection.
    pub(crate) fn refuse(&mut self, token: u64, code: m3ipc_abi::Code, why: impl ToString) {
        let refusal = Refusal { code: code.number(), why: why.to_string() };
        tracing::debug!(code = refusal.code, why = refusal.why, "refused");
        self.reply(token, Reply::Refused(refusal), Vec::new());
    }

    /// Tells a member something, and wakes it.
    pub(crate) fn tell(&mut self, token: u64, news: DaemonEvent, fds: Vec<Rc<OwnedFd>>) {
        if let Some(connection) = self.connections.get_mut(&token) {
            let sent = connection.send(&FromDaemon::Event(news), fds);
            connection.announce();
            self.after_send(token, sent);
        }
    }

    /// Tells those who waited under these tickets.
    pub(crate) fn tell_tickets(&mut self, tickets: &[u64], address: i32) {
        for ticket in tickets {
            let Some(token) = self.tickets.remove(ticket) else { continue };
            if let Some(connection) = self.connections.get_mut(&token) {
                connection.tickets.retain(|open| open != ticket);
            }
            self.tell(token, DaemonEvent::Ready { ticket: *ticket, address }, Vec::new());
        }
    }

    fn after_send(&mut self, token: u64, sent: Sent) {
        match sent {
            Sent::Gone => {}
            Sent::Waits => {
                if let Some(connection) = self.connections.get(&token) {
                    let _ = self.poll.set_wait_writable(&connection.socket, token, true);
                }
            }
            Sent::Crowded => self.set_alarm(CROWDED_NS, Alarm::Flush(token)),
            Sent::Broken => self.close(token),
        }
    }

    fn flush(&mut self, token: u64) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let sent = connection.flush();
        // What waited was announced before it could be read.
        connection.announce();
        match sent {
            Sent::Gone => drop(self.poll.set_wait_writable(&connection.socket, token, false)),
            Sent::Waits => {}
            Sent::Crowded => {
                let _ = self.poll.set_wait_writable(&connection.socket, token, false);
                self.set_alarm(CROWDED_NS, Alarm::Flush(token));
            }
            Sent::Broken => self.close(token),
        }
    }

    /// Ends a connection; the endpoint it was for goes with it.
    pub(crate) fn close(&mut self, token: u64) {
        let Some(connection) = self.connections.remove(&token) else { return };
        let _ = self.poll.remove(&connection.socket);
        self.sources.remove(&token);
        self.ward.forget(token);
        self.leave_socks(token);
        for ticket in &connection.tickets {
            self.tickets.remove(ticket);
            self.node.cancel_wait(*ticket);
        }
        self.end_traces_of(token);
        if let Some(place) =
            connection.place.filter(|place| self.present.get(place) == Some(&token))
        {
            self.present.remove(&place);
            // It was there before, and its owner had no room for the pages: it may come again.
            if let Some(pages) =
                connection.pages.as_ref().filter(|pages| pages.is_return && !pages.sealed)
            {
                self.tell_tickets(&pages.told, place.address.0);
            } else if let Ok(deaths) = self.node.unbind(place) {
                self.bury(&deaths);
            }
        }
        self.rest();
    }

    /// Ends what has died: its peers are told first, then whoever waited for it.
    pub(crate) fn bury(&mut self, deaths: &[Death]) {
        m3ipc_sys::pause_point("daemon.death_seen");
        self.record();
        m3ipc_sys::pause_point("daemon.death_recorded");
        for death in deaths {
            let address = death.place.address.0;
            self.forget_links(death.place, &death.peers);
            self.forget_notes(death.place);
            for peer in &death.peers {
                let there = MemberId::new(death.place.vm, peer.address);
                if let Some(token) = self.present.get(&there).copied() {
                    self.tell(token, DaemonEvent::Died(address), Vec::new());
                    m3ipc_sys::pause_point("daemon.death_told_one");
                }
            }
            self.leave_areas(death.place);
            self.trace_gone(death.place);
            self.tell_tickets(&death.told, address);
            self.forget_place(death.place);
            tracing::debug!(vm = death.place.vm, address, pid = death.member.pid, "endpoint gone");
        }
        for death in deaths {
            self.left(death.place);
        }
        self.forget_processes(deaths);
    }

    fn forget_place(&mut self, place: MemberId) {
        let _ = std::fs::remove_file(self.home.bell(place.vm, place.address.0));
        if let Some(token) = self.present.remove(&place) {
            // A thread's endpoint goes with its process's: it must not wait for ever.
            self.tell(token, DaemonEvent::Unbound, Vec::new());
            if let Some(connection) = self.connections.get_mut(&token) {
                connection.place = None;
                connection.pages = None;
                self.ward.forget(token);
            }
        }
        let waiting =
            [Deferred::Contact(place), Deferred::Berth(place)].map(|what| self.waiting_for(what));
        for token in waiting.into_iter().flatten() {
            self.refuse(
                token,
                m3ipc_abi::Code::DstDied,
                format_args!("endpoint {} died", place.address),
            );
        }
    }

    /// The connections whose request waits for this.
    pub(crate) fn waiting_for(&self, what: Deferred) -> Vec<u64> {
        let waiting = self.connections.iter().filter(|(_, other)| other.waits_for == Some(what));
        waiting.map(|(token, _)| *token).collect()
    }

    /// Sets an alarm.
    pub(crate) fn set_alarm(&mut self, in_ns: u64, alarm: Alarm) {
        let serial = self.new_token();
        self.alarms.insert((m3ipc_sys::monotonic_ns().saturating_add(in_ns), serial), alarm);
    }

    pub(crate) fn cancel_alarm(&mut self, alarm: Alarm) {
        self.alarms.retain(|_, set| *set != alarm);
    }

    fn next_alarm_ns(&self) -> Option<u64> {
        self.alarms.keys().next().map(|(at, _)| *at)
    }

    fn ring_alarms(&mut self) {
        while let Some(entry) = self.alarms.first_entry() {
            if entry.key().0 > m3ipc_sys::monotonic_ns() {
                return;
            }
            match entry.remove() {
                Alarm::Hello(token) => {
                    if self.connections.get(&token).is_some_and(|connection| !connection.greeted) {
                        self.close(token);
                    }
                }
                // Others wait for it, some in calls that never wait long.
                Alarm::Mapped(token, place) => {
                    let late = self.connections.get(&token).is_some_and(|connection| {
                        connection.place == Some(place)
                            && connection.pages.as_ref().is_some_and(|pages| !pages.sealed)
                    });
                    if late {
                        self.close(token);
                    }
                }
                Alarm::VmGrace(vm) => self.kill_members(vm),
                // Not who came to the place since: a system slot's next holder has the same address.
                Alarm::UnbindGrace(place, holder)
                    if self.present.get(&place).copied() == holder =>
                {
                    self.force_unbind(place);
                }
                Alarm::UnbindGrace(..) => {}
                Alarm::Idle => self.leave_if_idle(),
                Alarm::Flush(token) => self.flush(token),
                Alarm::Listen => drop(self.poll.add(&self.home.listener, LISTENER)),
                Alarm::Watch(pid) => self.watch_again(pid),
                Alarm::WatchThread(pid, tid) => self.watch_thread_again(pid, tid),
                Alarm::Journal => self.begin_journal(),
            }
        }
    }

    /// Nothing to do may be a reason to leave, after a while.
    pub(crate) fn rest(&mut self) {
        let idle = self.connections.is_empty() && self.has_no_vms();
        if let Some(limit_ns) = self.settings.idle_exit_ns
            && idle
            && !self.alarms.values().any(|alarm| *alarm == Alarm::Idle)
        {
            self.set_alarm(limit_ns, Alarm::Idle);
        }
    }

    pub(crate) fn has_no_vms(&self) -> bool {
        self.node.list(&Credentials::new(0, 0, 0)).is_empty()
    }

    fn leave_if_idle(&mut self) {
        if self.connections.is_empty() && self.has_no_vms() {
            tracing::info!("idle");
            self.leaving = true;
        }
    }
}
