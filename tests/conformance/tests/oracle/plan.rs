//! Steps before the state is known: numbers that shrink well, and get their meaning at their turn.

use m3ipc::{Address, Message, Slot};
use m3ipc_model::rendezvous::{Call, Limit, Machine, Op, PULSES_MAX, Source, State};
use proptest::prelude::*;

/// The slots of a sequence: two system slots, six of users.
pub const SLOTS: [Slot; 8] = [-2, 3, 29, 30, 31, 32, 33, 34];

/// A sequence: how many endpoints it has, and its steps.
#[derive(Clone, Debug)]
pub struct Sequence {
    pub endpoints: usize,
    pub plans: Vec<Plan>,
}

/// One step: indexes into [`SLOTS`], taken modulo the endpoints of the sequence.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    verb: u8,
    who: usize,
    peer: usize,
    third: usize,
    limit: u8,
    stale: bool,
}

/// A step with its meaning.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub op: Op,
    /// The time limit of the call passes next, if the call is blocked.
    pub expires: bool,
    /// How often the endpoint makes the call in a row.
    pub times: usize,
}

impl Step {
    /// A step that is no call.
    pub fn of(op: Op) -> Self {
        Self { op, expires: false, times: 1 }
    }
}

/// The call of a row at this place: each pulse has a value of its own.
pub fn call_at(call: Call, place: usize) -> Call {
    match call {
        Call::Pulse { dst, pulse: (code, value) } => {
            Call::Pulse { dst, pulse: (code, value + place as u64) }
        }
        other => other,
    }
}

pub fn sequence(steps_max: usize) -> impl Strategy<Value = Sequence> {
    (2..=SLOTS.len(), prop::collection::vec(plan(), 1..=steps_max))
        .prop_map(|(endpoints, plans)| Sequence { endpoints, plans })
}

fn plan() -> impl Strategy<Value = Plan> {
    let index = 0..SLOTS.len();
    let stale = prop::bool::weighted(0.03);
    (0_u8..29, index.clone(), index.clone(), index, 0_u8..8, stale).prop_map(
        |(verb, who, peer, third, limit, stale)| Plan { verb, who, peer, third, limit, stale },
    )
}

impl Plan {
    /// The meaning of this step for the endpoints as they are now. A blocked endpoint can only get
    /// a signal or be unbound; an unbound one can only be bound.
    pub fn step(self, machine: &Machine, endpoints: usize, number: i32) -> Option<Step> {
        // System slots and user slots take turns, so that few endpoints are not all of the system.
        let slot = |index: usize| SLOTS[(index % endpoints + 1) % SLOTS.len()];
        let who = slot(self.who);
        let op = match machine.state(who) {
            None => Op::Bind(who),
            Some(State::Running) if self.verb == 0 => Op::Kill(who),
            Some(State::Running) => return Some(self.call(machine, who, slot, number)),
            Some(_) if self.verb == 0 => Op::Unbind(who),
            Some(_) if self.verb == 1 => Op::Signal(who),
            Some(_) => return None,
        };
        Some(Step::of(op))
    }

    fn call(self, machine: &Machine, who: Slot, slot: impl Fn(usize) -> Slot, number: i32) -> Step {
        let address = |index: usize| {
            let latest = machine.latest(slot(index)).expect("each slot was bound at first");
            if self.stale { Address::new(latest.generation() - 1, latest.slot()) } else { latest }
        };
        let dst = address(self.peer);
        let mut message = Message::new(number % 7);
        message.set_word(0, number);
        let call = match self.verb {
            1..=5 => Call::Send { dst, message },
            6..=9 => Call::Sendrec { dst, message },
            10..=12 => Call::Receive { src: Source::Any },
            13..=14 => Call::Receive { src: Source::From(dst) },
            15 => Call::Rcvrqst,
            16..=18 => Call::Reply { dst: waiting_client(machine, who).unwrap_or(dst), message },
            19 => Call::Relay {
                client: waiting_client(machine, who).unwrap_or(dst),
                dst: address(self.third),
            },
            20..=22 => Call::Notify { dst },
            23 => Call::Wakeup { dst },
            24 => Call::AwaitUnbind { dst },
            verb => {
                // Numbers of their own in the sequence, with the codes in all bits.
                let value = u64::from(number.unsigned_abs()) << 8;
                Call::Pulse { dst, pulse: (verb ^ number.to_le_bytes()[0] << 3, value) }
            }
        };
        let (limit, expires) = match self.limit {
            0 => (Limit::NoWait, false),
            1 => (Limit::Bounded, true),
            2 => (Limit::Bounded, false),
            _ => (Limit::Forever, false),
        };
        let times = match self.verb {
            22 | 26 => 2,
            // The last one finds a full queue, if the receiver does not wait. A receiver that waits
            // takes the first one at any time.
            27 | 28 if machine.state(dst.slot()).is_some_and(is_receiving) => PULSES_MAX,
            27 => PULSES_MAX - 1,
            28 => PULSES_MAX + 1,
            _ => 1,
        };
        Step { op: Op::Call { who, call, limit }, expires, times }
    }
}

fn is_receiving(state: State) -> bool {
    matches!(state, State::Receiving { .. })
}

/// An endpoint that awaits the answer of `server`: most replies go to one.
fn waiting_client(machine: &Machine, server: Slot) -> Option<Address> {
    let server = machine.address(server)?;
    SLOTS.iter().find_map(|slot| match machine.state(*slot)? {
        State::Awaiting { dst, .. } if dst == server => machine.address(*slot),
        _ => None,
    })
}
