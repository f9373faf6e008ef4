//! The server: the state of the daemon, and the ways to answer a member.
//!
//! | part | fields |
//! |---|---|
//! | registry | `node`, `journal`, `runtime_directory`, `settings`, `is_removed` |
//! | connections | `poll`, `sources`, `connections`, `attached`, `tickets`, `timers`, `round`, `accounts` |
//! | links | `links_held`, `bounce_buffers`, `copy_gates_asked`, `pending_notifications`, `traces` |
//! | deaths | `watched`, `death_watcher` |
//! | areas | `areas` |
//! | sockets | `sockets` |

use crate::death_watcher::DeathWatcher;
use crate::journal::{Journal, JournalError};
use crate::quota::{Accounts, Charge};
use crate::runtime_directory::RuntimeDirectory;
use crate::settings::{self, Settings};
use crate::state::areas::AreaRegistry;
use crate::state::connection::{Connection, Deferred, EndpointPages, SendOutcome};
use crate::state::member_fd::MemberFd;
use crate::state::pending_notifications::PendingNotifications;
use crate::state::processes::WatchedProcesses;
use crate::state::reserve_descriptor::ReserveDescriptor;
use crate::state::scheduling_round::SchedulingRound;
use crate::state::sockets::{BoundPort, SocketRegistry};
use crate::state::timers::{Timer, Timers};
use crate::state::traces::Traces;
use crate::tables::{MemberId, Node, Quota};
use m3ipc_abi::Code;
use m3ipc_sys::{Interest, Poll};
use m3ipc_wire::{DaemonEvent, FromDaemon, Refusal, Reply};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// The pause while the system lacks a resource that other processes will free.
pub(crate) const EXHAUSTED_PAUSE_NS: u64 = 10_000_000;
/// How often that pause doubles while a connection finds no room for descriptors.
const STALL_DOUBLINGS_MAX: u32 = 6;
/// The token of the listener in the poll.
pub(crate) const LISTENER_TOKEN: u64 = 0;
/// The token of the death watcher's pipe in the poll.
pub(crate) const DEATH_WATCHER_TOKEN: u64 = 1;
/// The token of SIGTERM and SIGINT.
pub(crate) const SIGNALS_TOKEN: u64 = 2;

/// The meaning of a token of the poll.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PollSource {
    /// A control connection.
    Connection,
    /// The pidfd of this process.
    Process(i32),
    /// The pidfd of this thread of a process.
    Thread(i32, i32),
}

/// The state of the daemon.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) settings: Settings,
    pub(crate) runtime_directory: RuntimeDirectory,
    pub(crate) node: Node,
    pub(crate) journal: Journal,
    pub(crate) initialised: bool,
    pub(crate) takeovers: u32,
    pub(crate) leaving: bool,
    /// Whether it leaves its members to the next daemon.
    pub(crate) leaves_members: bool,
    /// SIGTERM and SIGINT, which the poll reports.
    _signals: OwnedFd,
    /// Whether the socket was found removed.
    pub(crate) is_removed: bool,

    pub(crate) poll: Poll,
    pub(crate) sources: HashMap<u64, PollSource>,
    pub(crate) connections: HashMap<u64, Connection>,
    /// The connection of each endpoint that has one.
    pub(crate) attached: BTreeMap<MemberId, u64>,
    /// The connection of each open ticket, and the ticket's charge.
    pub(crate) tickets: HashMap<u64, (u64, Vec<Charge>)>,
    pub(crate) timers: Timers,
    pub(crate) round: SchedulingRound,
    pub(crate) reserve_descriptor: ReserveDescriptor,
    pub(crate) accounts: Accounts,
    next_token: u64,

    /// The pairs (holder, peer) of held links, as far as this daemon knows: it made the link, or
    /// the holder named it after a takeover.
    pub(crate) links_held: BTreeSet<(MemberId, MemberId)>,
    /// The number of bounce buffers made, by requester and peer.
    pub(crate) bounce_buffers: BTreeMap<(MemberId, MemberId), u32>,
    /// The requests for copies that a peer has not answered: requester, peer, with a bounce buffer.
    pub(crate) copy_gates_asked: BTreeSet<(MemberId, MemberId, bool)>,
    pub(crate) pending_notifications: PendingNotifications,
    pub(crate) traces: Traces,

    pub(crate) watched: WatchedProcesses,
    pub(crate) death_watcher: DeathWatcher,

    pub(crate) areas: AreaRegistry,
    pub(crate) sockets: SocketRegistry,
}

/// Why the daemon cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    #[error("the system refuses {resource}: {cause}; check the limits and the space of the system")]
    System { resource: &'static str, cause: std::io::Error },
    #[error(
        "the journal {} has version {found}, and this daemon reads version {}; end that node by \
         its own `m3 down`, or remove the file where no process of the node is left",
        path.display(),
        Journal::version()
    )]
    JournalVersion { path: std::path::PathBuf, found: u16 },
    #[error("{0}")]
    Settings(#[from] settings::SettingsError),
}

/// Maps the refusal of a resource to an error.
pub(crate) fn refused<E: Into<std::io::Error>>(
    resource: &'static str,
) -> impl FnOnce(E) -> ServerError {
    move |cause| ServerError::System { resource, cause: cause.into() }
}

impl Server {
    /// A server in its runtime directory, with the tables of a killed predecessor if there are any.
    pub(crate) fn new(
        settings: Settings,
        runtime_directory: RuntimeDirectory,
    ) -> Result<Self, ServerError> {
        // The default limit suffices for a few members.
        let descriptors = m3ipc_sys::raise_fd_limit();
        let owner = (!settings.system).then(m3ipc_sys::user_id);
        let path = runtime_directory.journal();
        let records = Journal::read(&path).map_err(|error| match error {
            JournalError::System(cause) => refused("the journal")(cause),
            JournalError::Version(found) => {
                ServerError::JournalVersion { path: path.clone(), found }
            }
        })?;
        let quota = Quota { owner, ..Quota::default() };
        let (mut node, takeovers) = match Node::replay(&records, quota) {
            Ok(node) => (node, 1),
            Err(_no_journal) => {
                let program = m3ipc_wire::NodeParams::default();
                let (nodeid, limits) = settings::resolve_node(&settings.node, &program)?;
                (Node::new(nodeid, limits, quota), 0)
            }
        };
        let journal = Journal::begin(&path, &node.snapshot()).map_err(refused("the journal"))?;
        node.drain_records();
        let poll = Poll::new().map_err(refused("a poll"))?;
        poll.add(&runtime_directory.listener, LISTENER_TOKEN).map_err(refused("a poll"))?;
        // The mask holds for this thread and for the watcher's.
        let signals = m3ipc_sys::interrupt_signals().map_err(refused("a signal descriptor"))?;
        poll.add(&signals, SIGNALS_TOKEN).map_err(refused("a poll"))?;
        let death_watcher = DeathWatcher::new().map_err(refused("a pipe"))?;
        poll.add(death_watcher.reader(), DEATH_WATCHER_TOKEN).map_err(refused("a poll"))?;
        let sockets = SocketRegistry::new(&runtime_directory.sockets());
        Ok(Self {
            initialised: !settings.uninitialised
                || node.terms().by_call
                || node.vms().next().is_some(),
            settings,
            runtime_directory,
            node,
            journal,
            takeovers,
            leaving: false,
            is_removed: false,
            poll,
            sources: HashMap::new(),
            connections: HashMap::new(),
            attached: BTreeMap::new(),
            tickets: HashMap::new(),
            timers: Timers::default(),
            round: SchedulingRound::default(),
            reserve_descriptor: ReserveDescriptor::new(),
            accounts: Accounts::new(owner, descriptors),
            next_token: SIGNALS_TOKEN,
            _signals: signals,
            leaves_members: false,
            links_held: BTreeSet::new(),
            bounce_buffers: BTreeMap::new(),
            copy_gates_asked: BTreeSet::new(),
            pending_notifications: PendingNotifications::default(),
            traces: Traces::default(),
            watched: WatchedProcesses::default(),
            death_watcher,
            areas: AreaRegistry::default(),
            sockets,
        })
    }

    /// A token that was never used.
    pub(crate) fn new_token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    /// Sets a timer.
    pub(crate) fn set_timer(&mut self, in_ns: u64, timer: Timer) {
        self.timers.set(m3ipc_sys::monotonic_ns().saturating_add(in_ns), timer);
    }

    /// The endpoint of a connection.
    pub(crate) fn endpoint_of(&self, token: u64) -> Option<MemberId> {
        self.connections.get(&token)?.id
    }

    /// The endpoint of a connection; refuses the open request if there is none.
    pub(crate) fn require_endpoint(&mut self, token: u64) -> Option<MemberId> {
        let id = self.endpoint_of(token);
        if id.is_none() {
            let why = "the caller is not bound in any VM; bind it first";
            self.refuse(token, Code::NotBind, why);
        }
        id
    }

    /// The connection of an endpoint.
    pub(crate) fn connection_of(&self, id: MemberId) -> Option<u64> {
        self.attached.get(&id).copied()
    }

    /// The pages of an endpoint.
    pub(crate) fn pages_of(&self, id: MemberId) -> Option<&EndpointPages> {
        self.connections.get(self.attached.get(&id)?)?.pages.as_ref()
    }

    /// Whether an endpoint has mapped its pages of this daemon.
    pub(crate) fn is_attached(&self, id: MemberId) -> bool {
        let connection = self.attached.get(&id).and_then(|token| self.connections.get(token));
        connection.is_some_and(Connection::is_attached)
    }

    /// Defers the answer to the open request of a connection until an event.
    pub(crate) fn defer(&mut self, token: u64, until: Deferred) {
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.deferred = Some(until);
        }
    }

    /// The connections whose answer waits for this event.
    pub(crate) fn deferred_until(&self, event: Deferred) -> Vec<u64> {
        let waiting = self.connections.iter().filter(|(_, other)| other.deferred == Some(event));
        waiting.map(|(token, _)| *token).collect()
    }

    /// Answers the open request of a connection.
    pub(crate) fn reply(&mut self, token: u64, reply: Reply, fds: Vec<Rc<MemberFd>>) {
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.deferred = None;
            let outcome = connection.send(&mut self.accounts, &FromDaemon::Reply(reply), fds);
            self.after_send(token, outcome);
        }
    }

    /// Answers with a number.
    pub(crate) fn reply_number(&mut self, token: u64, number: i32) {
        self.reply(token, Reply::Number(number), Vec::new());
    }

    /// Records the changes of the request, then answers it without a result.
    pub(crate) fn reply_done(&mut self, token: u64) {
        self.record();
        self.reply(token, Reply::Done, Vec::new());
    }

    /// Refuses the open request of a connection.
    pub(crate) fn refuse(&mut self, token: u64, code: Code, why: impl ToString) {
        let refusal = Refusal { code: code.number(), why: why.to_string() };
        tracing::debug!(code = refusal.code, why = refusal.why, "a request is refused");
        self.reply(token, Reply::Refused(refusal), Vec::new());
    }

    /// Sends a daemon event to a member, and wakes it by its event word.
    pub(crate) fn send_event(&mut self, token: u64, event: DaemonEvent, fds: Vec<Rc<MemberFd>>) {
        if let Some(connection) = self.connections.get_mut(&token) {
            let Some(outcome) = connection.send_event(&mut self.accounts, event, fds) else {
                return;
            };
            connection.announce_event();
            self.after_send(token, outcome);
        }
    }

    /// Sends an event that belongs to the answer of the member's own request.
    pub(crate) fn send_own_event(
        &mut self,
        token: u64,
        event: DaemonEvent,
        fds: Vec<Rc<MemberFd>>,
    ) {
        if let Some(connection) = self.connections.get_mut(&token) {
            let outcome = connection.send(&mut self.accounts, &FromDaemon::Event(event), fds);
            connection.announce_event();
            self.after_send(token, outcome);
        }
    }

    /// Sends a daemon event to an endpoint that has a connection.
    pub(crate) fn send_event_to(&mut self, id: MemberId, event: DaemonEvent) {
        if let Some(token) = self.connection_of(id) {
            self.send_event(token, event, Vec::new());
        }
    }

    /// Reports to the waiters that their tickets are complete.
    pub(crate) fn complete_tickets(&mut self, tickets: &[u64], address: i32) {
        for ticket in tickets {
            let Some((token, _charge)) = self.tickets.remove(ticket) else { continue };
            if let Some(connection) = self.connections.get_mut(&token) {
                connection.tickets.retain(|open| open != ticket);
            }
            let event = DaemonEvent::Ready { ticket: *ticket, address };
            self.send_event(token, event, Vec::new());
        }
    }

    fn after_send(&mut self, token: u64, outcome: SendOutcome) {
        match outcome {
            SendOutcome::Sent | SendOutcome::Behind => {}
            SendOutcome::Queued => self.set_interest(token, Interest::Write),
            SendOutcome::DescriptorsExhausted => self.flush_later(token),
            SendOutcome::Broken => self.close(token),
        }
    }

    /// Flushes a connection after a pause, which grows while there is no room for descriptors.
    fn flush_later(&mut self, token: u64) {
        self.set_interest(token, Interest::End);
        let Some(connection) = self.connections.get_mut(&token) else { return };
        if !std::mem::replace(&mut connection.has_flush_timer, true) {
            let pause_ns = EXHAUSTED_PAUSE_NS << connection.stalls.min(STALL_DOUBLINGS_MAX);
            self.set_timer(pause_ns, Timer::Flush(token));
        }
    }

    /// Flushes a connection that had no room for descriptors.
    pub(crate) fn flush_stalled(&mut self, token: u64) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        connection.has_flush_timer = false;
        let uid = connection.cred.uid;
        // Other connections of the user may have been read since.
        if self.accounts.begin_count(uid, m3ipc_sys::monotonic_ns()) {
            self.count_read_descriptors(uid);
        }
        self.flush(token);
    }

    /// Releases the charges for descriptors that members of a user have read.
    pub(crate) fn count_read_descriptors(&mut self, uid: u32) {
        for connection in self.connections.values_mut().filter(|other| other.cred.uid == uid) {
            connection.count_read_descriptors();
        }
        self.sockets.ports.values_mut().for_each(BoundPort::count_taken_descriptors);
    }

    /// Sends the queued frames of a connection.
    pub(crate) fn flush(&mut self, token: u64) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let outcome = connection.flush(&mut self.accounts);
        // The first announcement came before the frames were readable.
        connection.announce_event();
        match outcome {
            SendOutcome::Sent => self.set_interest(token, Interest::Read),
            SendOutcome::Queued | SendOutcome::Behind => {
                self.set_interest(token, Interest::Write);
            }
            SendOutcome::DescriptorsExhausted => self.flush_later(token),
            SendOutcome::Broken => self.close(token),
        }
    }

    fn set_interest(&mut self, token: u64, interest: Interest) {
        if let Some(connection) = self.connections.get(&token) {
            // A failure leaves the frames in the queue until the next send or flush.
            let _ = self.poll.set_interest(&connection.socket, token, interest);
        }
    }

    /// Whether the node has no VMs.
    pub(crate) fn has_no_vms(&self) -> bool {
        self.node.vms().next().is_none()
    }

    /// Whether nobody uses the node. A node that a program began stays until one ends it.
    pub(crate) fn is_idle(&self) -> bool {
        self.connections.is_empty() && self.has_no_vms() && !self.node.terms().by_call
    }

    /// Starts the idle timer if the node is unused and the settings have an idle time.
    pub(crate) fn start_idle_timer(&mut self) {
        if let Some(limit_ns) = self.settings.idle_exit_ns
            && self.is_idle()
            && !self.timers.is_set(Timer::Idle)
        {
            self.set_timer(limit_ns, Timer::Idle);
        }
    }
}
