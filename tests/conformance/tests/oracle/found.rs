//! What the oracle has found: each bug as the shortest sequence that shows it,
//! on both sides and step by step, like any other.

use super::arena::Arena;
use super::plan::Step;
use m3ipc::{Address, Message, Slot};
use m3ipc_conformance::watchdog;
use m3ipc_model::rendezvous::{Call, Fault, Limit, Op, Source};
use std::time::Duration;

const SYSTEM_SLOT: Slot = 3;
const A: Slot = 29;
const B: Slot = 30;
const C: Slot = 31;

/// An arena with these slots bound.
struct Scene(Arena);

impl Scene {
    fn of(slots: &[Slot]) -> Self {
        watchdog(120);
        let mut scene = Self(Arena::new(Fault::None));
        slots.iter().for_each(|slot| scene.step(Op::Bind(*slot)));
        scene
    }

    fn step(&mut self, op: Op) {
        self.0.step(Step { op, expires: false }).expect("model and endpoints agree");
    }

    fn call(&mut self, who: Slot, limit: Limit, call: impl FnOnce(&Self) -> Call) {
        let call = call(self);
        self.step(Op::Call { who, call, limit });
    }

    fn send(&mut self, who: Slot, to: Slot, limit: Limit) {
        self.call(who, limit, |scene| Call::Send { dst: scene.at(to), message: Message::new(who) });
    }

    fn sendrec(&mut self, who: Slot, to: Slot, limit: Limit) {
        self.call(who, limit, |scene| Call::Sendrec {
            dst: scene.at(to),
            message: Message::new(who),
        });
    }

    fn receive(&mut self, who: Slot, from: Slot) {
        self.call(who, Limit::Forever, |scene| Call::Receive { src: Source::From(scene.at(from)) });
    }

    fn receive_any(&mut self, who: Slot, limit: Limit) {
        self.call(who, limit, |_| Call::Receive { src: Source::Any });
    }

    fn at(&self, slot: Slot) -> Address {
        self.0.machine.latest(slot).expect("it was bound once")
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.0.clear().expect("model and endpoints agree to the end");
        }
    }
}

#[test]
fn a_message_posted_anew_goes_to_the_end_of_the_queue() {
    let mut scene = Scene::of(&[A, B, C]);
    scene.send(A, C, Limit::Forever);
    scene.send(B, C, Limit::Forever);
    // C sees both and takes neither.
    scene.call(C, Limit::NoWait, |_| Call::Rcvrqst);
    scene.step(Op::Signal(A));
    scene.send(A, C, Limit::Forever);
    scene.receive_any(C, Limit::NoWait);
    scene.receive_any(C, Limit::NoWait);
}

#[test]
fn no_message_answers_a_request_that_was_not_taken() {
    let mut scene = Scene::of(&[A, B]);
    scene.sendrec(A, B, Limit::Bounded);
    scene.send(B, A, Limit::NoWait);
    scene.receive_any(B, Limit::NoWait);
    scene.send(B, A, Limit::NoWait);
}

#[test]
fn two_who_receive_from_each_other_are_a_deadlock() {
    let mut scene = Scene::of(&[A, B]);
    scene.receive(A, B);
    scene.receive(B, A);
}

#[test]
fn a_server_that_receives_from_its_client_is_a_deadlock() {
    let mut scene = Scene::of(&[A, B]);
    scene.sendrec(A, B, Limit::Forever);
    scene.receive_any(B, Limit::Forever);
    scene.receive(B, A);
}

#[test]
fn a_send_without_time_never_closes_a_circle() {
    let mut scene = Scene::of(&[A, B, C]);
    scene.send(A, B, Limit::Forever);
    scene.send(B, C, Limit::Forever);
    scene.send(C, A, Limit::NoWait);
}

#[test]
fn a_sendrec_without_time_that_answers_was_delivered() {
    let mut scene = Scene::of(&[A, B]);
    scene.sendrec(A, B, Limit::Forever);
    scene.receive_any(B, Limit::Forever);
    scene.sendrec(B, A, Limit::NoWait);
}

#[test]
fn the_next_life_of_a_system_slot_keeps_its_link() {
    let mut scene = Scene::of(&[SYSTEM_SLOT, A]);
    scene.send(SYSTEM_SLOT, A, Limit::NoWait);
    scene.step(Op::Kill(SYSTEM_SLOT));
    scene.step(Op::Bind(SYSTEM_SLOT));
    scene.send(SYSTEM_SLOT, A, Limit::NoWait);
    scene.send(A, SYSTEM_SLOT, Limit::NoWait);
}

#[test]
fn an_unbind_does_not_end_the_next_life_of_a_system_slot() {
    let mut scene = Scene::of(&[SYSTEM_SLOT, A]);
    scene.receive_any(SYSTEM_SLOT, Limit::Forever);
    scene.step(Op::Unbind(SYSTEM_SLOT));
    scene.step(Op::Bind(SYSTEM_SLOT));
    scene.send(A, SYSTEM_SLOT, Limit::Forever);
    // Longer than the grace time of the unbind.
    std::thread::sleep(Duration::from_millis(1_200));
    scene.receive_any(SYSTEM_SLOT, Limit::NoWait);
}

#[test]
fn relay_checks_the_client_before_it_sees_that_both_are_one() {
    let mut scene = Scene::of(&[A, B]);
    scene.step(Op::Kill(B));
    scene.call(A, Limit::Forever, |scene| Call::Relay { client: scene.at(B), dst: scene.at(B) });
}

#[test]
fn nobody_wakes_himself() {
    let mut scene = Scene::of(&[A]);
    scene.call(A, Limit::Forever, |scene| Call::Wakeup { dst: scene.at(A) });
}
