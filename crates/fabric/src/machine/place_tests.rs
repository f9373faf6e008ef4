//! Single rules of places; the simulation of `tests/fabric` has the promises.

use super::tests::{FIRST, MS, OWN, PEER, actions, greet, hello, send_frame, sent_frames};
use super::*;
use crate::machine::changes::PAUSE_NS;
use crate::owners::Backup;
use crate::packet::{CallEnd, CallKind, SessionPair};
use crate::{Call, Content, Outcome, Settings, SlotRange};

pub(super) const THIRD: NodeId = NodeId(3);

/// This node has 0 to 99, the peer 100 to 199, a third one 200 to 299. The peer has the backup of
/// slot 3, this node that of slot 103, and the third node that of slot 4. The peer has that of slot
/// 203 too.
pub(super) fn machine() -> Machine {
    machine_after(EndSign::Left)
}

/// The same, where this sign of an end counts.
fn machine_after(after: EndSign) -> Machine {
    let mut owners = Owners::default();
    for (node, first) in [(OWN, 0), (PEER, 100), (THIRD, 200)] {
        owners.add(1, SlotRange::new(first, first + 99).expect("slots"), node).expect("disjoint");
    }
    for (slot, node) in [(3, PEER), (103, OWN), (4, THIRD), (203, PEER)] {
        owners.add_backup(1, slot, Backup { node, after }).expect("another node");
    }
    let (settings, peers) = (Settings::default(), [PEER, THIRD]);
    let mut machine = Machine::new("test", OWN, Incarnation(5), owners, peers, settings);
    for slot in [3, 4] {
        machine.bound(MS, at(slot));
    }
    machine
}

pub(super) fn at(slot: Slot) -> EndpointId {
    EndpointId::new(1, Address::new(0, slot))
}

pub(super) fn bound(slot: Slot) -> Frame {
    bound_after(slot, 0, None)
}

/// The slot has moved away so often, and this move from the other node was the last one.
pub(super) fn bound_after(slot: Slot, moves: u32, after: Option<(Incarnation, u32)>) -> Frame {
    Frame::Bound { vm: 1, endpoint: at(slot).address.0, moves, after }
}

/// A place that this node may take is free for its backup.
pub(super) const FREE: Action = Action::PlaceFree { vm: 1, slot: 103 };
pub(super) const BACK: Action = Action::GiveBack { vm: 1, slot: 103 };
const SECOND: ConnectionId = ConnectionId(2);

pub(super) fn placed(slot: Slot, node: NodeId) -> Action {
    Action::Placed { vm: 1, slot, node }
}

pub(super) fn died(slot: Slot) -> Frame {
    Frame::Died { vm: 1, endpoint: at(slot).address.0 }
}

/// Frames of the third node, in its first session.
pub(super) fn of_third(machine: &mut Machine, sequence: u64, frame: Frame) {
    let session = SessionPair { to: 1, from: 1 };
    let (lane, expected) = (Lane::Message, [0, 0]);
    let packet = Packet::Data { session, lane, sequence, expected, frame };
    machine.received(2 * MS, THIRD, THIRD_CONNECTION, crate::encode(&packet, &[]));
}

pub(super) const THIRD_CONNECTION: ConnectionId = ConnectionId(33);

pub(super) fn greet_third(machine: &mut Machine) {
    machine.connected(2 * MS, THIRD, THIRD_CONNECTION);
    let claims = machine.owners.of_node(THIRD).collect();
    let hello = crate::Hello { from: THIRD, claims, ..hello(1) };
    machine.received(2 * MS, THIRD, THIRD_CONNECTION, crate::encode(&Packet::Hello(hello), &[]));
    assert!(machine.is_reachable(THIRD));
}

/// The connection with the peer is closed, and it shows this sign.
fn end(machine: &mut Machine, connection: ConnectionId, at_ns: u64, sign: EndSign) {
    machine.disconnected(at_ns, PEER, connection);
    machine.gone(at_ns, PEER, sign);
}

#[test]
fn the_home_believes_the_node_of_the_backup() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    let _ = actions(&mut machine);
    send_frame(&mut machine, 0, bound(3), &[]);
    assert_eq!(actions(&mut machine), [placed(3, PEER), Action::Bound { endpoint: at(3) }]);
    // A bind here counts no more, and calls go to the backup.
    machine.died(3 * MS, at(3));
    machine.bound(3 * MS, at(3));
    assert!(!machine.living.contains_key(&at(3)));
    assert_eq!(machine.reachable(at(3)), Ok(PEER));
    // The backup dies: the slot is at its home, a second after the last change.
    send_frame(&mut machine, 1, died(3), &[]);
    assert!(!actions(&mut machine).contains(&placed(3, OWN)));
    machine.tick(3 * MS + PAUSE_NS);
    assert!(actions(&mut machine).contains(&placed(3, OWN)));
    machine.bound(4 * MS, at(3));
    assert!(machine.living.contains_key(&at(3)));
}

#[test]
fn a_backup_that_comes_and_goes_costs_one_change_in_a_second() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    let mut changes = 0;
    for round in 0..100 {
        send_frame(&mut machine, 2 * round, bound(3), &[]);
        send_frame(&mut machine, 2 * round + 1, died(3), &[]);
        let of_round = actions(&mut machine);
        changes += of_round.iter().filter(|it| matches!(it, Action::Placed { .. })).count();
    }
    assert_eq!(changes, 1);
    machine.tick(3 * MS + PAUSE_NS);
    assert_eq!(actions(&mut machine).last(), Some(&placed(3, OWN)));
}

#[test]
fn the_death_of_an_earlier_life_leaves_the_backup_its_place() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    send_frame(&mut machine, 0, bound(203), &[]);
    let _ = actions(&mut machine);
    assert_eq!(machine.owners.owner(at(203)), Some(PEER), "the home is not here");
    let earlier = EndpointId::new(1, Address::new(7, 203)).address.0;
    send_frame(&mut machine, 1, Frame::Died { vm: 1, endpoint: earlier }, &[]);
    machine.tick(3 * MS + PAUSE_NS);
    assert_eq!(machine.owners.owner(at(203)), Some(PEER));
    // The node says that it has none: that is its answer in a later session.
    send_frame(&mut machine, 2, died(203), &[]);
    assert_eq!(machine.owners.owner(at(203)), Some(THIRD));
}

#[test]
fn a_node_that_greets_anew_keeps_the_place_until_it_says_that_it_has_none() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    send_frame(&mut machine, 0, bound(3), &[]);
    let _ = actions(&mut machine);
    greet(&mut machine, FIRST, hello(2));
    machine.tick(5 * MS + PAUSE_NS);
    assert!(!actions(&mut machine).contains(&placed(3, OWN)), "it may announce its backup yet");
    let session = SessionPair { to: 2, from: 1 };
    let (lane, expected, frame) = (Lane::Message, [0, 0], died(3));
    let packet = Packet::Data { session, lane, sequence: 0, expected, frame };
    machine.received(6 * MS + PAUSE_NS, PEER, FIRST, crate::encode(&packet, &[]));
    assert!(actions(&mut machine).contains(&placed(3, OWN)));
}

#[test]
fn a_node_says_at_the_begin_of_a_session_that_it_has_no_backup() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    assert!(sent_frames(&mut machine).contains(&died(103)));
}

#[test]
fn one_announcement_of_a_slot_waits_for_its_turn() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    greet_third(&mut machine);
    of_third(&mut machine, 0, bound(203));
    for generation in 0..10 {
        let endpoint = Address::new(generation, 203).0;
        let sequence = u64::from(generation.unsigned_abs());
        send_frame(
            &mut machine,
            sequence,
            Frame::Bound { vm: 1, endpoint, moves: 0, after: None },
            &[],
        );
    }
    assert_eq!(machine.early.of_node(PEER), 1);
    assert_eq!(machine.owners.owner(at(203)), Some(THIRD), "the home has it");
    let _ = actions(&mut machine);
    of_third(&mut machine, 1, died(203));
    let endpoint = EndpointId::new(1, Address::new(9, 203));
    let said = [Action::Died { endpoint: at(203) }, placed(203, PEER), Action::Bound { endpoint }];
    assert_eq!(actions(&mut machine), said);
    assert_eq!(machine.early.of_node(PEER), 0);
}

#[test]
fn a_backup_with_the_address_of_one_that_has_just_died_lives() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    greet_third(&mut machine);
    of_third(&mut machine, 0, bound(203));
    send_frame(&mut machine, 0, bound(203), &[]);
    let _ = actions(&mut machine);
    // The death of the former one waits for its last answers.
    machine.outgoing.dying.insert(at(203), CallId(0));
    let Some(third) = machine.peers.get_mut(&THIRD) else { panic!("a peer") };
    third.announced.clear();
    machine.settle_place((1, 203));
    let expected = [
        placed(203, PEER),
        Action::Died { endpoint: at(203) },
        Action::Bound { endpoint: at(203) },
    ];
    assert_eq!(actions(&mut machine), expected);
}

#[test]
fn another_node_than_that_of_the_backup_breaks_the_rules() {
    for slot in [4, 5, 204] {
        let mut machine = machine();
        greet(&mut machine, FIRST, hello(1));
        send_frame(&mut machine, 0, bound(slot), &[]);
        let lost = Action::NodeLost { node: PEER, cause: Failure::Broke };
        assert!(actions(&mut machine).contains(&lost), "{slot}");
        assert_eq!(machine.owners.held().count(), 0);
    }
}

#[test]
fn a_place_is_free_after_a_sign_that_is_as_sure_as_the_registry_wants() {
    use EndSign::{Left, Refused, Silence};
    for after in [Left, Refused, Silence] {
        for sign in [Left, Refused, Silence] {
            let mut machine = machine_after(after);
            // A node that was never here has not ended.
            machine.gone(MS, PEER, sign);
            assert!(!actions(&mut machine).contains(&FREE));
            greet(&mut machine, FIRST, hello(1));
            // A connection stands.
            machine.gone(2 * MS, PEER, sign);
            assert!(!actions(&mut machine).contains(&FREE));
            match sign {
                Silence => {
                    machine.disconnected(3 * MS, PEER, FIRST);
                    (1..5).for_each(|at| machine.tick(at * 900 * MS));
                    assert!(!machine.is_reachable(PEER));
                }
                Left | Refused => end(&mut machine, FIRST, 3 * MS, sign),
            }
            let is_free = actions(&mut machine).contains(&FREE);
            assert_eq!(is_free, sign <= after, "{sign:?} where {after:?} counts");
            // It is looked for as long as it would change anything.
            assert_eq!(
                machine.awaits_refusal(PEER),
                after > sign.max(Left) && !is_free || after == Refused && sign == Silence
            );
        }
    }
}

#[test]
fn a_late_sign_counts_and_one_ahead_of_a_connection_does_not() {
    let mut machine = machine_after(EndSign::Refused);
    greet(&mut machine, FIRST, hello(1));
    machine.disconnected(3 * MS, PEER, FIRST);
    (1..5).for_each(|at| machine.tick(at * 900 * MS));
    assert!(machine.awaits_refusal(PEER) && !actions(&mut machine).contains(&FREE));
    machine.gone(4_000 * MS, PEER, EndSign::Refused);
    assert!(actions(&mut machine).contains(&FREE) && !machine.awaits_refusal(PEER));
    machine.bound(4_100 * MS, at(103));
    assert!(machine.living.contains_key(&at(103)));
    machine.gone(4_200 * MS, PEER, EndSign::Refused);
    assert!(!actions(&mut machine).contains(&FREE), "once");
}

#[test]
fn a_place_without_a_backup_goes_back_to_the_home_that_returns() {
    for is_taken in [false, true] {
        let mut machine = machine();
        greet(&mut machine, FIRST, hello(1));
        end(&mut machine, FIRST, 3 * MS, EndSign::Left);
        if is_taken {
            machine.bound(4 * MS, at(103));
        }
        let _ = actions(&mut machine);
        // At once: a backup would be a second holder.
        greet(&mut machine, SECOND, hello(2));
        assert_eq!(actions(&mut machine).contains(&BACK), !is_taken);
        machine.gave_back(5 * MS, 1, 103);
        let owner = if is_taken { OWN } else { PEER };
        assert_eq!(machine.owners.owner(at(103)), Some(owner));
        // A place comes and goes once in a second at most.
        if !is_taken {
            end(&mut machine, SECOND, 6 * MS, EndSign::Left);
            assert!(!actions(&mut machine).contains(&FREE));
            machine.tick(7 * MS + PAUSE_NS);
            assert!(actions(&mut machine).contains(&FREE));
        }
    }
}

#[test]
fn a_backup_that_is_older_than_its_proxy_keeps_its_place() {
    let mut machine = machine();
    machine.bound(MS, at(103));
    assert!(machine.living.contains_key(&at(103)));
    // No backup of this node has slot 104.
    machine.bound(MS, at(104));
    assert!(!machine.living.contains_key(&at(104)));
    greet(&mut machine, FIRST, hello(1));
    assert!(!actions(&mut machine).contains(&BACK));
    machine.died(3 * MS, at(103));
    assert!(actions(&mut machine).contains(&BACK));
}

#[test]
fn a_place_whose_backup_alone_proved_it_ends_with_that() {
    let mut machine = machine();
    machine.bound(MS, at(103));
    // The home was never here in this life: nobody knows whether it serves.
    machine.died(2 * MS, at(103));
    assert_eq!(actions(&mut machine), [BACK]);
    machine.gave_back(3 * MS, 1, 103);
    assert_eq!(machine.owners.owner(at(103)), Some(PEER));
}

#[test]
fn a_lost_connection_is_no_silence_before_its_time() {
    let mut machine = machine_after(EndSign::Silence);
    greet(&mut machine, FIRST, hello(1));
    machine.disconnected(3 * MS, PEER, FIRST);
    for at in [900, 1_800, 2_600, 2_990] {
        machine.tick(at * MS);
        assert!(!actions(&mut machine).contains(&FREE), "{at}");
    }
    assert!(!machine.is_reachable(PEER), "the session has ended by then");
    let due_ns = machine.next_timeout_ns().expect("it is waited for");
    assert!(due_ns <= 3_010 * MS);
    machine.tick(due_ns);
    assert!(actions(&mut machine).contains(&FREE));
}

#[test]
fn a_bind_that_never_took_effect_leaves_its_place() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    end(&mut machine, FIRST, 3 * MS, EndSign::Left);
    greet(&mut machine, SECOND, hello(2));
    machine.tick(4 * MS + PAUSE_NS);
    assert!(actions(&mut machine).contains(&BACK));
    // The local side had an endpoint there, which dies before it was announced.
    machine.died(5 * MS + PAUSE_NS, at(103));
    assert_eq!(actions(&mut machine), [BACK]);
}

#[test]
fn a_backup_that_has_come_and_gone_unnoticed_takes_no_place() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    end(&mut machine, FIRST, 3 * MS, EndSign::Left);
    greet(&mut machine, SECOND, hello(2));
    machine.tick(4 * MS + PAUSE_NS);
    machine.gave_back(5 * MS + PAUSE_NS, 1, 103);
    let _ = (actions(&mut machine), sent_frames(&mut machine));
    // The driver reads of both now.
    machine.bound(6 * MS + PAUSE_NS, at(103));
    machine.died(6 * MS + PAUSE_NS, at(103));
    assert_eq!(machine.owners.owner(at(103)), Some(PEER));
    assert_eq!((actions(&mut machine), sent_frames(&mut machine)), (vec![], vec![]));
}

#[test]
fn a_home_that_ends_while_its_place_goes_back_frees_it_again() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    end(&mut machine, FIRST, 3 * MS, EndSign::Left);
    assert!(actions(&mut machine).contains(&FREE));
    greet(&mut machine, SECOND, hello(2));
    assert!(actions(&mut machine).contains(&BACK));
    end(&mut machine, SECOND, 4 * MS, EndSign::Left);
    machine.gave_back(5 * MS, 1, 103);
    machine.tick(6 * MS + PAUSE_NS);
    assert!(actions(&mut machine).contains(&FREE));
}

#[test]
fn a_call_that_meets_the_death_on_the_way_ends_before_it() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    send_frame(&mut machine, 0, bound(203), &[]);
    let (from, to) = (EndpointId::of(1, 3), at(203).address);
    let (kind, content) = (CallKind::Request, Content::new(1));
    let call = Call { from, to, kind, user: None, content, limit_ns: None };
    let call = machine.call(4 * MS, call).expect("it is announced");
    assert!(sent_frames(&mut machine).iter().any(|frame| matches!(frame, Frame::Call { .. })));
    let _ = actions(&mut machine);
    send_frame(&mut machine, 1, died(203), &[]);
    assert_eq!(actions(&mut machine), [], "its node has not said what became of the call");
    let end = CallEnd::NotDelivered(Failure::Died);
    send_frame(&mut machine, 2, Frame::End { call, end }, &[]);
    let outcome = Outcome::NotDelivered(Failure::Died);
    let expected = [Action::Ended { call, outcome }, Action::Died { endpoint: at(203) }];
    assert_eq!(actions(&mut machine), expected);
}
