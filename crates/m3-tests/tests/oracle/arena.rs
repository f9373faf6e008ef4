//! The model and real endpoints side by side, step by step.
//!
//! A step is over when all calls that the model ends have ended, and every
//! other call sleeps: `/proc/self/task/TID/syscall` shows the sleep of a
//! blocked call (futex_waitv), and "running" for whoever was just woken.
//!
//! Tolerance, and all of it:
//! - The time limit of a bounded call passes in the very next step, or never
//!   (a minute). A real limit of 2 ms is given to calls that nothing else happens to.
//! - A call that would not wait gives a sleeping peer 10 ms to wake, and a
//!   limit that must leave time for a rendezvous is 20 ms. Where such a step took
//!   longer than 8 ms and differs, the machine stalled: the sequence is thrown
//!   away, counted, and another takes its place.
//! - A request that was itself the answer to a request of its server cannot be
//!   relayed (-324; the model allows it): such a relay is left out.
//! - A relay that would close a circle is refused by the model (-101); real
//!   ones go through, and the client gets the -101. Such a relay is left out.
//! - The code of a sendrec that ended by time or signal does not tell whether
//!   the request was taken; what its server gets does.

use super::plan::{SLOTS, Step};
use super::worker::{Order, Told, Worker};
use m3_model::rendezvous::{Call, Completion, Fault, Limit, Machine, Op, State};
use m3_abi::VmLimits;
use m3_tests::{Field, signals};
use m3ipc::{Address, Code, Endpoint, EndpointInfo, Node, Slot, Timeout, Vm, VmConfig};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

const LIMITS: VmLimits = VmLimits { procs: 64, tasks: 4 };
/// The slot of the process, for its threads to be bound.
const ANCHOR: Slot = 60;
const SHORT: Duration = Duration::from_millis(2);
const ROOMY: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(60);
const UNBIND: Duration = Duration::from_secs(60);
const STALL: Duration = Duration::from_millis(8);
/// How long everybody must sleep until what should have ended is called missing.
const MISSING: Duration = Duration::from_millis(1_500);
const RESTLESS: Duration = Duration::from_secs(120);

/// Why a sequence ended early.
#[derive(Debug)]
pub enum Trouble {
    /// Model and endpoints differ.
    Differs(String),
    /// The machine was too slow for a call that would not wait.
    Stalled,
}

pub struct Arena {
    machine: Machine,
    workers: BTreeMap<Slot, Worker>,
    reports: Receiver<(Slot, Told)>,
    /// In a call whose code tells what became of its message: send, reply.
    telling: BTreeSet<Slot>,
    /// Whose request was the answer to its server's own.
    crossed: BTreeSet<Slot>,
    _anchor: Endpoint,
    node: Node,
    vm: Vm,
    /// Dropped last.
    _field: Field,
}

impl Arena {
    pub fn new(fault: Fault) -> Self {
        signals::handle();
        let field = Field::new("oracle");
        let mut node = field.node();
        let config = VmConfig::new("oracle").procs(LIMITS.procs).tasks(LIMITS.tasks);
        let vm = node.vm_init(&config).expect("a fresh VM");
        let anchor = vm.bind(ANCHOR).expect("a free slot");
        let (tell, reports) = channel();
        let start = |slot: Slot| (slot, Worker::start(vm.clone(), slot, tell.clone()));
        let workers = SLOTS.into_iter().map(start).collect();
        let machine = Machine::with_fault(LIMITS, fault);
        Self { machine, workers, reports, telling: BTreeSet::new(), crossed: BTreeSet::new(), _anchor: anchor, node, vm, _field: field }
    }

    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// All endpoints of a sequence leave, whatever they do: compared like any step.
    pub fn clear(&mut self) -> Result<(), Trouble> {
        for slot in SLOTS {
            let op = match self.machine.state(slot) {
                None => continue,
                Some(State::Running) => Op::Kill(slot),
                Some(_) => Op::Unbind(slot),
            };
            self.step(Step { op, expires: false })?;
        }
        Ok(())
    }

    /// Does one step on both sides and compares.
    pub fn step(&mut self, step: Step) -> Result<(), Trouble> {
        if let Op::Call { who, call, .. } = step.op {
            if self.is_left_out(who, call, step.op) {
                return Ok(());
            }
            self.note_crossing(who, call);
        }
        let began = Instant::now();
        let victim = match step.op {
            Op::Unbind(slot) => self.machine.address(slot),
            _ => None,
        };
        let mut expected = self.machine.step(step.op);
        let mut hasty = false;
        match step.op {
            Op::Bind(slot) => self.order(slot, Order::Bind),
            Op::Kill(slot) => self.order(slot, Order::Leave),
            Op::Unbind(_) => {
                let address = victim.expect("only the living are unbound");
                let unbound = self.node.unbind_timeout(self.vm.id(), address, UNBIND.into());
                unbound.map_err(|error| Trouble::Differs(format!("unbind: {error}")))?;
            }
            Op::Signal(_) | Op::Expire(_) => {}
            Op::Call { who, call, limit } => {
                let blocked = self.machine.state(who).is_some_and(|state| state != State::Running);
                let limit = match limit {
                    Limit::NoWait => {
                        hasty = true;
                        Timeout::Now
                    }
                    Limit::Bounded if step.expires && blocked => {
                        hasty = !expected.is_empty();
                        let limit = if hasty { ROOMY } else { SHORT };
                        expected.extend(self.machine.step(Op::Expire(who)));
                        limit.into()
                    }
                    Limit::Bounded => LONG.into(),
                    Limit::Forever => Timeout::Never,
                };
                hasty |= matches!(call, Call::Reply { .. });
                match call {
                    Call::Send { .. } | Call::Reply { .. } => self.telling.insert(who),
                    _ => self.telling.remove(&who),
                };
                self.order(who, Order::Call(call, limit));
            }
        }
        let compared = self.compare(step.op, expected);
        let slow = hasty && began.elapsed() > STALL;
        match compared {
            Err(_) if slow => Err(Trouble::Stalled),
            Err(difference) => Err(Trouble::Differs(difference)),
            Ok(()) => Ok(()),
        }
    }

    fn is_left_out(&self, who: Slot, call: Call, op: Op) -> bool {
        let Call::Relay { client, .. } = call else { return false };
        let closes_circle = || {
            let ended = self.machine.clone().step(op);
            ended.iter().any(|completion| completion.who == who && completion.result == Err(Code::Locked))
        };
        self.crossed.contains(&client.slot()) || closes_circle()
    }

    /// To be noted before the step.
    fn note_crossing(&mut self, who: Slot, call: Call) {
        self.crossed.remove(&who);
        if let Call::Sendrec { dst, .. } = call
            && let Some(State::Awaiting { dst: server, .. }) = self.machine.state(dst.slot())
            && server.slot() == who
        {
            self.crossed.insert(who);
        }
    }

    fn order(&self, slot: Slot, order: Order) {
        self.workers[&slot].orders.send(order).expect("workers end last");
    }

    fn compare(&mut self, op: Op, expected: Vec<Completion>) -> Result<(), String> {
        let mut missing: BTreeMap<Slot, Completion> =
            expected.into_iter().map(|completion| (completion.who, self.told_of(completion))).collect();
        let mut bare = matches!(op, Op::Bind(_) | Op::Kill(_));
        let mut asleep_since = None;
        let began = Instant::now();
        loop {
            if let Op::Signal(slot) = op
                && !missing.is_empty()
            {
                signals::send(m3_sys::process_id(), self.workers[&slot].tid);
            }
            let done = missing.is_empty() && !bare;
            let patience = if done { Duration::ZERO } else { Duration::from_millis(3) };
            match self.reports.recv_timeout(patience) {
                Ok((slot, Told::Ended(completion))) => {
                    match missing.remove(&slot) {
                        Some(wanted) if wanted == completion => {}
                        wanted => return Err(format!("the model says {wanted:?}, but {completion:?}")),
                    }
                }
                Ok((slot, Told::Bound(address))) => {
                    let wanted = self.machine.address(slot);
                    if address.ok() != wanted {
                        return Err(format!("the model binds {wanted:?}, but {address:?}"));
                    }
                    bare = false;
                }
                Ok((_, Told::Left)) => bare = false,
                Err(RecvTimeoutError::Disconnected) => return Err("the workers are gone".into()),
                Err(RecvTimeoutError::Timeout) => {
                    let at_rest = !bare && self.at_rest(&missing);
                    if done && at_rest {
                        return Ok(());
                    }
                    asleep_since = if at_rest { asleep_since.or_else(|| Some(Instant::now())) } else { None };
                    if asleep_since.is_some_and(|since| since.elapsed() > MISSING) {
                        let seen = self.seen_by_daemon();
                        return Err(format!("all sleep, but the model ends {missing:?}\n{seen}"));
                    }
                    if began.elapsed() > RESTLESS {
                        return Err(format!("no rest; the model ends {missing:?}"));
                    }
                    std::thread::yield_now();
                }
            }
        }
    }

    /// Who waits for whom, for the report.
    fn seen_by_daemon(&mut self) -> String {
        let endpoints = self.node.endpoints(self.vm.id()).unwrap_or_default();
        let line = |found: &EndpointInfo| {
            let (address, wait) = (Address(found.address), &found.wait);
            let (peer, ms) = (Address(wait.peer), wait.for_ns / 1_000_000);
            format!("  {address:?}: {} {peer:?} since {ms} ms, connected {}\n", wait.verb, found.connected)
        };
        endpoints.iter().map(line).collect()
    }

    /// What can be seen of an end that the model tells.
    fn told_of(&self, completion: Completion) -> Completion {
        let fate = completion.fate.filter(|_| self.telling.contains(&completion.who));
        Completion { fate, ..completion }
    }

    /// Whether all who are in a call sleep in it, those whose call should have ended included.
    fn at_rest(&self, missing: &BTreeMap<Slot, Completion>) -> bool {
        self.workers.iter().all(|(slot, worker)| match self.machine.state(*slot) {
            None | Some(State::Running) if !missing.contains_key(slot) => true,
            _ => sleeps_in_call(worker.tid),
        })
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // Ends whatever calls are still open; the process that asks is not signalled.
        let _ = self.node.vm_end(self.vm.id());
        let threads: Vec<_> =
            std::mem::take(&mut self.workers).into_values().map(|worker| worker.thread).collect();
        // One whose call never ends is left behind: the difference was told already.
        let began = Instant::now();
        while !threads.iter().all(std::thread::JoinHandle::is_finished) && began.elapsed() < STALL {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn sleeps_in_call(tid: i32) -> bool {
    const FUTEX_WAITV: &str = "449 ";
    let call = std::fs::read_to_string(format!("/proc/self/task/{tid}/syscall"));
    call.is_ok_and(|call| call.starts_with(FUTEX_WAITV))
}
