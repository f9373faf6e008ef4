//! The model and real endpoints side by side, step by step.
//!
//! A step is over when all calls that the model ends have ended, and every other call sleeps:
//! `/proc/self/task/TID/syscall` shows the sleep of a blocked call (futex_waitv), and "running" for
//! a thread that was just woken.
//!
//! The tolerance, in full:
//! - The time limit of a bounded call passes in the very next step, or never (a minute). Calls that
//!   no other step ends have a real limit of 2 ms.
//! - A non-blocking call gives a sleeping peer 10 ms to wake, and a limit that must leave time for
//!   a rendezvous is 20 ms. If such a step took longer than 8 ms and differs, the machine may have
//!   stalled: the sequence is counted and played anew, and fails if each play ends so.
//! - A request that was itself the answer to a request of its server cannot be relayed (-324; the
//!   model allows it): such a relay is left out.
//! - The model refuses a relay that would close a circle (-101). A real one succeeds, and the
//!   client gets the -101. Such a relay is left out.
//! - The code of a sendrec that ended by time or signal does not show whether the request was
//!   taken. The message that its server gets shows it.

use super::plan::{SLOTS, Step, call_at};
use super::worker::{Order, Report, Worker};
use m3ipc::{Code, Endpoint, Node, Slot, Timeout, Vm, VmConfig};
use m3ipc_abi::VmLimits;
use m3ipc_model::rendezvous::{Call, Fault, Limit, Machine, Op, Source, State};
use m3ipc_test_fixture::{NodeFixture, signals};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const LIMITS: VmLimits = VmLimits { procs: 64, tasks: 4 };
/// The slot of the process, which must be bound before its threads.
const ANCHOR: Slot = 60;
const SHORT: Duration = Duration::from_millis(2);
const ROOMY: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(60);
const UNBIND: Duration = Duration::from_secs(60);
const STALL: Duration = Duration::from_millis(8);
/// How often a sequence may be played in which the machine seems to stall.
pub const PLAYS: usize = 5;
/// Pulses that an endpoint takes at the end of a sequence. Below the bound after which messages
/// pass notifications, together with those of a sequence.
const TAKES_AT_THE_END: usize = 16;

/// Why a sequence ended early.
#[derive(Debug)]
pub enum Trouble {
    /// Model and endpoints differ.
    Differs(String),
    /// Model and endpoints differ, and the machine may have been too slow for a non-blocking call.
    Stalled(String),
}

pub struct OracleFixture {
    pub machine: Machine,
    pub workers: BTreeMap<Slot, Worker>,
    pub reports: Receiver<(Slot, Report)>,
    /// In a call whose code shows the fate of its message: send, reply.
    pub telling: BTreeSet<Slot>,
    /// The slots whose request was the answer to a request of their server.
    crossed: BTreeSet<Slot>,
    _anchor: Endpoint,
    pub node: Node,
    pub vm: Vm,
    /// Dropped last.
    _field: NodeFixture,
}

impl OracleFixture {
    pub fn new(fault: Fault) -> Self {
        signals::handle();
        let fixture = NodeFixture::new("oracle");
        let mut node = fixture.node();
        let config = VmConfig::new("oracle").procs(LIMITS.procs).tasks(LIMITS.tasks);
        let vm = node.vm_init(&config).expect("a fresh VM");
        let anchor = vm.bind(ANCHOR).expect("a free slot");
        let (tell, reports) = channel();
        let start = |slot: Slot| (slot, Worker::start(vm.clone(), slot, tell.clone()));
        let workers = SLOTS.into_iter().map(start).collect();
        let machine = Machine::with_fault(LIMITS, fault);
        Self {
            machine,
            workers,
            reports,
            telling: BTreeSet::new(),
            crossed: BTreeSet::new(),
            _anchor: anchor,
            node,
            vm,
            _field: fixture,
        }
    }

    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// All endpoints of a sequence take their pulses, then leave in any state; compared like any
    /// step.
    pub fn clear(&mut self) -> Result<(), Trouble> {
        self.take_pulses()?;
        for slot in SLOTS {
            let op = match self.machine.state(slot) {
                None => continue,
                Some(State::Running) => Op::Kill(slot),
                Some(_) => Op::Unbind(slot),
            };
            self.step(Step::of(op))?;
        }
        Ok(())
    }

    /// Each running endpoint takes the pulses that wait: an accepted one is never lost. Only so
    /// many that no message passes them.
    fn take_pulses(&mut self) -> Result<(), Trouble> {
        for who in SLOTS {
            for _ in 0..TAKES_AT_THE_END {
                let is_free = self.machine.state(who) == Some(State::Running);
                if !is_free || self.machine.pending_pulses(who) == 0 {
                    break;
                }
                let call = Call::Receive { src: Source::Any };
                self.step(Step::of(Op::Call { who, call, limit: Limit::NoWait }))?;
            }
        }
        Ok(())
    }

    /// Takes one step on both sides and compares.
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
                let unbound = self.node.unbind_timeout(self.vm.id(), address, UNBIND);
                unbound.map_err(|error| Trouble::Differs(format!("unbind: {error}")))?;
            }
            Op::Signal(_) | Op::Expire(_) => {}
            Op::Call { who, call, limit } => {
                let blocked = self.machine.state(who).is_some_and(|state| state != State::Running);
                let limit = match limit {
                    Limit::NoWait => {
                        hasty = true;
                        Timeout::NoWait
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
                for place in 1..step.times {
                    // The report is that of the last call.
                    expected.retain(|completion| completion.who != who);
                    let Op::Call { limit, .. } = step.op else { continue };
                    let call = call_at(call, place);
                    expected.extend(self.machine.step(Op::Call { who, call, limit }));
                }
                self.order(who, Order::Call(call, limit, step.times));
            }
        }
        let compared = self.compare(step.op, expected);
        let slow = hasty && began.elapsed() > STALL;
        match compared {
            Err(difference) if slow => Err(Trouble::Stalled(difference)),
            Err(difference) => Err(Trouble::Differs(difference)),
            Ok(()) => Ok(()),
        }
    }

    fn is_left_out(&self, who: Slot, call: Call, op: Op) -> bool {
        let Call::Relay { client, .. } = call else { return false };
        let closes_circle = || {
            let ended = self.machine.clone().step(op);
            ended
                .iter()
                .any(|completion| completion.who == who && completion.result == Err(Code::Locked))
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
}

impl Drop for OracleFixture {
    fn drop(&mut self) {
        // Ends all open calls; this process gets no signal.
        let _ = self.node.vm_end(self.vm.id());
        let threads: Vec<_> =
            std::mem::take(&mut self.workers).into_values().map(|worker| worker.thread).collect();
        // A thread whose call never ends is left behind: the difference is reported already.
        let began = Instant::now();
        while !threads.iter().all(std::thread::JoinHandle::is_finished) && began.elapsed() < STALL {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
