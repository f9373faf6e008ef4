//! Models of requests: answered, given up, cut short by a death, woken up.

use crate::party::{Detail, Party, contents, pair, value_of};
use crate::weak::{Twist, note_end, twisted};
use loom::thread;
use m3ipc_link::{AnswerOutcome, FLAG_WOKEN, MessageKind, SlotState};

const CONTENTS: Detail = Detail { contents: true, stamps: true, notes: false };
const STAMPS: Detail = Detail { contents: false, stamps: true, notes: false };
const QUESTION: u8 = 1;
const ANSWER: u8 = 2;

/// How a request ended for who made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Answered,
    /// It went back.
    NotTaken,
    /// It was taken, and no answer counts any more.
    Taken,
}

/// What a server did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Served {
    Nothing,
    Took,
    Answered,
    /// It is told that nobody awaits its answer.
    Refused,
}

/// Both sleep for each other: the request is answered, and both messages are whole.
pub fn answer() {
    let (mut client, mut server) = pair(CONTENTS);
    let serving = thread::spawn(move || {
        let incoming = server.wait(Party::take_any);
        assert_eq!(value_of(&incoming), QUESTION);
        assert_eq!(answer_with(&mut server, ANSWER), AnswerOutcome::Posted);
        server.alert();
    });
    let request = client.post(MessageKind::Request, 9, QUESTION);
    let incoming = client.wait(|party| party.take_answer(request));
    assert_eq!(value_of(&incoming), ANSWER);
    serving.join().expect("the server ends");
}

/// The client gives up at any moment: an answer is posted if and only if the
/// client gets it, and a request that went back was not taken.
pub fn give_up() {
    let (mut client, mut server) = pair(CONTENTS);
    let serving = thread::spawn(move || {
        for _attempt in 0..2 {
            if server.take_any().is_some() {
                return serve_taken(&mut server);
            }
        }
        Served::Nothing
    });
    let request = client.post(MessageKind::Request, 9, QUESTION);
    let end = settle(&mut client, request);
    let served = serving.join().expect("the server ends");
    check(end, served);
}

/// The client gives up and asks again: the answer to the first request never
/// counts as one to the second.
pub fn ask_again() {
    let (mut client, mut server) = pair(STAMPS);
    let first = client.post(MessageKind::Request, 9, QUESTION);
    server.take_any().expect("the request is there");
    let serving = thread::spawn(move || {
        let first = serve_taken(&mut server);
        let second = match server.take_any() {
            Some(_request) => serve_taken(&mut server),
            None => Served::Nothing,
        };
        (first, second)
    });
    let first_end = settle(&mut client, first);
    let mut second_end = None;
    if client.link.is_free() == Ok(true) {
        let second = client.post(MessageKind::Request, 9, QUESTION);
        second_end = Some(match client.take_answer(second) {
            Some(_answer) => End::Answered,
            None => settle(&mut client, second),
        });
    }
    let (first_served, second_served) = serving.join().expect("the server ends");
    check(first_end, first_served);
    check(second_end.expect("a request that is over leaves its cell"), second_served);
}

fn serve_taken(server: &mut Party) -> Served {
    match answer_with(server, ANSWER) {
        AnswerOutcome::Posted => Served::Answered,
        AnswerOutcome::NotAwaited => Served::Refused,
    }
}

fn answer_with(server: &mut Party, value: u8) -> AnswerOutcome {
    let (m_type, payload) = contents(value);
    if twisted(Twist::AnswerBlindly) {
        if !server.link.owes_answer() || server.link.is_free() != Ok(true) {
            return AnswerOutcome::NotAwaited;
        }
        // The models count requests from 1, as links do.
        server.link.post(MessageKind::Reply, 1, m_type, &payload, &[]);
        return AnswerOutcome::Posted;
    }
    server.link.answer(MessageKind::Reply, m_type, &payload, &[]).expect("no rule is broken")
}

/// Ends a request, as `Endpoint::settle_request`.
fn settle(client: &mut Party, request: SlotState) -> End {
    if client.link.withdraw(request).expect("no rule is broken") {
        return End::NotTaken;
    }
    if twisted(Twist::DeathIsNotTaken) {
        return End::NotTaken;
    }
    if twisted(Twist::LookBeforeGivingUp) {
        let early = client.take_answer(request);
        client.link.abandon(request);
        return if early.is_some() { End::Answered } else { End::Taken };
    }
    client.link.abandon(request);
    match client.take_answer(request) {
        Some(_answer) => End::Answered,
        None => End::Taken,
    }
}

/// One end for both sides; a server that died with its answer unsent took the request.
fn check(end: End, served: Served) {
    let fits = match end {
        End::Answered => served == Served::Answered,
        End::NotTaken => served == Served::Nothing,
        End::Taken => matches!(served, Served::Took | Served::Refused),
    };
    note_end((end, served));
    assert!(fits, "the client says {end:?}, the server {served:?}");
}

/// The server dies, and the daemon tells: the client ends, with exactly one of
/// answered, taken and not taken.
pub fn death_before_take() {
    death(Served::Nothing, true);
}

/// The same where it had time to take the request.
pub fn death_after_take() {
    death(Served::Took, true);
}

/// The same where it had time to answer, but not to wake anybody.
pub fn death_after_answer() {
    death(Served::Answered, true);
}

/// The daemon tells of an end while the server still answers.
pub fn news_while_answering() {
    death(Served::Answered, false);
}

/// The server gets as far as `last_step`; where it dies there, the daemon tells afterwards.
fn death(last_step: Served, dies: bool) {
    let (mut client, mut server) = pair(STAMPS);
    let daemon = client.give_desk();
    let asking = thread::spawn(move || {
        let request = client.post(MessageKind::Request, 9, QUESTION);
        let answered = client.wait(|party| {
            if let Some(_answer) = party.take_answer(request) {
                return Some(true);
            }
            party.hears().then_some(false)
        });
        if answered { End::Answered } else { settle(&mut client, request) }
    });
    let serving = thread::spawn(move || {
        if last_step == Served::Nothing || server.take_any().is_none() {
            return Served::Nothing;
        }
        if last_step == Served::Took {
            return Served::Took;
        }
        let served = serve_taken(&mut server);
        if !dies {
            server.alert();
        }
        served
    });
    let served = if dies {
        let served = serving.join().expect("the server ends");
        daemon.announce_event();
        served
    } else {
        daemon.announce_event();
        serving.join().expect("the server ends")
    };
    check(asking.join().expect("the client ends"), served);
}

/// A server that has answered waits for the cell, to send: whoever takes the answer wakes it.
pub fn cell_of_answer() {
    let (mut client, mut server) = pair(STAMPS);
    let request = client.post(MessageKind::Request, 9, QUESTION);
    server.take_any().expect("the request is there");
    assert_eq!(answer_with(&mut server, ANSWER), AnswerOutcome::Posted);
    let serving = thread::spawn(move || {
        server.wait(|party| (party.link.is_free() == Ok(true)).then_some(()));
    });
    client.take_answer(request).expect("the answer is there");
    serving.join().expect("the server ends");
}

/// The daemon raises a flag and tells: a receiver about to sleep sees it.
pub fn wakeup() {
    let (mut receiver, _peer) = pair(Detail::default());
    let daemon = receiver.give_desk();
    let waking = thread::spawn(move || {
        daemon.raise(FLAG_WOKEN);
        daemon.announce_event();
    });
    receiver.wait(|party| {
        if twisted(Twist::FlagsBeforeNews) {
            let woken = party.is_woken();
            party.hears();
            return woken.then_some(());
        }
        party.hears();
        party.is_woken().then_some(())
    });
    waking.join().expect("the daemon goes on");
}
