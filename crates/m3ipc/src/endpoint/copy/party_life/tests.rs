use super::super::side::OwnMemory;
use super::*;
use crate::endpoint::copy::{Location, PartyStep};
use crate::test::TestNode;
use crate::timeout::Timeout;
use m3ipc_link::{CopyCommand, CopyDirection};
use m3ipc_sys::CopyTarget;

const SLOT: i32 = 3;

fn bind(node: &TestNode) -> Endpoint {
    let endpoint = node.vm().bind_additional(Some(SLOT)).expect("a free slot");
    assert_eq!(endpoint.address(), Address(SLOT), "a system slot keeps its address");
    endpoint
}

/// A requester, and a party that is linked with it.
fn requester_and_party() -> (TestNode, Endpoint, Endpoint) {
    let node = crate::test::node();
    let (mut requester, _client) = node.pair_without_link();
    let party = bind(&node);
    requester.notify(party.address()).expect("a living peer");
    (node, requester, party)
}

/// The end of a party and its next life; `linked`: the requester has a link with that too.
fn live_again(node: &TestNode, requester: &Endpoint, party: Endpoint, linked: bool) -> Endpoint {
    drop(party);
    let mut next = bind(node);
    if linked {
        next.notify(requester.address()).expect("a living peer");
    }
    next
}

#[test]
fn a_copy_fails_by_the_death_of_its_party_also_in_the_next_life_of_the_slot() {
    for linked in [false, true] {
        let (node, mut requester, party) = requester_and_party();
        let (from, location) = (party.address(), Location::At(77));
        let begun = requester.begin_copy(from, 5, Role::Source, Timeout::Never);
        let (index, deadline) = begun.expect("a living peer").expect("there are bytes");
        let _next = live_again(&node, &requester, party, linked);
        let mut memory = [0; 5];
        let mut target = CopyTarget::from(&mut memory[..]);
        let mut own = OwnMemory::Into(&mut target);
        let copied = requester.copy_traced(index, location, &mut own, 5, deadline);
        assert_eq!(copied.expect_err("it has died").code, Code::SrcDied, "{linked}");
        // The next copy is one with the next life, which does not wait.
        let copied = requester.copy_from(from, location, &mut memory);
        assert_eq!(copied.expect_err("it does not wait").code(), Code::ProcSts, "{linked}");
    }
}

#[test]
fn a_copy_of_a_stand_in_fails_by_the_death_of_its_party_too() {
    for (linked, looks) in [(false, false), (false, true), (true, false), (true, true)] {
        let (node, mut requester, party) = requester_and_party();
        requester.become_stand_in();
        let direction = CopyDirection::Write;
        let command = CopyCommand { direction, space: 0, address: 77, bytes: 5 };
        let begun = requester.begin_party_copy(party.address(), command);
        let mut copy = begun.expect("a living peer");
        let _next = live_again(&node, &requester, party, linked);
        if looks {
            // As the proxy does, whatever the reason of its look.
            while requester.session.has_events() {
                requester.receive_events().expect("the requester lives");
            }
            requester.forget_dead();
        }
        let step = loop {
            match requester.step_party_copy(&mut copy) {
                PartyStep::Waits => std::thread::yield_now(),
                step => break step,
            }
        };
        let died = PartyStep::Ended(Code::DstDied.number(), 0);
        assert_eq!(step, died, "linked: {linked}, looks: {looks}");
    }
}
