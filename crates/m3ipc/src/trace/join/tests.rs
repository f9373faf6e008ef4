use super::*;

const CLIENT: Address = Address(29);
const SERVER: Address = Address(30);

fn gave(kind: MessageKind, sequence: u64, answers: u64, peer: Address, begun: u64) -> TraceRecord {
    TraceRecord {
        what: TraceWhat::Message(kind),
        sequence,
        answers,
        peer,
        m_type: 7,
        bytes: 0,
        half: TraceHalf::Gave { begun, ready: begun + 10, published: begun + 15, wake: None },
    }
}

fn took(kind: MessageKind, sequence: u64, answers: u64, peer: Address, looked: u64) -> TraceRecord {
    TraceRecord {
        half: TraceHalf::Took {
            ran: None,
            looked,
            found: looked + 5,
            taken: looked + 8,
            done: looked + 11,
        },
        ..gave(kind, sequence, answers, peer, 0)
    }
}

/// The four records of one call.
fn halves() -> [(Address, TraceRecord); 4] {
    [
        (CLIENT, gave(MessageKind::Request, 4, 0, SERVER, 100)),
        (SERVER, took(MessageKind::Request, 4, 0, CLIENT, 140)),
        (SERVER, gave(MessageKind::Reply, 9, 4, CLIENT, 160)),
        (CLIENT, took(MessageKind::Reply, 9, 4, SERVER, 200)),
    ]
}

#[test]
fn halves_make_a_call_in_whatever_order_rings_are_read() {
    // The records of one endpoint come in order; those of two endpoints in any order.
    for order in [[0, 1, 2, 3], [0, 3, 1, 2], [1, 2, 0, 3]] {
        let mut join = Join::new(10);
        for at in order {
            let (endpoint, record) = halves()[at];
            join.add(endpoint, &record);
        }
        assert_eq!(join.take_transfers().len(), 2, "{order:?}");
        let calls = join.take_calls();
        let Some(call) = calls.first() else { panic!("no call from {order:?}") };
        assert_eq!(
            (call.request.from, call.request.to, call.answer.from),
            (CLIENT, SERVER, SERVER)
        );
        assert_eq!(call.ticks(), 111);
        assert_eq!(call.phases().total(), 111);
        assert_eq!(call.phases().server, 9);
        assert_eq!(join.single(), 0);
    }
}

#[test]
fn an_answer_to_another_request_is_no_end_of_this_one() {
    let mut join = Join::new(10);
    let [request, taken, ..] = halves();
    join.add(request.0, &request.1);
    join.add(taken.0, &taken.1);
    join.add(SERVER, &gave(MessageKind::Reply, 9, 3, CLIENT, 160));
    join.add(CLIENT, &took(MessageKind::Reply, 9, 3, SERVER, 200));
    assert!(join.take_calls().is_empty());
}

#[test]
fn what_never_finds_its_other_half_is_bounded_and_counted() {
    let mut join = Join::new(10);
    for sequence in 0..1_000 {
        join.add(CLIENT, &gave(MessageKind::Send, sequence, 0, SERVER, 1));
    }
    // A liar may write the same record again and again.
    for _ in 0..1_000 {
        join.add(CLIENT, &gave(MessageKind::Send, 5, 0, SERVER, 1));
    }
    let halves = |join: &Join| {
        join.waiting.values().map(|ways| ways.gave.len() + ways.took.len()).sum::<usize>()
    };
    assert!(
        halves(&join) <= 11 && join.order.len() <= 11,
        "{} {}",
        halves(&join),
        join.order.len()
    );
    assert!(join.single() > 1_900);
    // Requests without answers.
    for sequence in 0..1_000 {
        join.add(CLIENT, &gave(MessageKind::Request, sequence, 0, SERVER, 1));
        join.add(SERVER, &took(MessageKind::Request, sequence, 0, CLIENT, 1));
    }
    assert!(join.waiting.values().all(|ways| ways.requests.len() <= REQUESTS));
    // A liar that names endpoints that do not exist.
    for peer in 0..1_000 {
        join.add(CLIENT, &gave(MessageKind::Send, 1, 0, Address(1_000 + peer), 1));
    }
    assert!(join.waiting.len() <= 12, "{}", join.waiting.len());
}

#[test]
fn what_was_lost_on_one_side_keeps_nobody_from_its_other_half() {
    let mut join = Join::new(100);
    for sequence in 1..=6 {
        join.add(CLIENT, &gave(MessageKind::Send, sequence, 0, SERVER, 100 * sequence));
    }
    // Records 1 to 3 were overwritten before they could be read.
    for sequence in 4..=6 {
        join.add(SERVER, &took(MessageKind::Send, sequence, 0, CLIENT, 100 * sequence + 50));
    }
    let joined: Vec<u64> = join.take_transfers().iter().map(|transfer| transfer.sequence).collect();
    assert_eq!((joined, join.single()), (vec![4, 5, 6], 3));
}

#[test]
fn numbers_that_begin_anew_are_those_of_a_new_link() {
    let mut join = Join::new(100);
    join.add(SERVER, &took(MessageKind::Send, 900, 0, CLIENT, 50));
    for sequence in 1..=3 {
        join.add(CLIENT, &gave(MessageKind::Send, sequence, 0, SERVER, 100));
        join.add(SERVER, &took(MessageKind::Send, sequence, 0, CLIENT, 150));
    }
    assert_eq!(join.take_transfers().len(), 3);
}

#[test]
fn of_notifications_that_became_one_the_last_counts() {
    let mut join = Join::new(100);
    let note = |half: TraceRecord| TraceRecord { what: TraceWhat::Notify, sequence: 0, ..half };
    for begun in [100, 200, 300] {
        join.add(CLIENT, &note(gave(MessageKind::Send, 0, 0, SERVER, begun)));
    }
    join.add(SERVER, &note(took(MessageKind::Send, 0, 0, CLIENT, 400)));
    let transfers = join.take_transfers();
    assert_eq!((transfers.len(), transfers[0].begun, join.single()), (1, 300, 2));
}

#[test]
fn a_copy_is_whole_by_itself() {
    let mut join = Join::new(10);
    let copied = TraceRecord {
        what: TraceWhat::Copy,
        sequence: 0,
        bytes: 4_096,
        ..gave(MessageKind::Send, 0, 0, SERVER, 100)
    };
    join.add(CLIENT, &copied);
    let transfers = join.take_transfers();
    assert_eq!((transfers.len(), transfers[0].bytes, transfers[0].done), (1, 4_096, 115));
}
