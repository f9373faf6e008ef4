//! The event loop: signals, endpoints and time on one side, the fleet on the other.
//!
//! The loop never waits for a service. A request to the node daemon may take as long as the daemon
//! does, 5 seconds at most.

mod held_names;
mod node;
mod reserved_names;

use crate::config;
use crate::fleet::{Changes, Fleet, Member, Order};
use crate::log::{say, say_for};
use crate::policy::{Action, Event, Exit, Ns, State};
use crate::processes::{Ended, Place, Processes};
use crate::requests::{Answer, Request, ServiceInfo};
use crate::spec::{Config, ReadyBy, Spec};
use crate::systemd::Manager;
use held_names::HeldNames;
use m3ipc::{Address, Call, Endpoint, Identity, ReceiveError, Source, Timeout};
use m3ipc_sys::{Capability, Signal, SignalSet, monotonic_ns};
use node::NodeSession;
use reserved_names::ReservedNames;
use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// The signals that the loop takes.
const SIGNALS: [Signal; 4] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::CHILD];
/// The longest request that a client may send.
const REQUEST_MAX_BYTES: usize = 4096;
/// The pause between two looks for the names of starting services: at first, and at most.
const LOOK_NS: Ns = 2_000_000;
const LOOK_MAX_NS: Ns = 100_000_000;
/// The most messages of one round: a flood of them must not hold up signals, pings and restarts.
const MESSAGES_PER_ROUND: u32 = 32;

/// Whether messages may wait after a round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inbox {
    Empty,
    MayHoldMore,
}

/// A running supervisor.
pub struct Supervisor {
    path: PathBuf,
    config: Config,
    fleet: Fleet,
    processes: Processes,
    node: NodeSession,
    own: Endpoint,
    held: HeldNames,
    reserved: ReservedNames,
    signals: SignalSet,
    manager: Manager,
    /// When to look for the endpoints of starting services.
    look_ns: Option<Ns>,
    is_ending: bool,
    was_up: bool,
}

impl Supervisor {
    /// Joins the VM of a file. Blocks the signals that it takes from now on.
    ///
    /// # Errors
    /// What failed, and what to do.
    pub fn open(path: &Path, config: Config, directory: Option<PathBuf>) -> Result<Self, String> {
        m3ipc_sys::notice_children();
        let signals = SignalSet::block(&SIGNALS).map_err(|errno| format!("signals: {errno}"))?;
        // Process 1 is the parent of orphans by itself.
        m3ipc_sys::adopt_orphans().map_err(|errno| format!("orphans: {errno}"))?;
        let node = NodeSession::open(&config, directory)?;
        let mut own = node.bind(&config)?;
        own.set_receive_limit(REQUEST_MAX_BYTES);
        own.fd().map_err(|error| error.to_string())?;
        Ok(Self {
            path: path.to_owned(),
            config,
            fleet: Fleet::default(),
            processes: Processes::default(),
            node,
            own,
            held: HeldNames::default(),
            reserved: ReservedNames::default(),
            signals,
            manager: Manager::from_variables(),
            look_ns: None,
            is_ending: false,
            was_up: false,
        })
    }

    /// Runs until SIGTERM, SIGINT or the end of the VM.
    ///
    /// # Errors
    /// The end of the VM. The services have ended.
    pub fn run(mut self) -> Result<(), String> {
        let (_, orders) = self.fleet.load(self.config.services.clone(), monotonic_ns());
        self.obey(orders);
        let mut ended = Ok(());
        loop {
            self.take_signals();
            self.reap();
            let inbox = self.serve().unwrap_or_else(|why| {
                if !self.is_ending {
                    say(&format!("{why}; the services end"));
                    ended = Err(why);
                    self.end();
                }
                Inbox::Empty
            });
            self.look();
            self.check_names();
            // The next steps may wait for the daemon. A ping that becomes late meanwhile counts in
            // the next round, which looks first whether it was taken.
            let looked_ns = monotonic_ns();
            self.check_pings();
            self.release_names();
            self.check_late_pings(looked_ns);
            let orders = self.fleet.tick(looked_ns, monotonic_ns());
            self.obey(orders);
            if self.is_ending && self.fleet.is_at_rest() {
                return ended;
            }
            self.tell_manager();
            self.wait(inbox);
        }
    }

    /// Takes orders, and those that follow from them.
    fn obey(&mut self, orders: Vec<Order>) {
        let mut orders = VecDeque::from(orders);
        while let Some((name, action)) = orders.pop_front() {
            orders.extend(self.take(&name, action));
        }
    }

    fn take(&mut self, name: &str, action: Action) -> Vec<Order> {
        match action {
            Action::Spawn => return self.spawn(name),
            Action::Terminate => {
                // A stopped group would not notice the request.
                self.processes.signal(name, Signal::TERM);
                self.processes.signal(name, Signal::CONT);
            }
            Action::Kill => self.processes.signal(name, Signal::KILL),
            Action::Ping | Action::Inform(_) => return self.notify(name),
            Action::HoldName => {
                if let Err(why) = self.hold(name) {
                    say(&format!("{name}: its name is not held: {why}"));
                }
            }
            Action::FreeName => self.held.free(name),
            Action::BecameReady => {}
            Action::Log(line) => say(&format!("{name}: {line}")),
        }
        Vec::new()
    }

    fn spawn(&mut self, name: &str) -> Vec<Order> {
        let Some(member) = self.fleet.get(name) else { return Vec::new() };
        let program = &member.spec.program;
        let name_key = self.reserved.key(name, &member.spec.program.name, &mut self.own);
        let place = Place {
            directory: self.node.directory(),
            vm: (self.node.vm().id(), self.node.vm().name()),
            supervisor: self.own.address(),
            name_key,
        };
        let is_ready = program.ready == ReadyBy::Start;
        let event = match self.processes.start(name, program, &place) {
            Ok(()) if is_ready => Event::Bound,
            Ok(()) => Event::Spawned,
            Err(why) => Event::NotSpawned(why),
        };
        let now_ns = monotonic_ns();
        self.look_ns = Some(now_ns.saturating_add(LOOK_NS));
        self.fleet.on(name, event, now_ns)
    }

    fn hold(&mut self, name: &str) -> Result<(), String> {
        let Some(member) = self.fleet.get(name) else { return Ok(()) };
        let named = &member.spec.program.name;
        self.reserved.key(name, named, &mut self.own);
        self.held.hold(name, named, self.node.vm())
    }

    /// Notifies a service. The notification that it takes is the answer to a ping.
    fn notify(&mut self, name: &str) -> Vec<Order> {
        let Some(address) = self.address(name) else { return Vec::new() };
        let Err(error) = self.own.notify(address) else { return Vec::new() };
        let orders = self.look_again(name);
        match self.address(name).filter(|found| *found != address) {
            Some(found) => {
                if let Err(error) = self.own.notify(found) {
                    say(&format!("{name}: not notified: {error}"));
                }
            }
            // A dead service is reaped next.
            None if orders.is_empty() => say(&format!("{name}: not notified: {error}")),
            None => {}
        }
        orders
    }

    fn address(&self, name: &str) -> Option<Address> {
        self.processes.get(name).and_then(|process| process.address)
    }

    /// Looks a service up again whose endpoint may have ended: it may have replaced itself by exec,
    /// or bound its name again.
    fn look_again(&mut self, name: &str) -> Vec<Order> {
        let Some(process) = self.processes.get(name) else { return Vec::new() };
        let Some(member) = self.fleet.get(name) else { return Vec::new() };
        let program = member.spec.program.clone();
        let Ok(endpoints) = self.node.endpoints() else { return Vec::new() };
        let found = node::endpoint_of(&program, process.pid, &endpoints);
        if process.address.is_none() || found == process.address {
            return Vec::new();
        }
        self.processes.set_address(name, found);
        let now_ns = monotonic_ns();
        if found.is_some() {
            return Vec::new();
        }
        self.look_ns = Some(now_ns.saturating_add(LOOK_NS));
        self.fleet.on(name, Event::Lost, now_ns)
    }

    /// Before a ping counts as lost: a service with another endpoint has not got it.
    fn check_late_pings(&mut self, looked_ns: Ns) {
        let late = self.fleet.members().iter().filter(|(_, it)| it.machine.is_ping_late(looked_ns));
        let late: Vec<String> = late.map(|(name, _)| name.clone()).collect();
        for name in late {
            let before = self.address(&name);
            let mut orders = self.look_again(&name);
            if orders.is_empty() && self.address(&name) != before {
                orders = self.fleet.on(&name, Event::PingTaken, monotonic_ns());
            }
            self.obey(orders);
        }
    }

    fn take_signals(&mut self) {
        while let Ok(Some(number)) = self.signals.take() {
            if number == Signal::HUP.as_raw() {
                let _ = self.reload();
            } else if number == Signal::TERM.as_raw() || number == Signal::INT.as_raw() {
                if self.is_ending {
                    say("a second request to end: SIGKILL for all");
                    let names: Vec<String> = self.fleet.members().keys().cloned().collect();
                    names.iter().for_each(|name| self.processes.signal(name, Signal::KILL));
                } else {
                    say("the services end");
                    self.end();
                }
            }
        }
    }

    fn end(&mut self) {
        self.is_ending = true;
        self.manager.stopping();
        let orders = self.fleet.unwant_all(monotonic_ns());
        self.obey(orders);
    }

    fn reap(&mut self) {
        for Ended { service: name, mut exit, behind, left } in self.processes.reap() {
            let state = self.fleet.get(&name).map(|member| member.machine.state());
            match behind {
                Some(pid) if exit == Exit::Code(0) && state == Some(State::Starting) => {
                    exit = Exit::ForkedAway(pid);
                }
                _ if left.is_empty() => {}
                _ => say(&format!(
                    "{name}: SIGKILL for its processes {left:?}, which had left its process group"
                )),
            }
            let orders = self.fleet.on(&name, Event::Exited(exit), monotonic_ns());
            self.obey(orders);
        }
    }

    /// Reads the file again. An error leaves everything as it is.
    fn reload(&mut self) -> Result<Changes, String> {
        // A manager that waits for READY hears it when all services are up.
        if self.was_up {
            self.manager.reloading(monotonic_ns());
        }
        let read = config::read(&self.path).map_err(|error| error.to_string());
        let config = read.and_then(|new| {
            let same = (&new.vm, new.slot, &new.name, new.vm_ends_with_supervisor)
                == (
                    &self.config.vm,
                    self.config.slot,
                    &self.config.name,
                    self.config.vm_ends_with_supervisor,
                );
            let why = "vm, vm-life and [supervisor] cannot change while it runs; restart it";
            if same && !self.is_ending { Ok(new) } else { Err(why.to_owned()) }
        });
        let reloaded = config.map(|config| {
            self.config = config;
            let services = self.config.services.clone();
            let (changes, orders) = self.fleet.load(services, monotonic_ns());
            self.obey(orders);
            changes
        });
        match &reloaded {
            Ok(changes) => say(&format!("reloaded: {}", text_of(changes))),
            Err(why) => say(&format!("not reloaded: {why}")),
        }
        if self.was_up {
            self.manager.ready();
        }
        reloaded
    }

    /// Answers the requests that wait, up to a bound.
    fn serve(&mut self) -> Result<Inbox, String> {
        for _ in 0..MESSAGES_PER_ROUND {
            match self.own.receive_bytes(Source::Any, Timeout::NoWait) {
                Ok((received, bytes)) => {
                    if !received.is_request {
                        continue;
                    }
                    let bytes = Call::bytes_of(&received.message, &bytes).to_vec();
                    let client = self.own.latest_peer();
                    let answer = self.answer(client, &bytes);
                    let answer = serde_json::to_vec(&answer).unwrap_or_default();
                    // A client that gave up needs no answer.
                    let _ = self.own.answer_call(&received.message, &answer);
                }
                Err(ReceiveError::WouldBlock(_)) => return Ok(Inbox::Empty),
                Err(_) if !self.own.is_bound() => return Err("the VM has ended".to_owned()),
                // One message failed, the next one may not.
                Err(ReceiveError::Interrupted(_) | ReceiveError::Woken(_)) => {}
                Err(error) => {
                    let uid = self.own.latest_peer().map_or(u32::MAX, |client| client.uid);
                    say_for(uid, &format!("a request is lost: {error}"));
                    return Ok(Inbox::Empty);
                }
            }
        }
        Ok(Inbox::MayHoldMore)
    }

    fn answer(&mut self, client: Option<Identity>, bytes: &[u8]) -> Answer {
        let request = match serde_json::from_slice(bytes) {
            Ok(request) => request,
            Err(error) => return Answer::Refused(format!("no request of this version: {error}")),
        };
        let is_list = matches!(request, Request::List);
        if !is_list && !client.is_some_and(may_change) {
            let why = "only the supervisor's user and a process with CAP_KILL in its user and PID \
                       namespace may do that";
            return Answer::Refused(why.to_owned());
        }
        let now_ns = monotonic_ns();
        let (name, orders) = match request {
            Request::List => return Answer::Services(self.list(now_ns)),
            Request::Reload => {
                return match self.reload() {
                    Ok(changes) => Answer::Done(text_of(&changes)),
                    Err(why) => Answer::Refused(why),
                };
            }
            _ if self.is_ending => return Answer::Refused("the supervisor ends".to_owned()),
            Request::Start(name) | Request::Stop(name) | Request::Restart(name)
                if self.fleet.get(&name).is_none() =>
            {
                return Answer::Refused(format!("there is no service {name:?}"));
            }
            Request::Start(name) => {
                let orders = self.fleet.want(&name, now_ns);
                (name, orders)
            }
            Request::Stop(name) => {
                let orders = self.fleet.unwant(&name, now_ns);
                (name, orders)
            }
            Request::Restart(name) => {
                let orders = self.fleet.restart(&name, now_ns);
                (name, orders)
            }
        };
        self.obey(orders);
        let state = self.fleet.get(&name).map(|member| member.machine.state());
        Answer::Done(format!("{name} is {}", state.unwrap_or(State::Stopped)))
    }

    fn list(&self, now_ns: Ns) -> Vec<ServiceInfo> {
        let info = |(name, member): (&String, &crate::fleet::Member)| {
            let process = self.processes.get(name);
            let machine = &member.machine;
            ServiceInfo {
                service: name.clone(),
                state: machine.state(),
                for_ms: now_ns.saturating_sub(machine.since_ns()) / 1_000_000,
                pid: process.map(|process| process.pid),
                address: process.and_then(|process| process.address).map(|address| address.0),
                restarts: machine.restarts(),
                reason: machine.reason().map(str::to_owned),
                needs: member.spec.needs.clone(),
            }
        };
        self.fleet.members().iter().map(info).collect()
    }

    /// Looks for the endpoints of starting services.
    fn look(&mut self) {
        let now_ns = monotonic_ns();
        if self.look_ns.is_none_or(|at_ns| now_ns < at_ns) {
            return;
        }
        let starting: Vec<(String, Spec, i32, Ns)> = self
            .fleet
            .members()
            .iter()
            .filter(|(_, member)| member.machine.state() == State::Starting)
            .filter_map(|(name, member)| {
                let pid = self.processes.get(name)?.pid;
                Some((name.clone(), member.spec.clone(), pid, member.machine.since_ns()))
            })
            .collect();
        let Some(youngest_ns) = starting.iter().map(|(.., since_ns)| *since_ns).max() else {
            self.look_ns = None;
            return;
        };
        let pause_ns = (now_ns.saturating_sub(youngest_ns) / 8).clamp(LOOK_NS, LOOK_MAX_NS);
        self.look_ns = Some(now_ns.saturating_add(pause_ns));
        let endpoints = match self.node.endpoints() {
            Ok(endpoints) => endpoints,
            Err(why) => return say(&format!("the endpoints of the VM are unknown: {why}")),
        };
        for (name, spec, pid, _) in starting {
            if let Some(address) = node::endpoint_of(&spec.program, pid, &endpoints) {
                self.processes.set_address(&name, Some(address));
                let orders = self.fleet.on(&name, Event::Bound, monotonic_ns());
                self.obey(orders);
            }
        }
    }

    fn check_names(&mut self) {
        for name in self.held.requested(&mut self.node) {
            let orders = self.fleet.on(&name, Event::Requested, monotonic_ns());
            self.obey(orders);
        }
    }

    /// Ends the reservations of services that have ended.
    fn release_names(&mut self) {
        let Self { fleet, reserved, own, .. } = self;
        reserved.retain(|name| fleet.get(name).is_some_and(Member::keeps_name), own);
    }

    fn check_pings(&mut self) {
        let pinged = self.fleet.members().iter().filter(|(_, it)| it.machine.awaits_ping());
        let taken: Vec<String> = pinged
            .filter(|(name, _)| {
                let address = self.processes.get(name).and_then(|process| process.address);
                address.is_some_and(|address| self.own.is_notification_taken(address))
            })
            .map(|(name, _)| name.clone())
            .collect();
        for name in taken {
            let orders = self.fleet.on(&name, Event::PingTaken, monotonic_ns());
            self.obey(orders);
        }
    }

    fn tell_manager(&mut self) {
        if !self.was_up && self.fleet.is_up() {
            self.was_up = true;
            say("all services are up");
            self.manager.ready();
        }
        let count = |wanted: State| {
            self.fleet.members().values().filter(|it| it.machine.state() == wanted).count()
        };
        let (ready, all) = (count(State::Ready), self.fleet.members().len());
        self.manager
            .status(format!("{ready} of {all} services ready, {} failed", count(State::Failed)));
    }

    fn wait(&mut self, inbox: Inbox) {
        let now_ns = monotonic_ns();
        let watchdog_ns = self.manager.feed_watchdog(now_ns);
        let dues = [self.fleet.due_ns(), self.look_ns, watchdog_ns, self.held.due_ns(now_ns)];
        let due_ns = dues.into_iter().flatten().min();
        let limit_ns = match inbox {
            Inbox::MayHoldMore => 0,
            Inbox::Empty => due_ns.map_or(u64::MAX, |due_ns| due_ns.saturating_sub(now_ns)),
        };
        let mut fds = vec![self.signals.as_fd()];
        let Ok(own) = self.own.fd() else { return };
        fds.push(own);
        fds.extend(self.held.fds());
        // An interrupted wait is a wait that has ended.
        let _ = m3ipc_sys::wait_readable(&fds, limit_ns);
    }
}

/// Whether a client may start and end services.
fn may_change(client: Identity) -> bool {
    let own = m3ipc_sys::user_id();
    let set = || m3ipc_sys::process_capabilities(client.pid, client.uid);
    let has = |capability| set().is_ok_and(|set| set.has(capability));
    let is_users = client.uid == own && (own != 0 || has(Capability::SameNamespaces));
    is_users || has(Capability::Kill)
}

fn text_of(changes: &Changes) -> String {
    let parts = [
        ("new", &changes.added),
        ("gone", &changes.removed),
        ("restarted", &changes.restarted),
        ("adjusted", &changes.adjusted),
    ];
    let parts = parts.iter().filter(|(_, names)| !names.is_empty());
    let text: Vec<String> =
        parts.map(|(word, names)| format!("{word}: {}", names.join(", "))).collect();
    if text.is_empty() { "nothing has changed".to_owned() } else { text.join("; ") }
}
