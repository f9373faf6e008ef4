//! Single rules of moves; the simulation of `tests/fabric` has the promises.

use super::place_tests::{
    BACK, FREE, THIRD, at, bound, bound_after, died, greet_third, machine, of_third, placed,
};
use super::tests::{FIRST, MS, OWN, PEER, actions, greet, hello, send_frame, sent_frames};
use super::*;
use crate::machine::changes::PAUSE_NS;
use crate::outcome::{Content, Outcome};
use crate::packet::{CallEnd, CallKind, MessageHead};

fn moved(slot: Slot) -> Frame {
    moved_once_more(slot, 1)
}

/// The slot has moved away so often.
fn moved_once_more(slot: Slot, moves: u32) -> Frame {
    Frame::Moved { vm: 1, endpoint: at(slot).address.0, moves }
}

fn moves(slot: Slot) -> Action {
    Action::Moved { endpoint: at(slot) }
}

/// A caller of this node asks an endpoint.
fn ask(machine: &mut Machine, to: Slot) -> CallId {
    let (from, to, kind, user) = (at(3), at(to).address, CallKind::Request, None);
    let call = Call { from, to, kind, user, content: Content::new(7), limit_ns: None };
    let id = machine.call(2 * MS, call).expect("reachable");
    let _ = sent_frames(machine);
    id
}

#[test]
fn the_home_gives_the_slot_to_its_backup_and_says_so() {
    let mut machine = machine();
    assert_eq!(machine.move_target(at(3)), Err(MoveRefusal::LinkDown(PEER)));
    greet(&mut machine, FIRST, hello(1));
    let _ = (actions(&mut machine), sent_frames(&mut machine));
    assert_eq!(machine.move_target(at(5)), Err(MoveRefusal::NoBackup));
    assert_eq!(machine.move_target(at(103)), Err(MoveRefusal::NoEndpoint));
    assert_eq!(machine.moved(3 * MS, at(3)), Ok(PEER));
    assert_eq!(sent_frames(&mut machine), [moved(3)]);
    assert_eq!(machine.owners.owner(at(3)), Some(PEER));
    // A late bind counts for nothing, and a call that crossed the word is not taken.
    machine.bound(3 * MS, at(3));
    assert_eq!(machine.missing(at(3)), Some(Failure::Moved));
    // The claim.
    send_frame(&mut machine, 0, bound(3), &[]);
    assert_eq!(actions(&mut machine), [Action::Bound { endpoint: at(3) }]);
    // It comes back the same way.
    send_frame(&mut machine, 1, moved(3), &[]);
    assert_eq!(actions(&mut machine), [moves(3), placed(3, OWN)]);
    machine.bound(4 * MS, at(3));
    let claim = bound_after(3, 1, Some((Incarnation(1), 1)));
    assert_eq!(sent_frames(&mut machine), [claim]);
    assert!(machine.living.contains_key(&at(3)));
}

#[test]
fn a_slot_that_nobody_claims_is_at_its_home_again() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    let _ = actions(&mut machine);
    assert_eq!(machine.moved(3 * MS, at(3)), Ok(PEER));
    send_frame(&mut machine, 0, died(3), &[]);
    assert!(actions(&mut machine).contains(&placed(3, OWN)));
}

#[test]
fn the_place_of_a_moved_endpoint_is_free_for_a_time() {
    for is_claimed in [false, true] {
        let mut machine = machine();
        greet(&mut machine, FIRST, hello(1));
        send_frame(&mut machine, 0, bound(103), &[]);
        let _ = (actions(&mut machine), sent_frames(&mut machine));
        send_frame(&mut machine, 1, moved(103), &[]);
        assert_eq!(actions(&mut machine), [moves(103), FREE]);
        if is_claimed {
            machine.bound(3 * MS, at(103));
            let claim = bound_after(103, 0, Some((Incarnation(1), 1)));
            assert!(sent_frames(&mut machine).contains(&claim));
        }
        machine.tick(machine.now_ns + CLAIM_NS);
        assert_eq!(actions(&mut machine).contains(&BACK), !is_claimed);
        if !is_claimed {
            machine.gave_back(machine.now_ns, 1, 103);
            assert_eq!(machine.owners.owner(at(103)), Some(PEER));
            assert!(sent_frames(&mut machine).contains(&died(103)));
        }
    }
}

#[test]
fn the_calls_of_this_node_end_before_the_place_is_free() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    send_frame(&mut machine, 0, bound(103), &[]);
    let call = ask(&mut machine, 103);
    let _ = actions(&mut machine);
    send_frame(&mut machine, 1, moved(103), &[]);
    assert_eq!(actions(&mut machine), [moves(103)]);
    let end = CallEnd::NotDelivered(Failure::Moved);
    send_frame(&mut machine, 2, Frame::End { call, end }, &[]);
    let outcome = Outcome::NotDelivered(Failure::Moved);
    assert_eq!(actions(&mut machine), [Action::Ended { call, outcome }, FREE]);
}

#[test]
fn a_place_that_was_never_free_is_given_up_too() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    send_frame(&mut machine, 0, bound(103), &[]);
    let _call = ask(&mut machine, 103);
    send_frame(&mut machine, 1, moved(103), &[]);
    let _ = (actions(&mut machine), sent_frames(&mut machine));
    // The home never ends the call.
    for at in 1..8 {
        machine.connected(at * 300 * MS, PEER, FIRST);
        machine.tick(at * 300 * MS);
    }
    assert!(sent_frames(&mut machine).contains(&died(103)));
    assert!(!actions(&mut machine).contains(&FREE));
}

#[test]
fn a_new_session_ends_a_move_that_nobody_has_claimed() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    send_frame(&mut machine, 0, bound(103), &[]);
    send_frame(&mut machine, 1, moved(103), &[]);
    assert!(actions(&mut machine).contains(&FREE));
    greet(&mut machine, FIRST, hello(2));
    assert!(actions(&mut machine).contains(&BACK));
}

#[test]
fn a_third_node_waits_for_the_claim_which_may_come_first() {
    for is_first in [false, true] {
        let mut machine = machine();
        greet(&mut machine, FIRST, hello(1));
        greet_third(&mut machine);
        of_third(&mut machine, 0, bound(203));
        let _ = actions(&mut machine);
        if is_first {
            send_frame(&mut machine, 0, bound(203), &[]);
            assert_eq!(actions(&mut machine), []);
        }
        of_third(&mut machine, 1, moved(203));
        if !is_first {
            assert_eq!(actions(&mut machine), [moves(203)]);
            assert_eq!(machine.owners.owner(at(203)), Some(THIRD));
            send_frame(&mut machine, 0, bound(203), &[]);
        }
        let mut said = vec![placed(203, PEER), Action::Bound { endpoint: at(203) }];
        if is_first {
            said.insert(0, moves(203));
        }
        assert_eq!(actions(&mut machine), said);
    }
}

#[test]
fn the_word_of_another_node_moves_nothing() {
    // Slots 3 and 203 are the peer's as a backup alone, and it has neither.
    for slot in [3, 4, 5, 203, 204] {
        let mut machine = machine();
        greet(&mut machine, FIRST, hello(1));
        let _ = actions(&mut machine);
        let owner = machine.owners.owner(at(slot));
        send_frame(&mut machine, 0, moved(slot), &[]);
        machine.tick(3 * MS + PAUSE_NS);
        assert_eq!(machine.owners.owner(at(slot)), owner, "{slot}");
        assert_eq!(actions(&mut machine), [], "{slot}");
    }
}

#[test]
fn a_home_that_moves_again_and_again_leaves_one_time() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    send_frame(&mut machine, 0, bound(103), &[]);
    // The home never ends this call, so the place is not free.
    let _call = ask(&mut machine, 103);
    for round in 0..20 {
        let moves = u32::try_from(round + 1).expect("few");
        send_frame(&mut machine, 2 * round + 1, moved_once_more(103, moves), &[]);
        send_frame(&mut machine, 2 * round + 2, bound_after(103, moves, None), &[]);
        machine.tick(machine.now_ns + MS);
    }
    let is_place = |(_, timer): &&(u64, Timer)| matches!(timer, Timer::Place(_));
    assert_eq!(machine.timers.iter().filter(is_place).count(), 1);
}

/// The peer, which has the backup of slot 203, sends a message of it to slot 3.
fn message_of_203(call: u64) -> Frame {
    let head = MessageHead { m_type: 7, is_block: false };
    let (from, to) = (at(203).address.0, at(3).address.0);
    Frame::Call { call: CallId(call), vm: 1, from, to, kind: CallKind::Send, head, pieced: 0 }
}

/// Whether a message of slot 203 is offered.
fn is_offered(machine: &mut Machine) -> bool {
    let is_message = |it: &Action| matches!(it, Action::Deliver { from, .. } if *from == at(203));
    actions(machine).iter().any(is_message)
}

#[test]
fn a_claim_voids_what_the_former_node_has_said_and_this_one_has_not_heard() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    greet_third(&mut machine);
    // The endpoint moves from its home to the peer and back, and away once more. The peer's word of
    // its first time is late.
    let peers = machine.peers[&PEER].session.incarnation().expect("met");
    of_third(&mut machine, 0, bound(203));
    of_third(&mut machine, 1, moved(203));
    of_third(&mut machine, 2, bound_after(203, 1, Some((peers, 1))));
    of_third(&mut machine, 3, moved_once_more(203, 2));
    let _ = actions(&mut machine);
    let body = [0; m3ipc_abi::PAYLOAD_BYTES];
    send_frame(&mut machine, 0, bound(203), &[]);
    send_frame(&mut machine, 1, message_of_203(1), &body);
    let _ = sent_frames(&mut machine);
    assert!(!is_offered(&mut machine), "a message from before the claim");
    assert_eq!(machine.owners.owner(at(203)), Some(THIRD));
    send_frame(&mut machine, 2, moved(203), &[]);
    let thirds = machine.peers[&THIRD].session.incarnation().expect("met");
    send_frame(&mut machine, 3, bound_after(203, 1, Some((thirds, 2))), &[]);
    send_frame(&mut machine, 4, message_of_203(2), &body);
    assert!(is_offered(&mut machine), "one of the second time");
    assert_eq!(machine.owners.owner(at(203)), Some(PEER));
}

#[test]
fn a_claim_voids_nothing_for_long_after_the_end_of_its_node() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    greet_third(&mut machine);
    of_third(&mut machine, 0, bound(203));
    // The backup says that the home has moved the slot again and again, which it has not.
    let thirds = machine.peers[&THIRD].session.incarnation().expect("met");
    send_frame(&mut machine, 0, bound_after(203, 0, Some((thirds, u32::MAX))), &[]);
    send_frame(&mut machine, 1, died(203), &[]);
    of_third(&mut machine, 1, died(203));
    of_third(&mut machine, 2, bound(203));
    let is_announced = |machine: &Machine| machine.peers[&THIRD].announced.contains_key(&(1, 203));
    assert!(!is_announced(&machine));
    let end_ns = machine.now_ns + machine.own.settings.silence_ns;
    machine.disconnected(machine.now_ns, PEER, FIRST);
    machine.gone(machine.now_ns, PEER, EndSign::Left);
    assert!(!is_announced(&machine));
    // The home is not silent meanwhile.
    machine.own.settings.silence_ns *= 3;
    machine.tick(end_ns);
    assert!(is_announced(&machine));
}

#[test]
fn a_proxy_that_begins_after_a_move_learns_of_it() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    greet_third(&mut machine);
    // Its backup lives since the former life.
    machine.bound(3 * MS, at(103));
    let _ = sent_frames(&mut machine);
    send_frame(&mut machine, 0, moved(103), &[]);
    let claim = bound_after(103, 0, Some((Incarnation(1), 1)));
    assert_eq!(sent_frames(&mut machine), [claim]);
    // Once: a hostile home sends no frames to others.
    send_frame(&mut machine, 1, moved_once_more(103, 2), &[]);
    assert_eq!(sent_frames(&mut machine), []);
    // A new session of another one tells it, too.
    assert_eq!(machine.moved(4 * MS, at(103)), Ok(PEER));
    let _ = sent_frames(&mut machine);
    greet(&mut machine, FIRST, hello(2));
    assert!(sent_frames(&mut machine).contains(&moved(103)));
}
