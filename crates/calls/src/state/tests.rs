//! The rules of the state, frame by frame.

use super::*;

const TO: Address = Address(5);

fn frame(kind: Kind, number: u64, body: &[u8]) -> Frame<'_> {
    Frame { kind, number, body }
}

#[test]
fn numbers_do_not_restart_after_the_end_of_a_peer() {
    let shared = Shared::default();
    let first = shared.add(TO, Vec::new(), 0, false).unwrap();
    let mut state = shared.state();
    let epoch = state.peer(TO.0).epoch;
    state.end_peer(TO.0, &Reason::PeerBroke);
    drop(state);
    let second = shared.add(TO, Vec::new(), 0, false).unwrap();
    assert_eq!((first.0, second.0), (0, 1));
    let mut state = shared.state();
    assert!(state.peer_of(TO.0, epoch).is_none());
    // A late answer to a number of before is no error; one of the future is.
    let peer = state.peer(TO.0);
    let config = Config::default();
    assert!(peer.apply(&frame(Kind::Answer, 0, b""), &config, Ok(())).is_ok());
    assert!(peer.apply(&frame(Kind::Answer, 2, b""), &config, Ok(())).is_err());
}

#[test]
fn a_stream_without_a_reader_costs_few_replies() {
    let shared = Shared::default();
    shared.add(TO, Vec::new(), 0, false).unwrap();
    let mut state = shared.state();
    let peer = state.peer(TO.0);
    peer.pack().unwrap();
    let config = Config::default();
    let mut apply = |kind, body: &[u8]| {
        let applied = peer.apply(&frame(kind, 0, body), &config, Ok(()));
        (applied.is_ok(), peer.queue.len())
    };
    assert_eq!(apply(Kind::Down, b""), (false, 0));
    assert_eq!(apply(Kind::CreditUp, &[1; 8]), (true, 1));
    assert_eq!(apply(Kind::CreditUp, &[1; 8]), (true, 1));
    assert_eq!(apply(Kind::Down, &[1; FIRST_DOWN / 8]), (true, 1));
    assert_eq!(apply(Kind::Down, &[1; FIRST_DOWN / 8]), (true, 2));
}

#[test]
fn the_numbers_of_a_peer_must_rise() {
    let (mut peer, config) = (Peer::default(), Config::default());
    let mut apply = |kind, number| peer.apply(&frame(kind, number, &[0; 8]), &config, Ok(()));
    assert!(apply(Kind::Request, 3).is_ok());
    assert!(apply(Kind::Cancel, 3).is_ok());
    assert!(apply(Kind::Request, 3).is_err());
    assert!(apply(Kind::Request, u64::MAX).is_err());
    assert!(apply(Kind::Request, 4).is_ok());
}

#[test]
fn an_answer_to_a_posted_request_and_a_withdrawal_count_it_once() {
    let shared = Shared::default();
    let mut ends = [0, 1].map(|_| shared.add(TO, Vec::new(), 0, false).unwrap().1);
    let mut state = shared.state();
    let peer = state.peers.get_mut(&TO.0).unwrap();
    let (_, manifest) = peer.pack().unwrap();
    let answer = frame(Kind::Answer, 0, b"early");
    peer.apply(&answer, &Config::default(), Ok(())).unwrap();
    assert_eq!(ends[0].try_recv().unwrap(), Ok(b"early".to_vec()));
    peer.train_withdrawn(manifest);
    assert_eq!(peer.in_flight, 0);
    let (_, manifest) = peer.pack().unwrap();
    assert_eq!((manifest.requests, peer.in_flight), (vec![1], 1));
}

#[test]
fn a_refused_train_ends_its_own_calls_alone() {
    let shared = Shared::default();
    let mut ends =
        [vec![0; 5000], Vec::new()].map(|body| shared.add(TO, body, 0, false).unwrap().1);
    let mut state = shared.state();
    let peer = state.peers.get_mut(&TO.0).unwrap();
    let (_, manifest) = peer.pack().unwrap();
    assert_eq!(manifest.requests, vec![0], "a long request goes alone");
    let reason = Reason::Link(m3ipc::SendError::TooLong { bytes: 5024, max_bytes: 4096 });
    assert!(peer.train_refused(manifest, &reason));
    assert_eq!(ends[0].try_recv().unwrap(), Err(CallError::NotTaken(reason.clone())));
    // An answer becomes a fault, which its client gets.
    let request = [0; 8];
    let begun = peer.apply(&frame(Kind::Request, 0, &request), &Config::default(), Ok(())).unwrap();
    assert!(begun.is_some() && peer.answer(0, Answer::Bytes(&[0; 5000]), 0));
    let mut faults = Vec::new();
    while let Some((train, manifest)) = peer.pack() {
        if train.len() > 4096 {
            assert!(peer.train_refused(manifest, &reason));
        } else {
            faults.extend(kinds(&train).into_iter().filter(|it| it.0 == Kind::Fault));
            peer.train_taken(manifest);
        }
    }
    assert_eq!((faults, peer.answers, peer.queued), (vec![(Kind::Fault, 0)], 0, 0));
    assert!(ends[1].try_recv().is_err(), "the other request goes on");
}

/// The kinds and numbers of the frames of a train.
fn kinds(train: &[u8]) -> Vec<(Kind, u64)> {
    let mut rest = train;
    let mut kinds = Vec::new();
    while !rest.is_empty() {
        let frame = frame::pop(&mut rest).unwrap();
        kinds.push((frame.kind, frame.number));
    }
    kinds
}

#[test]
fn the_end_of_a_stream_never_leaves_before_its_request() {
    let shared = Shared::default();
    let _ends: Vec<_> = (0..=FIRST_WINDOW).map(|_| shared.add(TO, Vec::new(), 0, true)).collect();
    let mut state = shared.state();
    let peer = state.peers.get_mut(&TO.0).unwrap();
    (0..=FIRST_WINDOW).for_each(|number| peer.finish(number));
    let first = |number| [(Kind::Request, number), (Kind::UpEnd, number)];
    let mut expected: Vec<_> = (0..FIRST_WINDOW).flat_map(first).collect();
    // Of two trains, one has its requests last. A withdrawn one comes again in the same order.
    while !expected.is_empty() {
        for is_taken in [false, false, true] {
            let (train, manifest) = peer.pack().unwrap();
            let kinds = kinds(&train);
            assert_eq!(kinds, expected[..kinds.len()]);
            if is_taken {
                peer.train_taken(manifest);
                expected.drain(..kinds.len());
            } else {
                peer.train_withdrawn(manifest);
            }
        }
    }
    assert!(peer.pack().is_none(), "the last request waits behind the window, and its end with it");
    peer.apply(&frame(Kind::Answer, 0, b""), &Config::default(), Ok(())).unwrap();
    assert_eq!(kinds(&peer.pack().unwrap().0), first(FIRST_WINDOW));
}

#[test]
fn the_end_of_a_stream_leaves_once_after_its_posted_request() {
    let shared = Shared::default();
    let _end = shared.add(TO, Vec::new(), 0, true);
    let mut state = shared.state();
    let peer = state.peers.get_mut(&TO.0).unwrap();
    let (_, manifest) = peer.pack().unwrap();
    peer.finish(0);
    assert!(peer.queue.is_empty());
    peer.train_taken(manifest);
    peer.finish(0);
    assert_eq!(kinds(&peer.pack().unwrap().0), [(Kind::UpEnd, 0)]);
    assert!(!peer.queue_piece(Kind::Up, 0, b"late", 0));
}

#[tokio::test]
async fn small_pieces_cost_few_grants() {
    let shared = std::sync::Arc::new(Shared::default());
    let (number, _ended, half) = shared.add(TO, Vec::new(), 0, true).unwrap();
    let (half, shared_too) = (half.unwrap(), std::sync::Arc::clone(&shared));
    let (epoch, is_asked, consumed) = (None, false, 0);
    let mut stream = crate::stream_user::Stream {
        shared: shared_too,
        peer: TO,
        number,
        half,
        epoch,
        is_asked,
        consumed,
    };
    let _posted = shared.state().peer(TO.0).pack().unwrap();
    for _ in 0..1000 {
        let down = frame(Kind::Down, number, b"x");
        shared.state().peer(TO.0).apply(&down, &Config::default(), Ok(())).unwrap();
        assert!(stream.next().await.is_some());
    }
    assert_eq!(shared.state().peer(TO.0).queue.len(), 0);
}

#[test]
fn a_peer_that_causes_frames_and_takes_none_is_malformed() {
    let shared = Shared::default();
    shared.add(TO, Vec::new(), 0, false).unwrap();
    let mut state = shared.state();
    let peer = state.peer(TO.0);
    peer.pack().unwrap();
    let config = Config { window: 1, ..Config::default() };
    let piece = [1; FIRST_DOWN / 4];
    let mut down = || peer.apply(&frame(Kind::Down, 0, &piece), &config, Ok(())).is_ok();
    assert!((0..100_000).any(|_| !down()), "each piece has its grant in the queue");
}

#[test]
fn the_take_of_a_train_gives_its_room_back() {
    let (mut peer, config) = (Peer::default(), Config::default());
    let begun = peer.apply(&frame(Kind::Request, 0, &[0; 8]), &config, Ok(())).unwrap().unwrap();
    let cost = 1000;
    begun.stream.room.take_now(cost);
    let left = begun.stream.room.left();
    assert!(peer.queue_piece(Kind::Down, 0, b"piece", cost));
    let (_, manifest) = peer.pack().unwrap();
    peer.train_withdrawn(manifest);
    assert_eq!(begun.stream.room.left(), left);
    let (_, manifest) = peer.pack().unwrap();
    peer.train_taken(manifest);
    assert_eq!((begun.stream.room.left(), peer.queued), (left + cost, 0));
}
