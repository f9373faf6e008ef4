//! Single rules of the machine; the simulation of `tests/fabric` has the promises.

use super::*;
use crate::packet::{
    CallEnd, CallKind, Hello, MessageHead, RefusalCode, SessionPair, VERSIONS, encode,
};
use crate::{AnswerKind, Content, SlotRange};

pub(super) const OWN: NodeId = NodeId(1);
pub(super) const PEER: NodeId = NodeId(2);
pub(super) const FIRST: ConnectionId = ConnectionId(1);
const SECOND: ConnectionId = ConnectionId(2);
pub(super) const MS: u64 = 1_000_000;
pub(super) const HEAD: MessageHead = MessageHead { m_type: 1, is_block: false };

fn range(first: Slot) -> SlotRange {
    SlotRange::new(first, first + 99).expect("not empty")
}

pub(super) fn machine() -> Machine {
    let mut owners = Owners::default();
    owners.add(1, range(0), OWN).expect("disjoint");
    owners.add(1, range(100), PEER).expect("disjoint");
    let settings = Settings::default();
    let mut machine = Machine::new("test", OWN, Incarnation(5), owners, [PEER], settings);
    machine.bound(MS, EndpointId::of(1, 3));
    machine
}

pub(super) fn hello(incarnation: u64) -> Hello {
    Hello {
        magic: Hello::MAGIC,
        versions: VERSIONS,
        cluster: "test".to_owned(),
        from: PEER,
        to: OWN,
        incarnation: Incarnation(incarnation),
        session: 1,
        partner: None,
        expected: [0, 0],
        admits: (10, 10),
        claims: vec![(1, range(100))],
    }
}

pub(super) fn greet(machine: &mut Machine, id: ConnectionId, hello: Hello) {
    machine.connected(2 * MS, PEER, id);
    machine.received(2 * MS, PEER, id, encode(&Packet::Hello(hello), &[]));
}

pub(super) fn actions(machine: &mut Machine) -> Vec<Action> {
    std::iter::from_fn(|| machine.poll_action()).collect()
}

fn refusal(machine: &mut Machine) -> Option<RefusalCode> {
    actions(machine).into_iter().find_map(|action| match action {
        Action::Refused { why, by_peer: false, .. } => Some(why),
        _ => None,
    })
}

pub(super) fn send_frame(machine: &mut Machine, sequence: u64, frame: Frame, body: &[u8]) {
    send_knowing(machine, sequence, 0, frame, body);
}

/// A frame of a peer that has got so many frames.
fn send_knowing(machine: &mut Machine, sequence: u64, expected: u64, frame: Frame, body: &[u8]) {
    let session = SessionPair { to: 1, from: 1 };
    let lane = Lane::Message;
    let packet = Packet::Data { session, lane, sequence, expected: [expected, 0], frame };
    machine.received(3 * MS, PEER, FIRST, encode(&packet, body));
}

fn bound(generation: i32) -> Frame {
    bind_of(1, Address::new(generation, 103))
}

fn bind_of(vm: VmId, Address(endpoint): Address) -> Frame {
    Frame::Bound { vm, endpoint, moves: 0, after: None }
}

fn endpoint(generation: i32) -> EndpointId {
    EndpointId::new(1, Address::new(generation, 103))
}

fn call_from(from: i32) -> Frame {
    let call = CallId(9);
    Frame::Call { call, vm: 1, from, to: 3, kind: CallKind::Send, head: HEAD, pieced: 0 }
}

#[test]
fn a_greeting_must_fit_the_registry_and_the_certificate() {
    type Spoil = fn(&mut Hello);
    let wrong: [(Spoil, RefusalCode); 5] = [
        (|hello| hello.versions = (7, 9), RefusalCode::Version),
        (|hello| hello.from = NodeId(3), RefusalCode::Identity),
        (|hello| hello.to = NodeId(3), RefusalCode::Identity),
        (|hello| hello.cluster = "other".into(), RefusalCode::Identity),
        (|hello| hello.claims[0].1 = range(50), RefusalCode::Claims),
    ];
    for (spoil, why) in wrong {
        let mut machine = machine();
        let mut hello = hello(1);
        spoil(&mut hello);
        greet(&mut machine, FIRST, hello);
        assert_eq!(refusal(&mut machine), Some(why));
        assert!(!machine.is_reachable(PEER));
        let sent = machine.poll_transmit(2 * MS, PEER, Lane::Message).expect("a refusal");
        assert_eq!(decode(&sent.into_packet()).map(|(packet, _)| packet), Ok(Packet::Refused(why)));
    }
}

#[test]
fn a_second_live_incarnation_is_refused_and_named() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    assert!(machine.is_reachable(PEER));
    greet(&mut machine, SECOND, hello(2));
    let refused = Action::Refused {
        node: PEER,
        by_peer: false,
        incarnation: Incarnation(2),
        why: RefusalCode::SecondIncarnation,
    };
    assert!(actions(&mut machine).contains(&refused));
    assert!(machine.is_reachable(PEER));
    // After the first connection has ended, the second incarnation is a reboot.
    machine.disconnected(3 * MS, PEER, FIRST);
    greet(&mut machine, ConnectionId(3), hello(2));
    let lost = Action::NodeLost { node: PEER, cause: Failure::Rebooted };
    assert!(actions(&mut machine).contains(&lost));
    machine.disconnected(4 * MS, PEER, ConnectionId(3));
    greet(&mut machine, ConnectionId(4), hello(1));
    assert_eq!(refusal(&mut machine), Some(RefusalCode::Stale));
}

#[test]
fn a_node_is_believed_about_its_own_slots_alone() {
    let own_slot = Address::new(1, 103).0;
    for (from, is_believed) in [(own_slot, true), (7, false), (Address::new(1, 203).0, false)] {
        let mut machine = machine();
        greet(&mut machine, FIRST, hello(1));
        actions(&mut machine);
        send_frame(&mut machine, 0, bound(1), &[]);
        send_frame(&mut machine, 1, call_from(from), &[0; 40]);
        assert_eq!(machine.is_reachable(PEER), is_believed, "{from}");
        let delivered = |action: &Action| matches!(action, Action::Deliver { .. });
        assert_eq!(actions(&mut machine).iter().any(delivered), is_believed);
    }
}

#[test]
fn a_claim_may_be_on_the_way() {
    let later = Address::new(1, 203);
    let mut machine = machine();
    machine.set_owners(machine.owners.clone().growing());
    let mut greeting = hello(1);
    greeting.claims.push((1, range(200)));
    greet(&mut machine, FIRST, greeting);
    actions(&mut machine);
    // Until the claim is known here, its endpoint can neither be called nor call.
    send_frame(&mut machine, 0, bind_of(1, later), &[]);
    send_frame(&mut machine, 1, bind_of(1, Address::new(2, 204)), &[]);
    send_frame(&mut machine, 2, Frame::Died { vm: 1, endpoint: Address::new(2, 204).0 }, &[]);
    send_frame(&mut machine, 3, call_from(later.0), &[0; 40]);
    send_frame(&mut machine, 4, Frame::Named { vm: 1, endpoint: later.0 }, b"early");
    assert!(machine.is_reachable(PEER));
    assert_eq!(actions(&mut machine), []);
    let answered = |machine: &mut Machine| {
        let sent = machine.poll_transmit(4 * MS, PEER, Lane::Message).expect("an answer");
        decode(&sent.into_packet()).map(|(packet, _)| packet).expect("a packet")
    };
    let mut sent = answered(&mut machine);
    while !matches!(sent, Packet::Data { frame: Frame::End { .. }, .. }) {
        sent = answered(&mut machine);
    }
    let Packet::Data { frame: Frame::End { call, end }, .. } = sent else { unreachable!() };
    assert_eq!((call, end), (CallId(9), CallEnd::NotDelivered(Failure::NoEndpoint)));
    // The claim is known: what was announced before counts, but for the dead.
    let mut owners = machine.owners.clone();
    owners.add(1, range(200), PEER).expect("free");
    machine.set_owners(owners);
    let endpoint = EndpointId { vm: 1, address: later };
    let named = Action::Named { endpoint, name: "early".to_owned() };
    assert_eq!(actions(&mut machine), [Action::Bound { endpoint }, named]);
    // A slot of this node is none that another one may claim.
    send_frame(&mut machine, 5, bind_of(1, Address(7)), &[]);
    assert!(!machine.is_reachable(PEER));
}

#[test]
fn broken_rules_end_the_session() {
    let bound = bind_of(1, Address(3));
    let took = Frame::Took { call: CallId(1) };
    for frame in [bound, took] {
        let mut machine = machine();
        greet(&mut machine, FIRST, hello(1));
        send_frame(&mut machine, 0, frame, &[]);
        let lost = Action::NodeLost { node: PEER, cause: Failure::Broke };
        assert!(actions(&mut machine).contains(&lost));
    }
    // The death of an endpoint of another node tells nothing.
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    let _ = actions(&mut machine);
    send_frame(&mut machine, 0, Frame::Died { vm: 1, endpoint: 3 }, &[]);
    assert_eq!(actions(&mut machine), []);
    send_frame(&mut machine, 1, call_from(Address::new(1, 103).0), &[0; 39]);
    assert!(!machine.is_reachable(PEER));
}

#[test]
fn a_name_that_no_daemon_attaches_ends_the_session() {
    for (more, lives) in [(0, true), (1, false)] {
        let mut machine = machine();
        greet(&mut machine, FIRST, hello(1));
        let name = vec![b'a'; m3ipc_abi::NAME_MAX_BYTES + more];
        send_frame(&mut machine, 0, Frame::Named { vm: 1, endpoint: endpoint(1).address.0 }, &name);
        assert_eq!(machine.is_reachable(PEER), lives);
    }
}

#[test]
fn a_call_that_waits_goes_back_at_once() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    actions(&mut machine);
    let call = Call {
        from: EndpointId::of(1, 3),
        to: Address::new(1, 103),
        kind: CallKind::Send,
        user: None,
        content: Content::new(1),
        limit_ns: Some(5 * MS),
    };
    let id = machine.call(3 * MS, call).expect("accepted");
    machine.tick(5 * MS);
    let outcome = crate::Outcome::NotDelivered(Failure::Withdrawn);
    assert_eq!(actions(&mut machine), [Action::Ended { call: id, outcome }]);
    assert!(machine.outgoing.calls.is_empty());
}

#[test]
fn a_slot_of_a_peer_has_one_endpoint_at_a_time() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    actions(&mut machine);
    for (sequence, generation) in [1, 1, 1, 2, 3].into_iter().enumerate() {
        send_frame(&mut machine, sequence as u64, bound(generation), &[]);
    }
    let [one, two, three] = [1, 2, 3].map(endpoint);
    let expected = [
        Action::Bound { endpoint: one },
        Action::Died { endpoint: one },
        Action::Bound { endpoint: two },
        Action::Died { endpoint: two },
        Action::Bound { endpoint: three },
    ];
    assert_eq!(actions(&mut machine), expected);
    assert_eq!(machine.peers[&PEER].announced.len(), 1);
    // A VM that this node has no part in.
    let frame = bind_of(2, Address::new(1, 103));
    send_frame(&mut machine, 5, frame, &[]);
    assert!(!machine.is_reachable(PEER));
    assert!(machine.peers[&PEER].announced.is_empty());
}

#[test]
fn a_source_that_was_not_announced_is_nobody() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    actions(&mut machine);
    let from = Address::new(1, 103).0;
    send_frame(&mut machine, 0, call_from(from), &[0; 40]);
    let notify = Frame::Notify { vm: 1, from, to: 3, argument: 1 };
    send_frame(&mut machine, 1, notify, &[]);
    assert_eq!(actions(&mut machine), []);
    assert!(machine.is_reachable(PEER));
    assert!(machine.incoming.deliveries.is_empty());
}

fn call(vm: VmId) -> Call {
    let (from, to) = (EndpointId::of(vm, 3), Address::new(1, 103));
    Call { from, to, kind: CallKind::Send, user: None, content: Content::new(1), limit_ns: None }
}

/// Calls of a VM until no more are accepted; their number.
fn fill(machine: &mut Machine, vm: VmId) -> usize {
    (0..10_000).take_while(|_| machine.call(3 * MS, call(vm)).is_ok()).count()
}

#[test]
fn no_user_holds_all_calls_of_a_vm() {
    let mut machine = machine();
    greet(&mut machine, FIRST, Hello { admits: (1024, 512), ..hello(1) });
    actions(&mut machine);
    let by = |user: u32| Call { user: Some(user), ..call(1) };
    let held = |machine: &mut Machine, user: u32| {
        let begun = (0..10_000).map_while(|_| machine.call(3 * MS, by(user)).ok());
        begun.collect::<Vec<CallId>>()
    };
    let first = held(&mut machine, 1000);
    assert_eq!(first.len(), 384, "three quarters of 512");
    assert_eq!(machine.call(3 * MS, by(1000)), Err(CallRefusal::Share(PEER)));
    let further = [1001, 1002, 1003, 1004, 1005, 1006].map(|it| held(&mut machine, it));
    assert_eq!(further.each_ref().map(Vec::len), [96, 24, 6, 1, 1, 0]);
    assert_eq!(rooms(&mut machine), [], "nothing has ended");
    // An end makes room for those that hold little. The first user has more than its share now.
    machine.withdraw(3 * MS, further[0][0]);
    assert_eq!(rooms(&mut machine), [1]);
    assert!(machine.admits(1, Address::new(1, 103), 1006, &[]));
    assert!(!machine.admits(1, Address::new(1, 103), 1006, &[1007]), "another one takes it");
    assert!(!machine.admits(1, Address::new(1, 103), 1000, &[]));
    machine.withdraw(3 * MS, first[0]);
    assert_eq!(rooms(&mut machine), [1], "of 1006 again");
    // Deaths of callers give room back, too.
    machine.died(3 * MS, EndpointId::of(1, 3));
    assert!(machine.outgoing.calls.is_empty());
    machine.bound(3 * MS, EndpointId::of(1, 3));
    assert!(!rooms(&mut machine).is_empty(), "of each one that waits");
    assert_eq!(held(&mut machine, 1000).len(), 384);
}

fn rooms(machine: &mut Machine) -> Vec<VmId> {
    let rooms = actions(machine).into_iter().filter_map(|action| match action {
        Action::Room { vm, .. } => Some(vm),
        _ => None,
    });
    rooms.collect()
}

#[test]
fn a_full_queue_of_a_vm_has_room_when_it_is_half_empty() {
    let mut machine = machine();
    greet(&mut machine, FIRST, Hello { admits: (1024, 300), ..hello(1) });
    actions(&mut machine);
    let filled = fill(&mut machine, 1);
    assert_eq!(filled, 512);
    for sent in 1..=filled {
        let before = machine.peers[&PEER].waiting.len();
        while machine.peers[&PEER].waiting.len() == before && before > 212 {
            machine.poll_transmit(3 * MS, PEER, Lane::Message).expect("a packet");
        }
        let rooms = rooms(&mut machine);
        let is_half_empty = sent == 256;
        assert_eq!(rooms.len(), usize::from(is_half_empty), "after {sent}");
    }
}

#[test]
fn a_vm_that_is_stuck_leaves_room_to_the_others() {
    let mut owners = Owners::default();
    for vm in 1..=3 {
        owners.add(vm, range(0), OWN).expect("disjoint");
        owners.add(vm, range(100), PEER).expect("disjoint");
    }
    let settings = Settings::default();
    let mut machine = Machine::new("test", OWN, Incarnation(5), owners, [PEER], settings);
    (1..=3).for_each(|vm| machine.bound(MS, EndpointId::of(vm, 3)));
    let claims = (1..=3).map(|vm| (vm, range(100))).collect();
    greet(&mut machine, FIRST, Hello { claims, admits: (1024, 1), ..hello(1) });
    actions(&mut machine);
    // Each VM may have one call open, and the peer ends none.
    assert_eq!([1, 2].map(|vm| fill(&mut machine, vm)), [512, 512]);
    assert_eq!(fill(&mut machine, 3), 0);
    for _ in 0..10 {
        machine.poll_transmit(3 * MS, PEER, Lane::Message);
    }
    assert_eq!(rooms(&mut machine), [3]);
    assert!(machine.call(3 * MS, call(3)).is_ok());
}

#[test]
fn a_peer_that_acknowledges_no_ends_gets_no_further_calls() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    send_frame(&mut machine, 0, bound(1), &[]);
    let nobody = |sequence| {
        let (call, from) = (CallId(sequence), Address::new(1, 103).0);
        Frame::Call { call, vm: 1, from, to: 4, kind: CallKind::Send, head: HEAD, pieced: 0 }
    };
    let most = u64::from(Settings::default().limits.calls);
    for sequence in 1..=most {
        send_frame(&mut machine, sequence, nobody(sequence), &[0; 40]);
    }
    assert!(machine.is_reachable(PEER));
    // It reads on: all is well.
    while machine.poll_transmit(3 * MS, PEER, Lane::Message).is_some() {}
    send_knowing(&mut machine, most + 1, 100, nobody(most + 1), &[0; 40]);
    assert!(machine.is_reachable(PEER));
    for sequence in most + 2..=most + 101 {
        send_knowing(&mut machine, sequence, 100, nobody(sequence), &[0; 40]);
    }
    assert!(!machine.is_reachable(PEER));
    assert!(machine.bytes_of(PEER) <= Settings::default().memory_max_bytes());
}

#[test]
fn a_peer_that_reads_nothing_is_lost_before_its_queue_grows_for_ever() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    let watch = Frame::Watch { vm: 1, endpoint: 4 };
    let mut sequence = 0;
    while machine.is_reachable(PEER) {
        send_frame(&mut machine, sequence, watch.clone(), &[]);
        sequence += 1;
        assert!(machine.bytes_of(PEER) <= Settings::default().memory_max_bytes());
        assert!(sequence < 100_000, "the queue has no bound");
    }
    let lost = Action::NodeLost { node: PEER, cause: Failure::LinkDown };
    assert!(actions(&mut machine).contains(&lost));
}

#[test]
fn a_session_begins_with_the_announcement_of_any_number_of_endpoints() {
    let mut machine = machine();
    let endpoint = EndpointId::of(1, 3);
    for number in 0..70_000 {
        machine.named(MS, endpoint, &number.to_string());
    }
    greet(&mut machine, FIRST, hello(1));
    assert!(machine.is_reachable(PEER));
    assert_eq!(sent_frames(&mut machine).len(), 1024, "the window");
}

#[test]
fn a_connection_cannot_begin_sessions_without_end() {
    let mut machine = machine();
    machine.connected(2 * MS, PEER, FIRST);
    let mut refused = None;
    let mut begun = 0;
    for session in 1..100 {
        let hello = Packet::Hello(Hello { session, ..hello(1) });
        machine.received(2 * MS, PEER, FIRST, encode(&hello, &[]));
        let actions = actions(&mut machine);
        begun += actions.iter().filter(|it| matches!(it, Action::NodeUp { .. })).count();
        refused = refused.or(actions.into_iter().find_map(|action| match action {
            Action::Refused { why, by_peer: false, .. } => Some(why),
            _ => None,
        }));
        while machine.poll_transmit(2 * MS, PEER, Lane::Message).is_some() {}
    }
    assert_eq!((begun, refused), (8, Some(RefusalCode::Broke)));
}

#[test]
fn a_session_is_resumed_on_both_sides_even_if_the_greeting_of_the_peer_comes_first() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    while machine.poll_transmit(2 * MS, PEER, Lane::Message).is_some() {}
    machine.disconnected(3 * MS, PEER, FIRST);
    // The peer names this side, and waits for its greeting.
    let partner = Some((Incarnation(5), 1));
    greet(&mut machine, SECOND, Hello { partner, ..hello(1) });
    let sent = machine.poll_transmit(3 * MS, PEER, Lane::Message).expect("a packet");
    assert_eq!(sent.connection, SECOND);
    assert!(matches!(decode(&sent.into_packet()), Ok((Packet::Hello(_), _))));
    assert!(machine.is_reachable(PEER));
}

#[test]
fn silence_counts_once_also_if_the_connection_ends_for_it() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    for at in 1..=25 {
        machine.tick((2 + at * 100) * MS);
    }
    machine.disconnected(2_502 * MS, PEER, FIRST);
    for at in 26..=29 {
        machine.tick((2 + at * 100) * MS);
        assert!(machine.is_reachable(PEER), "after {at} tenths of a second");
    }
    machine.tick(3_002 * MS);
    assert!(!machine.is_reachable(PEER));
}

#[test]
fn a_proxy_that_has_surely_ended_is_lost_without_the_rest_of_the_grace() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    send_frame(&mut machine, 0, bound(1), &[]);
    let call = machine.call(3 * MS, call(1)).expect("it is announced");
    actions(&mut machine);
    // It is connected: nobody can know of an end.
    machine.gone(4 * MS, PEER, EndSign::Refused);
    assert!(machine.is_reachable(PEER));
    machine.disconnected(5 * MS, PEER, FIRST);
    assert!(machine.is_reachable(PEER), "a flap");
    machine.gone(5 * MS, PEER, EndSign::Refused);
    assert!(!machine.is_reachable(PEER));
    let ends = actions(&mut machine);
    let cause = Failure::LinkDown;
    assert!(ends.contains(&Action::NodeLost { node: PEER, cause }), "{ends:?}");
    let is_end = |it: &&Action| matches!(it, Action::Ended { call: ended, .. } if *ended == call);
    assert_eq!(ends.iter().filter(is_end).count(), 1, "{ends:?}");
    // Its number is burnt: what comes of the former session counts for nothing.
    send_frame(&mut machine, 1, bound(2), &[]);
    assert!(actions(&mut machine).is_empty());
}

/// Frames that a machine sends now, in their order.
pub(super) fn sent_frames(machine: &mut Machine) -> Vec<Frame> {
    let packets = std::iter::from_fn(|| machine.poll_transmit(4 * MS, PEER, Lane::Message));
    let packets: Vec<_> =
        packets.map(|it| decode(&it.into_packet()).expect("a packet").0).collect();
    packets
        .into_iter()
        .filter_map(|packet| match packet {
            Packet::Data { frame, .. } => Some(frame),
            _ => None,
        })
        .collect()
}

#[test]
fn an_answer_does_not_pass_the_notification_before_it() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    send_frame(&mut machine, 0, bound(1), &[]);
    let call = Frame::Call {
        call: CallId(9),
        vm: 1,
        from: endpoint(1).address.0,
        to: 3,
        kind: CallKind::Request,
        head: HEAD,
        pieced: 0,
    };
    send_frame(&mut machine, 1, call, &[0; 40]);
    let delivery = actions(&mut machine).into_iter().find_map(|action| match action {
        Action::Deliver { delivery, .. } => Some(delivery),
        _ => None,
    });
    let delivery = delivery.expect("a delivery");
    machine.taken(3 * MS, delivery);
    machine.notify(3 * MS, EndpointId::of(1, 3), endpoint(1).address, 1).expect("room");
    machine.answer(3 * MS, delivery, AnswerKind::Reply, &Content::new(5)).expect("awaited");
    let frames = sent_frames(&mut machine);
    let at = |is_it: fn(&Frame) -> bool| frames.iter().position(is_it).expect("sent");
    let notified = at(|frame| matches!(frame, Frame::Notify { .. }));
    assert!(notified < at(|frame| matches!(frame, Frame::End { .. })), "{frames:?}");
}

/// The packets of a machine, delivered to the other one on the same connection.
fn carry(from: &mut Machine, to: &mut Machine, now_ns: u64) -> bool {
    let mut any = false;
    while let Some(sent) = from.poll_transmit(now_ns, to.node(), Lane::Message) {
        to.received(now_ns, from.node(), sent.connection, sent.into_packet());
        any = true;
    }
    any
}

#[test]
fn two_connections_that_come_in_another_order_to_each_side_end_as_one() {
    let mut owners = Owners::default();
    owners.add(1, range(0), OWN).expect("disjoint");
    owners.add(1, range(100), PEER).expect("disjoint");
    let make = |own, peer| {
        let settings = Settings::default();
        Machine::new("test", own, Incarnation(5), owners.clone(), [peer], settings)
    };
    let (mut one, mut other) = (make(OWN, PEER), make(PEER, OWN));
    let connect = |one: &mut Machine, other: &mut Machine, now_ns, ids: [ConnectionId; 2]| {
        one.connected(now_ns, PEER, ids[0]);
        other.connected(now_ns, OWN, ids[1]);
    };
    let begin = ConnectionId(9);
    connect(&mut one, &mut other, MS, [begin, begin]);
    while carry(&mut one, &mut other, MS) | carry(&mut other, &mut one, MS) {}
    assert!(one.is_reachable(PEER) && other.is_reachable(OWN));
    // The session goes on over two connections.
    one.disconnected(2 * MS, PEER, begin);
    other.disconnected(2 * MS, OWN, begin);
    connect(&mut one, &mut other, 3 * MS, [FIRST, SECOND]);
    // The first greetings are lost.
    while one.poll_transmit(3 * MS, PEER, Lane::Message).is_some() {}
    while other.poll_transmit(3 * MS, OWN, Lane::Message).is_some() {}
    connect(&mut one, &mut other, 3 * MS, [SECOND, FIRST]);
    let mut closed = Vec::new();
    for round in 0..6 {
        let now_ns = (4 + 600 * round) * MS;
        one.tick(now_ns);
        other.tick(now_ns);
        while carry(&mut one, &mut other, now_ns) | carry(&mut other, &mut one, now_ns) {}
        for machine in [&mut one, &mut other] {
            closed.extend(actions(machine).into_iter().filter_map(|action| match action {
                Action::Close { connection, .. } => Some(connection),
                _ => None,
            }));
        }
    }
    assert!(!closed.is_empty(), "each side goes on with another connection");
    // What one side sends is the other one's.
    one.bound(4_000 * MS, EndpointId::of(1, 7));
    carry(&mut one, &mut other, 4_000 * MS);
    let bound = Action::Bound { endpoint: EndpointId::of(1, 7) };
    assert!(actions(&mut other).contains(&bound));
}
