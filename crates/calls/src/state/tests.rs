//! The rules of the state, frame by frame.

use super::*;

const TO: Address = Address(5);

fn frame(kind: Kind, number: u64, body: &[u8]) -> Frame<'_> {
    Frame { kind, number, body }
}

#[test]
fn numbers_do_not_restart_after_the_end_of_a_peer() {
    let shared = Shared::default();
    let first = shared.add(TO, Vec::new(), 0, None).unwrap();
    let mut state = shared.state();
    let epoch = state.peer(TO.0).epoch;
    state.end_peer(TO.0, &Reason::PeerBroke);
    drop(state);
    let second = shared.add(TO, Vec::new(), 0, None).unwrap();
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
    shared.add(TO, Vec::new(), 0, None).unwrap();
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
    assert_eq!(apply(Kind::Down, &[1; FIRST_DOWN / 4]), (true, 1));
    assert_eq!(apply(Kind::Down, &[1; FIRST_DOWN / 4]), (true, 2));
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
    let mut ends = [0, 1].map(|_| shared.add(TO, Vec::new(), 0, None).unwrap().1);
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
