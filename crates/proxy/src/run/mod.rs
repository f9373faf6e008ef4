//! `m3-proxy run`: the proxy of a node, at work.
//!
//! ```text
//!   daemon ─ events ─┐                                  ┌─ connections to other nodes
//!   links ── local: stand-ins ── machine (m3ipc-fabric) ── network
//! ```
//!
//! One thread, one `poll` over all descriptors. Between two sleeps the loop looks at shared memory
//! in place of the stand-ins' descriptors. The machine decides; `local` and `network` carry out. A
//! life of the proxy ends with its daemon: the calls of other nodes end with their truth,
//! and a new life begins with the next daemon.

mod backups;
mod byte_queue;
mod config;
mod copy;
mod ends;
mod error;
mod feed;
mod incarnation;
mod interrupt;
pub mod keeper;
mod kept;
mod links;
mod local;
mod names;
mod network;
mod patience;
mod probes;
mod pulses;
pub mod renewal;
pub mod sandbox;
mod transports;
mod user;
mod wanted;

pub use config::{Config, ConfigError, Confinement};
pub use error::RunError;
pub use feed::FeedError;

use crate::log::say;
use crate::status::{self, Asked, Status, StatusError, StatusSocket};
use crate::transport::{Listener, Transport};
use ends::Parcel;
use feed::{Feed, FeedEvent};
use incarnation::Lives;
use interrupt::Interrupt;
use links::Links;
use local::{EVENTS_QUEUED, Local, Pass};
use m3ipc::nodes::{OtherNode, Proxy};
use m3ipc::{Code, NodeError};
use m3ipc_fabric::{Action, EndpointId, Machine, NodeId, Registry, Settings};
use network::{Clock, Network, NetworkReport};
use patience::Patience;
use renewal::Renewal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use transports::transport;

/// The time that a predecessor has to leave the daemon.
const PREDECESSOR: Duration = Duration::from_secs(3);
/// Freed memory that stays in the process, in bytes.
const KEPT_HEAP_BYTES: usize = 8 << 20;
/// The pause between two attempts to find a daemon.
const PAUSE: Duration = Duration::from_millis(100);

/// Runs the proxy of a node, until SIGTERM or SIGINT.
///
/// # Errors
/// [`RunError`]: nothing was begun, or the system refuses.
pub fn run(config: &Config) -> Result<(), RunError> {
    let interrupt = Interrupt::begin().map_err(RunError::Poll)?;
    await_predecessor(config)?;
    let (transport, renewal) = transport(config)?;
    raise_descriptor_limit();
    keep_heap();
    let mut listener = listen(config, &*transport())?;
    // The user of the proxy may have no right to write there.
    let status = StatusSocket::listen(&config.runtime_directory);
    sandbox::drop_root(config)?;
    let mut proxy = register_first(config)?;
    // The daemon may have made the directory just now.
    let status = status
        .or_else(|_| StatusSocket::listen(&config.runtime_directory))
        .inspect_err(|error| m3ipc_sys::report!("m3-proxy: no status for `m3 node ls`: {error}"))
        .ok();
    let mut lives = Lives::begin(config)?;
    // In its sandbox this program waits for no process.
    m3ipc_sys::ignore_children();
    // No file is needed from here on.
    m3ipc_sys::report!("m3-proxy: {}", sandbox::close(config)?);
    loop {
        let begun = Life::begin(config, &mut lives, proxy, (transport(), &mut *listener));
        let (renewal, told) = (renewal.as_ref(), Some(&interrupt));
        Life { status: status.as_ref(), interrupt: told, renewal, ..begun }.live()?;
        if interrupt.has_come() {
            m3ipc_sys::report!("m3-proxy: told to end");
            return Ok(());
        }
        m3ipc_sys::report!("m3-proxy: the daemon has gone; waiting for the next one");
        let next = register_later(config, status.as_ref(), &interrupt, renewal);
        let Some(next) = next else { return Ok(()) };
        proxy = next;
    }
}

/// Waits for the end of a proxy that was told to end. The socket of one that goes on stays its own.
fn await_predecessor(config: &Config) -> Result<(), RunError> {
    let until = Instant::now() + PREDECESSOR;
    loop {
        let pid = match status::ask(&config.runtime_directory) {
            Ok(Asked { pid, .. }) | Err(StatusError::Stuck { pid: Some(pid), .. }) => pid,
            Err(_) => return Ok(()),
        };
        if Instant::now() >= until {
            return Err(RunError::Present { pid, directory: config.runtime_directory.clone() });
        }
        std::thread::sleep(PAUSE);
    }
}

/// Listens at the address of the own node. A predecessor that was killed may still have it.
fn listen(config: &Config, transport: &dyn Transport) -> Result<Box<dyn Listener>, RunError> {
    let (address, until) = (config.own.address, Instant::now() + PREDECESSOR);
    loop {
        match transport.listen(address) {
            Err(cause) if cause.kind() == io::ErrorKind::AddrInUse && Instant::now() < until => {
                std::thread::sleep(PAUSE);
            }
            listening => {
                return listening.map_err(|cause| RunError::Listen { address, cause });
            }
        }
    }
}

/// Registers at the daemon. A predecessor that was killed may not have left yet.
fn register_first(config: &Config) -> Result<Proxy, RunError> {
    let until = Instant::now() + PREDECESSOR;
    loop {
        match Proxy::register(&config.runtime_directory, config.slots()) {
            Err(cause) if cause.code() == Code::RscBusy && Instant::now() < until => {
                std::thread::sleep(PAUSE);
            }
            registered => {
                let directory = config.runtime_directory.clone();
                return registered.map_err(|cause| RunError::Daemon { directory, cause });
            }
        }
    }
}

/// Registers at the next daemon, whenever that comes. `None`: the proxy was told to end.
fn register_later(
    config: &Config,
    status: Option<&StatusSocket>,
    interrupt: &Interrupt,
    renewal: Option<&Renewal>,
) -> Option<Proxy> {
    let mut said = String::new();
    loop {
        std::thread::sleep(PAUSE);
        if interrupt.has_come() {
            return None;
        }
        if let Some(status) = status {
            status.serve(|| links::without_daemon(config));
        }
        if let Some(renewal) = renewal {
            renewal.step(config);
        }
        match Proxy::register_again(&config.runtime_directory, config.slots()) {
            Ok(proxy) => return Some(proxy),
            Err(cause) => {
                let why = cause.to_string();
                if why != said {
                    m3ipc_sys::report!("m3-proxy: {why}");
                }
                said = why;
            }
        }
    }
}

/// Descriptors that a stand-in and its peers take, near enough for a share.
const DESCRIPTORS_OF_STAND_IN: u64 = 6;
/// Descriptors for connections and files.
const DESCRIPTORS_KEPT: u64 = 200;

/// The stand-ins that each of so many other nodes may have.
fn stand_ins_of_node(others: usize) -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let left = limit.unwrap_or(u64::MAX).saturating_sub(DESCRIPTORS_KEPT);
    let share = left / DESCRIPTORS_OF_STAND_IN / u64::try_from(others.max(1)).unwrap_or(u64::MAX);
    usize::try_from(share).unwrap_or(usize::MAX).max(8)
}

/// Each stand-in takes descriptors, as many as the system gives.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Without it the proxy has fewer stand-ins.
    let _ =
        setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, ..limit });
}

/// Lets the C library keep freed memory. It gives memory back above a threshold, which grows with
/// the largest block that was freed; the pieces of a copy would come and go by system calls.
fn keep_heap() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(KEPT_HEAP_BYTES / 2)));
}

/// What the descriptors have reported.
#[derive(Debug, Default)]
struct Reported {
    network: NetworkReport,
    status: bool,
    interrupt: bool,
    renewal: bool,
    daemon: bool,
    /// Stand-ins.
    rung: Vec<EndpointId>,
    /// Whether marks in shared memory are all that there is.
    by_marks: bool,
    /// Whether the first looks found it, however long others had the CPU meanwhile.
    is_quick: bool,
}

/// The proxy from its registration to the end of the daemon.
struct Life<'a> {
    config: &'a Config,
    clock: Clock,
    machine: Machine,
    local: Local,
    network: Network<'a>,
    links: Links,
    patience: Patience,
    reported: Reported,
    /// Whether the latest pass was for marks alone, and found nothing.
    was_vain: bool,
    /// Whether polling was in vain: a sleep follows the next pass.
    sleeps_next: bool,
    /// The begin of a wait that goes on after a pass.
    waits_since: Option<Instant>,
    /// None where the runtime directory takes no socket.
    status: Option<&'a StatusSocket>,
    /// None until the life is begun.
    interrupt: Option<&'a Interrupt>,
    /// None until the life is begun, and without keys.
    renewal: Option<&'a Renewal>,
}

impl<'a> Life<'a> {
    fn begin(
        config: &'a Config,
        lives: &mut Lives,
        proxy: Proxy,
        (transport, listener): (Box<dyn Transport>, &'a mut dyn Listener),
    ) -> Self {
        let (clock, incarnation) = (Clock::begin(), lives.next());
        let owners = config.owners();
        let peers = config.peers().map(|node| node.id);
        let machine = Machine::new(
            &config.registry.cluster,
            config.own.id,
            incarnation,
            owners.clone(),
            peers,
            Settings::default(),
        );
        let network = Network::new(config, transport, listener, Instant::now());
        let others = config.peers().count();
        let (name, address) = (&config.name, config.own.address);
        m3ipc_sys::report!("m3-proxy: node {name} listens at {address}, and knows {others} others");
        let mut local = Local::new(
            proxy,
            owners,
            config.own.id,
            (stand_ins_of_node(others), config.node_bytes),
        );
        let known = config.peers();
        let known = known.map(|it| OtherNode { id: it.id.0.into(), name: it.name.clone() });
        // A daemon that is gone ends this life in the first step.
        let _ = local.knows(known.collect());
        if config.feed.is_some() {
            // Nobody is at an unclaimed slot: that is no lost node.
            let _ = local.answers_for(config::NO_NODE);
        }
        let (links, patience) = (Links::new(incarnation), Patience::default());
        let everything = NetworkReport { wires: true, listener: true };
        let reported = Reported { network: everything, daemon: true, ..Reported::default() };
        Self {
            config,
            clock,
            machine,
            local,
            network,
            links,
            patience,
            reported,
            was_vain: false,
            sleeps_next: false,
            waits_since: None,
            status: None,
            interrupt: None,
            renewal: None,
        }
    }

    /// Works until the daemon ends, or the proxy is told to end.
    fn live(mut self) -> Result<(), RunError> {
        // A node that greets hears of the endpoints that live already.
        let known = self.local.read_events(EVENTS_QUEUED, &mut self.machine, &self.clock);
        while known.is_ok() && !self.reported.interrupt && self.step().is_ok() {
            self.wait()?;
        }
        self.network.leave();
        Ok(())
    }

    fn step(&mut self) -> Result<(), NodeError> {
        let is_silent = self.patience.polls() && !self.sleeps_next;
        let reported = std::mem::take(&mut self.reported);
        self.local.note_rings(&reported.rung);
        self.follow_registry()?;
        let now = Instant::now();
        self.network.step(reported.network, &mut self.machine, &self.clock, now);
        self.machine.tick(self.clock.now_ns());
        self.act()?;
        let pass = Pass { is_silent, daemon: reported.daemon };
        let found_any = self.local.step(pass, &mut self.machine, &self.clock)?;
        self.was_vain = reported.by_marks && !found_any;
        self.act()?;
        self.network.transmit(&mut self.machine, &self.clock, now);
        if let Some(status) = self.status
            && reported.status
        {
            let certificate = || self.renewal.and_then(Renewal::end);
            let of_nodes = || self.links.status(self.config, &self.network, &self.local);
            status.serve(|| Status { certificate: certificate(), ..of_nodes() });
        }
        if let Some(renewal) = self.renewal
            && reported.renewal
        {
            renewal.step(self.config);
        }
        // What a connection had no room for may have ended a session.
        self.act()
    }

    /// Waits for an event or the next deadline. Returns before a sleep for a pass that makes all
    /// stand-ins loud.
    fn wait(&mut self) -> Result<(), RunError> {
        let begin = self.waits_since.take().unwrap_or_else(Instant::now);
        let polls = self.patience.polls() && !self.sleeps_next;
        let waited = match polls {
            true => self.poll_for_news(begin)?,
            // A deliverer may have left a stand-in silent.
            false if self.local.is_any_silent() => None,
            false => Some(self.sleep()?),
        };
        let Some(reported) = waited else {
            (self.sleeps_next, self.waits_since) = (true, Some(begin));
            return Ok(());
        };
        // A peer that marks its link without end must not keep this loop awake.
        let was_vain = std::mem::take(&mut self.was_vain);
        self.patience.waited(match (was_vain, reported.is_quick) {
            (true, _) => patience::LONGEST,
            (false, true) => Duration::ZERO,
            (false, false) => begin.elapsed(),
        });
        (self.sleeps_next, self.reported) = (false, reported);
        Ok(())
    }

    /// When the loop has something to do without an event.
    fn deadline(&self) -> Option<Instant> {
        let machine = self.machine.next_timeout_ns().map(|at_ns| self.clock.at(at_ns));
        let all = [machine, self.network.deadline(), self.local.deadline()];
        all.into_iter().flatten().min()
    }

    /// Polls for a while, without a sleep. `None` if nothing came.
    fn poll_for_news(&self, begin: Instant) -> Result<Option<Reported>, RunError> {
        let mut descriptors = self.descriptors(false);
        let due = self.deadline().map(|at| at.saturating_duration_since(begin));
        let mut looks = 0;
        loop {
            std::thread::yield_now();
            looks += 1;
            let has_news = self.local.has_news(&self.machine);
            let any = poll_now(&mut descriptors, Some(&Timespec::default()))?;
            let elapsed = begin.elapsed();
            let is_new = any || has_news;
            if is_new || due.is_some_and(|due| elapsed >= due) {
                let (by_marks, is_quick) = (has_news && !any, is_new && looks <= patience::LOOKS);
                let reported = self.reported(false, &descriptors);
                return Ok(Some(Reported { by_marks, is_quick, ..reported }));
            }
            if patience::is_over(looks, elapsed) {
                return Ok(None);
            }
        }
    }

    /// Sleeps until an event or the next deadline.
    fn sleep(&self) -> Result<Reported, RunError> {
        let left = self.deadline().map(|at| at.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let mut descriptors = self.descriptors(true);
        poll_now(&mut descriptors, left.as_ref())?;
        Ok(self.reported(true, &descriptors))
    }

    /// All descriptors of a poll, in the order of [`Life::reported`].
    fn descriptors(&self, all: bool) -> Vec<PollFd<'_>> {
        let network = self.network.descriptors().map(|(descriptor, writes)| {
            let out = if writes { PollFlags::OUT } else { PollFlags::empty() };
            PollFd::from_borrowed_fd(descriptor, PollFlags::IN | out)
        });
        let status = self.status.iter().map(|it| it.as_fd());
        let status = status.chain(self.interrupt.iter().map(|it| it.as_fd()));
        let status = status.chain(self.renewal.iter().flat_map(|it| it.descriptors()));
        let feed = self.config.feed.iter().filter_map(|feed| feed.descriptor());
        let others = status.chain(self.local.descriptors(all)).chain(feed);
        network.chain(others.map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN))).collect()
    }

    /// What these descriptors have reported.
    fn reported(&self, all: bool, descriptors: &[PollFd<'_>]) -> Reported {
        let mut reports = descriptors.iter().map(|it| !it.revents().is_empty());
        let wires = reports.by_ref().take(self.network.wires());
        let wires = wires.fold(false, |any, reports| any | reports);
        let listener = self.network.accepts() && reports.next() == Some(true);
        let status = self.status.is_some() && reports.next() == Some(true);
        let interrupt = self.interrupt.is_some() && reports.next() == Some(true);
        let renewal = self.renewal.map_or(0, |it| it.descriptors().count());
        let renewal = reports.by_ref().take(renewal).fold(false, |any, reports| any | reports);
        let daemon = reports.next() == Some(true);
        let rung = self.local.rung(all, reports);
        let network = NetworkReport { wires, listener };
        let (by_marks, is_quick) = (false, false);
        Reported { network, status, interrupt, renewal, daemon, rung, by_marks, is_quick }
    }

    /// Takes what the program of the registry has written.
    fn follow_registry(&mut self) -> Result<(), NodeError> {
        let config = self.config;
        let Some(feed) = &config.feed else { return Ok(()) };
        for event in feed.events() {
            match event {
                FeedEvent::Note(note) => say!("the registry", "registry: {note}"),
                FeedEvent::Ended => m3ipc_sys::report!(
                    "m3-proxy: the program of the registry has ended: no slots are claimed until \
                     this proxy starts again; calls go on"
                ),
                FeedEvent::Registry(registry) => self.change_registry(feed, &registry)?,
            }
        }
        Ok(())
    }

    /// Puts a later registry in force, if it only gives more slots to nodes.
    fn change_registry(&mut self, feed: &Feed, new: &Registry) -> Result<(), NodeError> {
        let config = self.config;
        let is_same = new.cluster == config.registry.cluster && new.nodes == config.registry.nodes;
        if !is_same || !new.owners.extends(&feed.owners()) {
            m3ipc_sys::report!(
                "m3-proxy: the registry has other nodes, or slots of another node; start all \
                 proxies again to put it in force"
            );
            return Ok(());
        }
        let owners = new.owners.clone().growing();
        match self.local.set_owners(owners.clone(), config.slots_in(&owners)) {
            Ok(()) => {
                feed.accept(new);
                self.machine.set_owners(owners);
                let own = new.owners.of_node(config.own.id).count();
                m3ipc_sys::report!(
                    "m3-proxy: claimed slots are in force; this node has {own} ranges"
                );
            }
            Err(refused) if [Code::SlotUsed, Code::BadValue].contains(&refused.code()) => {
                m3ipc_sys::report!("m3-proxy: the new registry is not in force: {refused}");
            }
            Err(gone) => return Err(gone),
        }
        Ok(())
    }

    /// Carries out what the machine has decided.
    fn act(&mut self) -> Result<(), NodeError> {
        while let Some(action) = self.machine.poll_action() {
            self.carry_out(action)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, action: Action) -> Result<(), NodeError> {
        let Self { machine, clock, local, .. } = self;
        let Some(action) = local.carry_out_copy(action, machine, clock) else { return Ok(()) };
        match action {
            Action::Ended { call, outcome } => local.ended(call, outcome, machine),
            Action::RequestTaken { call } => local.request_taken(call),
            Action::Deliver { delivery, from, to, kind, content } => {
                let parcel = Parcel { number: delivery, from, to, kind, content };
                local.deliver(parcel, machine, clock);
            }
            Action::Withdraw { delivery } => local.withdraw(delivery, machine, clock),
            Action::Abandon { delivery } => local.abandon(delivery),
            Action::Notify { from, to, argument } => local.notify(from, to, argument),
            Action::Bound { endpoint } => local.remote_bound(endpoint, machine, clock),
            Action::Named { endpoint, name } => local.remote_named(endpoint, name),
            Action::Died { endpoint } => local.remote_died(endpoint, machine, clock),
            Action::Room { node, vm } => local.room(node, vm, machine, clock),
            Action::NodeUp { node, incarnation } => {
                let name = self.name_of(node);
                self.network.session_begun(node);
                self.links.up(node, incarnation);
                say!(&name, "node {name} can be reached");
                self.local.node_up(&name)?;
            }
            Action::NodeLost { node, cause } => {
                let name = self.name_of(node);
                say!(&name, "node {name} cannot be reached any more ({cause:?})");
                self.links.lost(node);
                let Self { machine, clock, local, .. } = self;
                local.node_lost((node, &name), cause, machine, clock)?;
            }
            Action::CopyBegin { .. }
            | Action::CopyBytes { .. }
            | Action::CopyRoom { .. }
            | Action::CopyEnded { .. }
            | Action::CopyAbandon { .. } => {}
            Action::Moved { endpoint } => local.remote_moved(endpoint),
            Action::Placed { .. } | Action::PlaceFree { .. } | Action::GiveBack { .. } => {
                self.act_on_place(&action)?;
            }
            Action::Close { connection, .. } => {
                self.network.close(connection, &self.machine, Instant::now());
            }
            Action::Refused { node, by_peer, why, .. } => {
                let name = self.name_of(node);
                let who = if by_peer { "refuses this node" } else { "is refused" };
                say!(&name, "node {name} {who}: {}", explain(why));
                self.links.refused(node, format!("it {who}: {}", explain(why)));
            }
        }
        Ok(())
    }

    fn name_of(&self, node: NodeId) -> String {
        let entry = self.config.registry.nodes.iter().find(|entry| entry.id == node);
        entry.map_or_else(|| node.0.to_string(), |entry| entry.name.clone())
    }
}

/// A poll; whether any descriptor has reported something.
fn poll_now(descriptors: &mut [PollFd<'_>], limit: Option<&Timespec>) -> Result<bool, RunError> {
    match poll(descriptors, limit) {
        Ok(found) => Ok(found > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(errno) => Err(RunError::Poll(errno)),
    }
}

/// What to do about a refused connection.
fn explain(why: m3ipc_fabric::RefusalCode) -> &'static str {
    use m3ipc_fabric::RefusalCode;
    match why {
        RefusalCode::Version => "the proxies are of different releases; install one release",
        RefusalCode::Identity => "the cluster or the node differs; give all nodes one registry",
        RefusalCode::Claims => "the ranges of slots differ; give all nodes one registry",
        RefusalCode::Stale => {
            "a later life of it is known: its file NODE.lives was lost or is an old copy; remove \
             the file, set the clock, and start that proxy again"
        }
        RefusalCode::SecondIncarnation => "a second proxy has this node's name; end one of them",
        RefusalCode::Broke => "it broke the rules of the protocol; install one release",
    }
}
