//! The server: the state of the daemon, and the ways to answer a member.
//!
//! The parts of the state keep their own rules, and none knows the server (`state`):
//!
//! | part | fields |
//! |---|---|
//! | registry | `node`, `journal`, `runtime_directory`, `settings`, `lifecycle` |
//! | connections | `sources`, `connections`, `accounts`, `end_marks` |
//! | links | `links`, `pending_notifications`, `traces` |
//! | deaths | `deaths` |
//! | areas | `areas` |
//! | sockets | `sockets` |
//! | nodes | `nodes` |

use crate::death_watcher::DeathWatcher;
use crate::journal::{Found, Journal, JournalError};
use crate::quota::Accounts;
use crate::runtime_directory::RuntimeDirectory;
use crate::settings::{self, Settings};
use crate::state::areas::AreaRegistry;
use crate::state::connection::{Connection, Deferred, SendOutcome};
use crate::state::connections::Connections;
use crate::state::death_watches::DeathWatches;
use crate::state::end_marks::EndMarks;
use crate::state::event_sources::{EventSources, Source};
use crate::state::held_links::HeldLinks;
use crate::state::lifecycle::Lifecycle;
use crate::state::member_fd::MemberFd;
use crate::state::nodes::Nodes;
use crate::state::pending_notifications::PendingNotifications;
use crate::state::sockets::{BoundPort, SocketRegistry};
use crate::state::timers::Timer;
use crate::state::traces::Traces;
use crate::tables::{MemberId, Node, Quota, ReplayError, TicketId, Vm};
use crate::token::Token;
use m3ipc_abi::Code;
use m3ipc_sys::{Interest, Namespaces};
use m3ipc_wire::{DaemonEvent, FromDaemon, Refusal, Reply, VmLife};
use std::path::Path;
use std::rc::Rc;

/// The pause while the system lacks a resource that other processes will free.
pub(crate) const EXHAUSTED_PAUSE_NS: u64 = 10_000_000;
/// How often that pause doubles while a connection finds no room for descriptors.
const STALL_DOUBLINGS_MAX: u32 = 6;
/// The state of the daemon.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) settings: Settings,
    pub(crate) runtime_directory: RuntimeDirectory,
    pub(crate) node: Node,
    pub(crate) journal: Journal,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) sources: EventSources,
    pub(crate) connections: Connections,
    pub(crate) accounts: Accounts,
    pub(crate) end_marks: EndMarks,
    pub(crate) links: HeldLinks,
    pub(crate) pending_notifications: PendingNotifications,
    pub(crate) traces: Traces,
    pub(crate) deaths: DeathWatches,
    pub(crate) areas: AreaRegistry,
    pub(crate) sockets: SocketRegistry,
    pub(crate) nodes: Nodes,
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
    #[error(
        "the journal {} is of a daemon in another {kind} namespace: this daemon cannot tell \
         whether its members live; a program of that namespace starts the right daemon, or remove \
         the file where no process of the node is left",
        path.display()
    )]
    OtherNamespace { path: std::path::PathBuf, kind: &'static str },
    #[error("{0}")]
    Settings(#[from] settings::SettingsError),
}

/// Keeps a damaged journal for a look, and says in the log what is lost. The node goes on: a
/// daemon that does not start would harm all its programs, and those of the lost VMs hear of it.
fn report_damage(path: &Path, records: usize, contradiction: Option<&ReplayError>) {
    let kept = Journal::keep_damaged(path);
    let kept = kept.map_or_else(|cause| format!("not kept: {cause}"), |p| p.display().to_string());
    let left = if contradiction.is_some() { 0 } else { records };
    tracing::error!(
        kept,
        records = left,
        contradiction = contradiction.map(tracing::field::display),
        "the journal is damaged; the node goes on with the records before the damage; VMs and \
         names that came later are lost, and their programs must start again"
    );
}

/// The journal of a killed predecessor, and its tables if there are any.
fn predecessor(
    path: &Path,
    quota: Quota,
) -> Result<(Found, Result<Node, ReplayError>), ServerError> {
    let found = Journal::read(path).map_err(|error| match error {
        JournalError::System(cause) => refused("the journal")(cause),
        JournalError::Version(found) => {
            ServerError::JournalVersion { path: path.to_owned(), found }
        }
    })?;
    let replayed = Node::replay(&found.records, quota);
    let names_processes = |node: &Node| {
        let has_creator = |vm: &Vm| vm.spec().life == VmLife::Creator;
        node.vms().any(|vm| has_creator(vm) || node.endpoints(vm.id()).next().is_some())
    };
    if replayed.as_ref().is_ok_and(names_processes)
        && let Some(kind) = found.namespaces.difference(Namespaces::own())
    {
        return Err(ServerError::OtherNamespace { path: path.to_owned(), kind });
    }
    Ok((found, replayed))
}

/// Why no daemon that this process starts can take the members of a killed one over.
#[must_use]
pub fn takeover_obstacle(directory: &Path) -> Option<String> {
    predecessor(&RuntimeDirectory::journal_of(directory), Quota::default())
        .err()
        .map(|error| error.to_string())
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
        let quota = Quota { owner, ..Quota::default() };
        let (found, replayed) = predecessor(&path, quota)?;
        if found.is_damaged || (replayed.is_err() && !found.records.is_empty()) {
            report_damage(&path, found.records.len(), replayed.as_ref().err());
        }
        let (mut node, takeovers) = match replayed {
            Ok(node) => (node, 1),
            Err(_nothing_usable) => {
                let program = m3ipc_wire::NodeParams::default();
                let (nodeid, limits) = settings::resolve_node(&settings.node, &program)?;
                (Node::new(nodeid, limits, quota), 0)
            }
        };
        let journal = Journal::begin(&path, &node.snapshot()).or_else(|cause| {
            // Members of the predecessor wait for this daemon, also where there is no room.
            let is_full = cause.kind() == std::io::ErrorKind::StorageFull;
            if is_full && takeovers > 0 { Journal::resume(&path) } else { Err(cause) }
        });
        let journal = journal.map_err(refused("the journal"))?;
        node.drain_records();
        let mut sources = EventSources::new().map_err(refused("a poll"))?;
        let listener = &runtime_directory.listener;
        sources.add(listener, Source::Listener).map_err(refused("a poll"))?;
        // The mask holds for this thread and for the watcher's.
        let signals = m3ipc_sys::interrupt_signals().map_err(refused("a signal descriptor"))?;
        sources.add(&signals, Source::Signals).map_err(refused("a poll"))?;
        let death_watcher = DeathWatcher::new().map_err(refused("a pipe"))?;
        let reader = death_watcher.reader();
        sources.add(reader, Source::DeathWatcher).map_err(refused("a poll"))?;
        let mut sockets = SocketRegistry::new(&runtime_directory.sockets());
        // A predecessor was killed at the end of these VMs. The next ones with their numbers have
        // no such domains.
        for (domain, uid) in sockets.take_kept(|vm| node.vm(vm).is_err()) {
            let _ = std::fs::remove_file(runtime_directory.domain(domain, uid));
        }
        sources.take_reserve();
        let initialised =
            !settings.uninitialised || node.terms().by_call || node.vms().next().is_some();
        Ok(Self {
            settings,
            runtime_directory,
            node,
            journal,
            lifecycle: Lifecycle::new(initialised, takeovers, signals),
            sources,
            connections: Connections::default(),
            accounts: Accounts::new(owner, descriptors),
            end_marks: EndMarks::new().map_err(refused("words in pages"))?,
            links: HeldLinks::default(),
            pending_notifications: PendingNotifications::default(),
            traces: Traces::default(),
            deaths: DeathWatches::new(death_watcher),
            areas: AreaRegistry::default(),
            sockets,
            nodes: Nodes::default(),
        })
    }

    /// The endpoint of a connection.
    pub(crate) fn endpoint_of(&self, token: Token) -> Option<MemberId> {
        self.connections.get(token)?.id
    }

    /// The endpoint of a connection; refuses the open request if there is none.
    pub(crate) fn require_endpoint(&mut self, token: Token) -> Option<MemberId> {
        let id = self.endpoint_of(token);
        if id.is_none() {
            let why = "the caller is not bound in any VM; bind it first";
            self.refuse(token, Code::NotBind, why);
        }
        id
    }

    /// Defers the answer to the open request of a connection until an event.
    pub(crate) fn defer(&mut self, token: Token, until: Deferred) {
        if let Some(connection) = self.connections.get_mut(token) {
            connection.deferred = Some(until);
        }
    }

    /// Answers the open request of a connection.
    pub(crate) fn reply(&mut self, token: Token, reply: Reply, fds: Vec<Rc<MemberFd>>) {
        if let Some(connection) = self.connections.get_mut(token) {
            connection.deferred = None;
            let outcome = connection.send(&mut self.accounts, &FromDaemon::Reply(reply), fds);
            self.after_send(token, outcome);
        }
    }

    /// Answers with a number.
    pub(crate) fn reply_number(&mut self, token: Token, number: i32) {
        self.reply(token, Reply::Number(number), Vec::new());
    }

    /// Records the changes of the request, then answers it without a result.
    pub(crate) fn reply_done(&mut self, token: Token) {
        self.record();
        self.reply(token, Reply::Done, Vec::new());
    }

    /// Refuses the open request of a connection.
    pub(crate) fn refuse(&mut self, token: Token, code: Code, why: impl ToString) {
        let refusal = Refusal { code: code.number(), why: why.to_string() };
        tracing::debug!(code = refusal.code, why = refusal.why, "a request is refused");
        self.reply(token, Reply::Refused(refusal), Vec::new());
    }

    /// Sends a daemon event to a member, and wakes it by its event word.
    pub(crate) fn send_event(&mut self, token: Token, event: DaemonEvent, fds: Vec<Rc<MemberFd>>) {
        if let Some(connection) = self.connections.get_mut(token) {
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
        token: Token,
        event: DaemonEvent,
        fds: Vec<Rc<MemberFd>>,
    ) {
        if let Some(connection) = self.connections.get_mut(token) {
            let outcome = connection.send(&mut self.accounts, &FromDaemon::Event(event), fds);
            connection.announce_event();
            self.after_send(token, outcome);
        }
    }

    /// Sends a daemon event to an endpoint that has a connection.
    pub(crate) fn send_event_to(&mut self, id: MemberId, event: DaemonEvent) {
        if let Some(token) = self.connections.of_endpoint(id) {
            self.send_event(token, event, Vec::new());
        }
    }

    /// Reports to the waiters that their tickets are complete.
    pub(crate) fn complete_tickets(&mut self, tickets: &[TicketId], address: i32) {
        for ticket in tickets {
            let Some(token) = self.connections.remove_ticket(*ticket) else { continue };
            let event = DaemonEvent::Ready { ticket: ticket.0, address };
            self.send_event(token, event, Vec::new());
        }
    }

    fn after_send(&mut self, token: Token, outcome: SendOutcome) {
        match outcome {
            SendOutcome::Sent | SendOutcome::Behind => {}
            SendOutcome::Queued => self.set_interest(token, Interest::Write),
            SendOutcome::DescriptorsExhausted => self.flush_later(token),
            SendOutcome::Broken => self.connections.mark_broken(token),
        }
    }

    /// Flushes a connection after a pause, which grows while there is no room for descriptors.
    fn flush_later(&mut self, token: Token) {
        self.set_interest(token, Interest::End);
        let Some(connection) = self.connections.get_mut(token) else { return };
        if !std::mem::replace(&mut connection.has_flush_timer, true) {
            let pause_ns = EXHAUSTED_PAUSE_NS << connection.stalls.min(STALL_DOUBLINGS_MAX);
            self.sources.set_timer(pause_ns, Timer::Flush(token));
        }
    }

    /// Flushes a connection that had no room for descriptors.
    pub(crate) fn flush_stalled(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(token) else { return };
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
        self.connections.of_user_mut(uid).for_each(Connection::count_read_descriptors);
        self.sockets.ports.values_mut().for_each(BoundPort::count_taken_descriptors);
    }

    /// Sends the queued frames of a connection.
    pub(crate) fn flush(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let outcome = connection.flush(&mut self.accounts);
        // The first announcement came before the frames were readable.
        connection.announce_event();
        match outcome {
            SendOutcome::Sent => self.set_interest(token, Interest::Read),
            SendOutcome::Queued | SendOutcome::Behind => {
                self.set_interest(token, Interest::Write);
            }
            SendOutcome::DescriptorsExhausted => self.flush_later(token),
            SendOutcome::Broken => self.connections.mark_broken(token),
        }
    }

    fn set_interest(&mut self, token: Token, interest: Interest) {
        if let Some(connection) = self.connections.get(token) {
            self.sources.set_interest(&connection.socket, token, interest);
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
            && !self.sources.is_timer_set(Timer::Idle)
        {
            self.sources.set_timer(limit_ns, Timer::Idle);
        }
    }
}
