//! Any bytes as packets of another node, to a machine with open calls.

use m3ipc_abi::Address;
use m3ipc_fabric::{
    Action, AnswerKind, Call, CallKind, ConnectionId, Content, CopyOrder, DeliveryId, EndpointId,
    Hello, Incarnation, Lane, Machine, NodeId, Owners, Packet, Settings, SlotRange, VERSIONS,
    decode, encode,
};

use crate::input::Input;

const OWN: NodeId = NodeId(1);
const PEER: NodeId = NodeId(2);

/// Decodes the bytes as one packet, then feeds them piece by piece to a machine.
///
/// ```
/// m3ipc_test_fuzz::packets(&[3, 1, 2, 3]);
/// ```
///
/// # Panics
/// If a decoded packet does not survive its encoding, or the machine keeps more than its limit.
pub fn packets(bytes: &[u8]) {
    if let Ok((packet, body)) = decode(bytes) {
        assert_eq!(decode(&encode(&packet, body)), Ok((packet, body)));
    }
    let mut input = Input::new(bytes);
    let mut machine = machine();
    let (mut deliveries, mut copies) = (Vec::new(), Vec::new());
    let (mut now_ns, mut connection) = (1_000_000, 0);
    greet(&mut machine, now_ns, &mut connection);
    while !input.is_empty() {
        now_ns += u64::from(input.short()) * 10_000;
        let id = ConnectionId(connection);
        match input.byte() {
            0..150 => machine.received(now_ns, PEER, id, input.run().to_vec()),
            150..180 => call(&mut machine, now_ns, input.byte()),
            180..200 => machine.tick(now_ns),
            200..220 => {
                let delivery: DeliveryId = deliveries.pop().unwrap_or(DeliveryId(1));
                machine.taken(now_ns, delivery);
                let content = Content::new(1);
                let _ = machine.answer(now_ns, delivery, AnswerKind::Reply, &content);
            }
            220..230 => machine.disconnected(now_ns, PEER, id),
            230..236 => {
                let place = input.word();
                let order = CopyOrder {
                    is_write: place.is_multiple_of(2),
                    space: 0,
                    place,
                    bytes: 1 << 20,
                };
                let requester = EndpointId::new(1, Address(3));
                copies.extend(machine.copy(now_ns, requester, Address::new(1, 103), order));
            }
            236..242 => {
                if let Some(copy) = copies.pop() {
                    let room = machine.copy_room(copy).min(100_000);
                    machine.copy_give(now_ns, copy, vec![7; room].into());
                    match input.byte() {
                        0..80 => machine.copy_done(now_ns, copy, 0, 1 << 20),
                        80..120 => machine.copy_abort(now_ns, copy),
                        _ => copies.push(copy),
                    }
                }
            }
            _ => greet(&mut machine, now_ns, &mut connection),
        }
        while let Some(action) = machine.poll_action() {
            match action {
                Action::Deliver { delivery, .. } => deliveries.push(delivery),
                Action::CopyBegin { copy, .. } => copies.push(copy),
                Action::CopyBytes { copy, bytes } => {
                    machine.copy_taken(now_ns, copy, bytes.len() as u64);
                }
                _ => {}
            }
        }
        for lane in Lane::ALL {
            while machine.poll_transmit(now_ns, PEER, lane).is_some() {}
        }
        assert!(machine.bytes_of(PEER) <= Settings::default().memory_max_bytes());
    }
}

fn machine() -> Machine {
    let mut owners = Owners::default();
    for (node, first) in [(OWN, 0), (PEER, 100)] {
        let range = SlotRange::new(first, first + 99).expect("not empty");
        owners.add(1, range, node).expect("disjoint");
    }
    let settings = Settings::default();
    let mut machine = Machine::new("fuzz", OWN, Incarnation(1), owners, [PEER], settings);
    machine.bound(1, EndpointId::new(1, Address(3)));
    machine
}

fn call(machine: &mut Machine, now_ns: u64, kind: u8) {
    let mut content = Content::new(1);
    content.long = vec![1; if kind < 200 { 0 } else { 70_000 }];
    let kind = [CallKind::Send, CallKind::Request, CallKind::Wakeup][usize::from(kind) % 3];
    let from = EndpointId::new(1, Address(3));
    let call = Call {
        from,
        to: Address::new(1, 103),
        kind,
        user: None,
        content,
        limit_ns: Some(now_ns + 50_000_000),
    };
    let _ = machine.call(now_ns, call);
}

/// A new connection with a right greeting: what follows may reach the session.
fn greet(machine: &mut Machine, now_ns: u64, connection: &mut u64) {
    *connection += 1;
    machine.connected(now_ns, PEER, ConnectionId(*connection));
    let hello = Hello {
        magic: u32::from_le_bytes(*b"m3n1"),
        versions: VERSIONS,
        cluster: "fuzz".to_owned(),
        from: PEER,
        to: OWN,
        incarnation: Incarnation(1),
        session: *connection,
        partner: None,
        expected: [0, 0],
        admits: (10, 10),
        claims: vec![(1, SlotRange::new(100, 199).expect("not empty"))],
    };
    let id = ConnectionId(*connection);
    machine.received(now_ns, PEER, id, encode(&Packet::Hello(hello), &[]));
}
