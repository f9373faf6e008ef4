//! Each rule of the contract by itself.

mod deadlocks;
mod ledger;
// Safe code alone, and too many steps for an interpreter.
#[cfg(not(miri))]
mod properties;
mod verbs;

use m3ipc_abi::{Address, Code, Message, Slot, VmLimits};

use super::{Call, Completion, Fate, Limit, Machine, Op, Source};

const LIMITS: VmLimits = VmLimits { procs: 64, tasks: 4 };

/// A machine. Each step checks its invariants.
struct Fixture(Machine);

impl Fixture {
    fn of<const N: usize>(slots: [Slot; N]) -> (Self, [Address; N]) {
        let mut fixture = Self(Machine::new(LIMITS));
        let addresses = slots.map(|slot| fixture.bind(slot));
        (fixture, addresses)
    }

    fn bind(&mut self, slot: Slot) -> Address {
        self.step(Op::Bind(slot));
        self.0.address(slot).unwrap()
    }

    fn step(&mut self, op: Op) -> Vec<Completion> {
        let ended = self.0.step(op);
        assert_eq!(self.0.check(), Ok(()));
        ended
    }

    fn call(&mut self, who: Address, call: Call) -> Vec<Completion> {
        self.limited(who, call, Limit::Forever)
    }

    fn limited(&mut self, who: Address, call: Call, limit: Limit) -> Vec<Completion> {
        self.step(Op::Call { who: who.slot(), call, limit })
    }
}

fn message(m_type: i32) -> Message {
    Message::new(m_type)
}

fn from(source: Address, m_type: i32) -> Message {
    Message { source, ..Message::new(m_type) }
}

fn send(dst: Address, m_type: i32) -> Call {
    Call::Send { dst, message: message(m_type) }
}

fn sendrec(dst: Address, m_type: i32) -> Call {
    Call::Sendrec { dst, message: message(m_type) }
}

fn reply(dst: Address, m_type: i32) -> Call {
    Call::Reply { dst, message: message(m_type) }
}

fn receive(src: Address) -> Call {
    Call::Receive { src: Source::From(src) }
}

const RECEIVE_ANY: Call = Call::Receive { src: Source::Any };

fn got(who: Address, message: Message) -> Completion {
    Completion { who: who.slot(), result: Ok(Some(message)), fate: None }
}

fn answered(who: Address, message: Message) -> Completion {
    got(who, message).with(Fate::Delivered)
}

fn done(who: Address) -> Completion {
    Completion::done(who.slot())
}

fn delivered(who: Address) -> Completion {
    done(who).with(Fate::Delivered)
}

fn failed(who: Address, code: Code) -> Completion {
    Completion::error(who.slot(), code)
}

fn unsent(who: Address, code: Code) -> Completion {
    failed(who, code).with(Fate::Withdrawn)
}

fn lost(who: Address, code: Code) -> Completion {
    failed(who, code).with(Fate::Delivered)
}
