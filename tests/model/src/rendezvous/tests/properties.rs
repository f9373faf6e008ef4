//! Random sequences of steps against the ledger and the invariants, also with planted faults.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};

use super::ledger::Ledger;
use super::*;
use crate::rendezvous::Fault;

const SLOTS: [Slot; 6] = [-2, 3, 29, 30, 31, 32];

/// A step as indexes into [`SLOTS`]; [`resolve`] finds the addresses.
#[derive(Clone, Copy, Debug)]
struct Plan {
    verb: u8,
    who: usize,
    peer: usize,
    third: usize,
    limit: u8,
    stale: bool,
}

fn plan() -> impl Strategy<Value = Plan> {
    let index = 0..SLOTS.len();
    let stale = proptest::bool::weighted(0.05);
    (0_u8..36, index.clone(), index.clone(), index, 0_u8..4, stale).prop_map(
        |(verb, who, peer, third, limit, stale)| Plan { verb, who, peer, third, limit, stale },
    )
}

fn resolve(machine: &Machine, mut plan: Plan, number: i32) -> Op {
    if plan.verb > 27 {
        // Pulses of one pair, so that its queue gets full.
        (plan.who, plan.peer) = (4, 5);
    }
    let who = SLOTS[plan.who];
    let address = |index: usize| {
        let slot = SLOTS[index];
        let latest = machine.latest(slot).unwrap_or(Address::next_life(slot, None));
        if plan.stale { Address::new(latest.generation() - 1, slot) } else { latest }
    };
    let (dst, mut message) = (address(plan.peer), message(5));
    message.set_word(0, number);
    let call = match plan.verb {
        0 => return Op::Kill(who),
        1 => return Op::Unbind(who),
        2 | 3 => return Op::Expire(who),
        4 => return Op::Signal(who),
        5..=7 => return Op::Bind(who),
        8..=10 => Call::Send { dst, message },
        11..=13 => Call::Sendrec { dst, message },
        14..=15 => RECEIVE_ANY,
        16 => receive(dst),
        17 => Call::Rcvrqst,
        18..=19 => Call::Reply { dst, message },
        20 => Call::Relay { client: dst, dst: address(plan.third) },
        21 => Call::Notify { dst },
        22 => Call::Wakeup { dst },
        23 => Call::AwaitUnbind { dst },
        _ => Call::Pulse { dst, pulse: (plan.limit, number.unsigned_abs().into()) },
    };
    let limit =
        [Limit::NoWait, Limit::Bounded, Limit::Forever, Limit::Forever][usize::from(plan.limit)];
    Op::Call { who, call, limit }
}

fn run(fault: Fault, plans: &[Plan]) -> Result<(), String> {
    let mut machine = Machine::with_fault(LIMITS, fault);
    let mut ledger = Ledger::default();
    for slot in SLOTS {
        ledger.step(&mut machine, Op::Bind(slot))?;
    }
    for (number, plan) in (0..).zip(plans) {
        let op = resolve(&machine, *plan, number);
        ledger.step(&mut machine, op).map_err(|error| format!("{op:?}: {error}"))?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(Config { cases: 2_000, failure_persistence: None, ..Config::default() })]

    #[test]
    fn no_message_is_lost_duplicated_or_misreported(
        plans in prop::collection::vec(plan(), 1..120)
    ) {
        prop_assert_eq!(run(Fault::None, &plans), Ok(()));
    }

    #[test]
    fn the_same_steps_give_the_same_machine(plans in prop::collection::vec(plan(), 1..60)) {
        let (mut one, mut other) = (Machine::new(LIMITS), Machine::new(LIMITS));
        for (number, plan) in (0..).zip(&plans) {
            let op = resolve(&one, *plan, number);
            prop_assert_eq!(one.step(op), other.step(op));
        }
        prop_assert_eq!(one, other);
    }
}

#[test]
fn each_planted_fault_is_noticed() {
    let faults = [
        Fault::ReceiversForgotten,
        Fault::DeliveredTwice,
        Fault::WrongFate,
        Fault::CycleLetIn,
        Fault::GenerationKept,
        Fault::PulseLost,
        Fault::PulsesReversed,
        Fault::ErasedWithTheDead,
    ];
    for fault in faults {
        let config = Config { cases: 2_000, failure_persistence: None, ..Config::default() };
        let mut runner = TestRunner::new(config);
        let found = runner.run(&prop::collection::vec(plan(), 1..120), |plans| {
            run(fault, &plans).map_err(TestCaseError::fail)
        });
        assert!(matches!(found, Err(TestError::Fail(..))), "{fault:?} was not noticed");
    }
}
