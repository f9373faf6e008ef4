//! Bugs that the oracle has found, each as the shortest sequence that shows it. Each runs on both
//! sides, step by step.

use super::fixture::{OracleFixture, PLAYS, Trouble};
use super::plan::Step;
use m3ipc::{Address, Message, Slot};
use m3ipc_model::rendezvous::{Call, Fault, Limit, Op, Source};
use m3ipc_test_fixture::watchdog;
use std::time::Duration;

const SYSTEM_SLOT: Slot = 3;
const A: Slot = 29;
const B: Slot = 30;
const C: Slot = 31;
const D: Slot = 32;
const E: Slot = 33;

/// A fixture, and whether the machine stalled in a step. Such a case proves nothing: its further
/// steps are left out.
struct FoundCase {
    fixture: OracleFixture,
    has_stalled: bool,
}

/// Plays a case in a fixture with these slots bound, and anew where the machine stalled.
fn play(slots: &[Slot], steps: impl Fn(&mut FoundCase)) {
    watchdog(120);
    for _ in 0..PLAYS {
        let fixture = OracleFixture::new(Fault::None);
        let mut case = FoundCase { fixture, has_stalled: false };
        slots.iter().for_each(|slot| case.step(Op::Bind(*slot)));
        steps(&mut case);
        case.attempt(OracleFixture::clear);
        if !case.has_stalled {
            return;
        }
    }
    panic!("the machine stalled in each of {PLAYS} plays");
}

impl FoundCase {
    fn attempt(&mut self, step: impl FnOnce(&mut OracleFixture) -> Result<(), Trouble>) {
        if !self.has_stalled {
            match step(&mut self.fixture) {
                Ok(()) => {}
                Err(Trouble::Stalled(_)) => self.has_stalled = true,
                Err(Trouble::Differs(how)) => panic!("model and endpoints differ: {how}"),
            }
        }
    }

    fn step(&mut self, op: Op) {
        self.attempt(|fixture| fixture.step(Step::of(op)));
    }

    fn call(&mut self, who: Slot, limit: Limit, call: impl FnOnce(&Self) -> Call) {
        if self.has_stalled {
            return;
        }
        let call = call(self);
        self.step(Op::Call { who, call, limit });
    }

    fn send(&mut self, who: Slot, to: Slot, limit: Limit) {
        self.call(who, limit, |case| Call::Send { dst: case.at(to), message: Message::new(who) });
    }

    fn sendrec(&mut self, who: Slot, to: Slot, limit: Limit) {
        self.call(who, limit, |case| Call::Sendrec {
            dst: case.at(to),
            message: Message::new(who),
        });
    }

    fn notify(&mut self, who: Slot, to: Slot) {
        self.call(who, Limit::NoWait, |case| Call::Notify { dst: case.at(to) });
    }

    fn pulse(&mut self, who: Slot, to: Slot) {
        self.call(who, Limit::NoWait, |case| Call::Pulse { dst: case.at(to), pulse: (1, 2) });
    }

    fn receive(&mut self, who: Slot, from: Slot) {
        self.call(who, Limit::Forever, |case| Call::Receive { src: Source::From(case.at(from)) });
    }

    fn receive_any(&mut self, who: Slot, limit: Limit) {
        self.call(who, limit, |_| Call::Receive { src: Source::Any });
    }

    fn at(&self, slot: Slot) -> Address {
        self.fixture.machine.latest(slot).expect("it was bound once")
    }
}

#[test]
fn a_message_posted_anew_goes_to_the_end_of_the_queue() {
    play(&[A, B, C], |case| {
        case.send(A, C, Limit::Forever);
        case.send(B, C, Limit::Forever);
        // C sees both and takes neither.
        case.call(C, Limit::NoWait, |_| Call::Rcvrqst);
        case.step(Op::Signal(A));
        case.send(A, C, Limit::Forever);
        case.receive_any(C, Limit::NoWait);
        case.receive_any(C, Limit::NoWait);
    });
}

#[test]
fn no_message_answers_a_request_that_was_not_taken() {
    play(&[A, B], |case| {
        case.sendrec(A, B, Limit::Bounded);
        case.send(B, A, Limit::NoWait);
        case.receive_any(B, Limit::NoWait);
        case.send(B, A, Limit::NoWait);
    });
}

#[test]
fn two_that_receive_from_each_other_are_a_deadlock() {
    play(&[A, B], |case| {
        case.receive(A, B);
        case.receive(B, A);
    });
}

#[test]
fn a_server_that_receives_from_its_client_is_a_deadlock() {
    play(&[A, B], |case| {
        case.sendrec(A, B, Limit::Forever);
        case.receive_any(B, Limit::Forever);
        case.receive(B, A);
    });
}

#[test]
fn the_last_of_three_closes_the_circle() {
    for _ in 0..20 {
        play(&[A, B, C], |case| {
            case.send(C, A, Limit::Forever);
            case.send(A, B, Limit::Forever);
            case.receive_any(B, Limit::NoWait);
            // The first sleep of this call is short, and the time of its wait begins there.
            case.sendrec(A, B, Limit::Forever);
            case.send(B, C, Limit::Forever);
        });
    }
}

#[test]
fn the_last_of_three_senders_closes_the_circle() {
    for _ in 0..20 {
        play(&[A, B, C], |case| {
            case.send(C, A, Limit::Forever);
            case.send(A, B, Limit::Forever);
            case.receive_any(B, Limit::NoWait);
            case.send(A, B, Limit::Forever);
            case.send(B, C, Limit::Forever);
        });
    }
}

#[test]
fn a_send_without_time_never_closes_a_circle() {
    play(&[A, B, C], |case| {
        case.send(A, B, Limit::Forever);
        case.send(B, C, Limit::Forever);
        case.send(C, A, Limit::NoWait);
    });
}

#[test]
fn a_sendrec_without_time_that_answers_was_delivered() {
    play(&[A, B], |case| {
        case.sendrec(A, B, Limit::Forever);
        case.receive_any(B, Limit::Forever);
        case.sendrec(B, A, Limit::NoWait);
    });
}

#[test]
fn the_next_life_of_a_system_slot_keeps_its_link() {
    play(&[SYSTEM_SLOT, A], |case| {
        case.send(SYSTEM_SLOT, A, Limit::NoWait);
        case.step(Op::Kill(SYSTEM_SLOT));
        case.step(Op::Bind(SYSTEM_SLOT));
        case.send(SYSTEM_SLOT, A, Limit::NoWait);
        case.send(A, SYSTEM_SLOT, Limit::NoWait);
    });
}

#[test]
fn an_unbind_does_not_end_the_next_life_of_a_system_slot() {
    play(&[SYSTEM_SLOT, A], |case| {
        case.receive_any(SYSTEM_SLOT, Limit::Forever);
        case.step(Op::Unbind(SYSTEM_SLOT));
        case.step(Op::Bind(SYSTEM_SLOT));
        case.send(A, SYSTEM_SLOT, Limit::Forever);
        // Longer than the grace time of the unbind.
        std::thread::sleep(Duration::from_millis(1_200));
        case.receive_any(SYSTEM_SLOT, Limit::NoWait);
    });
}

#[test]
fn relay_checks_the_client_before_it_sees_that_both_are_one() {
    play(&[A, B], |case| {
        case.step(Op::Kill(B));
        case.call(A, Limit::Forever, |case| Call::Relay { client: case.at(B), dst: case.at(B) });
    });
}

#[test]
fn a_wakeup_of_oneself_agrees_with_the_model() {
    play(&[A], |case| {
        case.call(A, Limit::Forever, |case| Call::Wakeup { dst: case.at(A) });
    });
}

#[test]
fn notifications_come_by_slot_also_after_a_death() {
    play(&[SYSTEM_SLOT, A, B, C], |case| {
        case.notify(A, C);
        case.notify(SYSTEM_SLOT, C);
        case.step(Op::Kill(SYSTEM_SLOT));
        case.notify(B, C);
        case.receive_any(C, Limit::NoWait);
        case.receive_any(C, Limit::NoWait);
    });
}

/// Makes links between C and each of these, then ends them: C has as many deaths to read.
fn end_peers_of_c(case: &mut FoundCase, peers: &[Slot]) {
    peers.iter().for_each(|peer| case.notify(C, *peer));
    peers.iter().for_each(|peer| case.step(Op::Kill(*peer)));
}

#[test]
fn what_came_by_a_new_link_behind_deaths_is_found() {
    let send: fn(&mut FoundCase) = |case| case.send(D, C, Limit::Forever);
    let request = |case: &mut FoundCase| case.sendrec(D, C, Limit::Forever);
    let notify = |case: &mut FoundCase| case.notify(D, C);
    let pulse = |case: &mut FoundCase| case.pulse(D, C);
    for contact in [send, request, notify, pulse] {
        play(&[SYSTEM_SLOT, A, B, C, D], |case| {
            end_peers_of_c(case, &[SYSTEM_SLOT, A, B]);
            contact(case);
            case.receive_any(C, Limit::NoWait);
        });
    }
}

#[test]
fn a_death_behind_others_is_known_to_each_call() {
    let send: fn(&mut FoundCase) = |case| case.send(C, D, Limit::NoWait);
    let request = |case: &mut FoundCase| case.sendrec(C, D, Limit::Forever);
    let notify = |case: &mut FoundCase| case.notify(C, D);
    let pulse = |case: &mut FoundCase| case.pulse(C, D);
    let receive = |case: &mut FoundCase| {
        case.call(C, Limit::NoWait, |case| Call::Receive { src: Source::From(case.at(D)) });
    };
    for call in [send, request, notify, pulse, receive] {
        play(&[SYSTEM_SLOT, A, B, C, D], |case| {
            end_peers_of_c(case, &[SYSTEM_SLOT, A, B, D]);
            call(case);
        });
    }
}

#[test]
fn a_client_that_died_behind_others_gets_no_answer() {
    let reply: fn(&FoundCase) -> Call =
        |case| Call::Reply { dst: case.at(D), message: Message::new(C) };
    let relay = |case: &FoundCase| Call::Relay { client: case.at(D), dst: case.at(E) };
    for answer in [reply, relay] {
        play(&[SYSTEM_SLOT, A, B, C, D, E], |case| {
            case.sendrec(D, C, Limit::Forever);
            case.receive_any(C, Limit::NoWait);
            end_peers_of_c(case, &[SYSTEM_SLOT, A, B]);
            case.step(Op::Unbind(D));
            case.call(C, Limit::Forever, answer);
        });
    }
}
