//! Models of requests: answered, cancelled, ended by a death; and of a wakeup.

use crate::model_endpoint::{Detail, ModelEndpoint, contents, pair, value_of};
use crate::weakness::{Twist, note_end, twisted};
use loom::thread;
use m3ipc_abi::Message;
use m3ipc_link::waiting::EndsWait;
use m3ipc_link::{AnswerOutcome, Cancelled, FLAG_WOKEN, MessageKind, SlotState};

const CONTENTS: Detail =
    Detail { contents: true, stamps: true, notifications: false, pulses: false, codes: false };
/// The same on a whole page, which has room for payloads beside messages.
const LONG_CONTENTS: Detail = Detail { pulses: true, ..CONTENTS };
const STAMPS: Detail =
    Detail { contents: false, stamps: true, notifications: false, pulses: false, codes: false };
const QUESTION: u8 = 1;
const ANSWER: u8 = 2;

/// The end of a request for its requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Answered,
    /// The request went back.
    NotTaken,
    /// The server took it, and no answer counts any more.
    Taken,
}

/// The actions of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Served {
    Nothing,
    Took,
    Answered,
    /// The link refused its answer: the requester no longer awaits it.
    Refused,
}

/// Both parties sleep for each other. The request is answered, and both messages are whole.
pub fn answer() {
    let (mut client, mut server) = pair(CONTENTS);
    let serving = thread::spawn(move || {
        let incoming = server.wait(ModelEndpoint::take_any);
        assert_eq!(value_of(&incoming), QUESTION);
        let answer = server.publish(|own| (answer_with(own, ANSWER), EndsWait::OnThisLink));
        assert_eq!(answer, AnswerOutcome::Posted);
    });
    let request = client.post(MessageKind::Request, 9, QUESTION);
    let incoming = client.wait(|endpoint| endpoint.take_answer(request));
    assert_eq!(value_of(&incoming), ANSWER);
    serving.join().expect("the server ends");
}

/// As [`answer`], by the functions of the fast path; the slots have been used before.
pub fn short_answer() {
    let (mut client, mut server) = used_pair();
    let serving = thread::spawn(move || {
        let incoming = server.wait(take_short_request);
        assert_eq!(short_value_of(&incoming), QUESTION);
        assert!(server.publish(|own| (answer_short(own), EndsWait::OnThisLink)));
    });
    let request = post_short_request(&mut client);
    let incoming = client.wait(|endpoint| take_short_answer(endpoint, request));
    assert_eq!(short_value_of(&incoming), ANSWER);
    serving.join().expect("the server ends");
}

/// As [`cancel`], by the functions of the fast path.
pub fn short_cancel() {
    let (mut client, mut server) = used_pair();
    let serving = thread::spawn(move || {
        for _attempt in 0..2 {
            if take_short_request(&mut server).is_some() {
                let is_posted = answer_short(&mut server);
                return if is_posted { Served::Answered } else { Served::Refused };
            }
        }
        Served::Nothing
    });
    let request = post_short_request(&mut client);
    let end = match client.link.cancel(request).expect("no rule is broken") {
        Cancelled::Withdrawn => End::NotTaken,
        Cancelled::Taken if take_short_answer(&mut client, request).is_some() => End::Answered,
        Cancelled::Taken => End::Taken,
        Cancelled::Unanswered | Cancelled::Unknown => unreachable!("no proxy is here"),
    };
    check(end, serving.join().expect("the server ends"));
}

/// As [`short_answer`], with payloads in the link.
pub fn long_answer() {
    let (mut client, mut server) = used(pair(LONG_CONTENTS));
    let serving = thread::spawn(move || {
        let incoming = server.wait(take_long_request);
        assert_eq!(incoming, QUESTION);
        assert!(server.publish(|own| (answer_long(own), EndsWait::OnThisLink)));
    });
    let request = post_long_request(&mut client);
    let incoming = client.wait(|endpoint| take_long_answer(endpoint, request));
    assert_eq!(incoming, ANSWER);
    serving.join().expect("the server ends");
}

/// As [`short_cancel`], with payloads in the link.
pub fn long_cancel() {
    let (mut client, mut server) = used(pair(LONG_CONTENTS));
    let serving = thread::spawn(move || {
        for _attempt in 0..2 {
            if take_long_request(&mut server).is_some() {
                let is_posted = answer_long(&mut server);
                return if is_posted { Served::Answered } else { Served::Refused };
            }
        }
        Served::Nothing
    });
    let request = post_long_request(&mut client);
    let end = match client.link.cancel(request).expect("no rule is broken") {
        Cancelled::Withdrawn => End::NotTaken,
        Cancelled::Taken if take_long_answer(&mut client, request).is_some() => End::Answered,
        Cancelled::Taken => End::Taken,
        Cancelled::Unanswered | Cancelled::Unknown => unreachable!("no proxy is here"),
    };
    check(end, serving.join().expect("the server ends"));
}

/// A pair whose two slots have held a message that was taken.
pub fn used_pair() -> (ModelEndpoint, ModelEndpoint) {
    used(pair(CONTENTS))
}

fn used(
    (mut client, mut server): (ModelEndpoint, ModelEndpoint),
) -> (ModelEndpoint, ModelEndpoint) {
    exchange(&mut client, &mut server);
    exchange(&mut server, &mut client);
    (client, server)
}

fn exchange(from: &mut ModelEndpoint, to: &mut ModelEndpoint) {
    from.post(MessageKind::Send, 1, 0);
    to.take_any().expect("a message is there");
}

fn post_short_request(client: &mut ModelEndpoint) -> SlotState {
    assert!(client.link.is_ready_to_post(), "the slot is not free");
    let (m_type, payload) = contents(QUESTION);
    client.publish(|own| {
        (own.link.post_short(MessageKind::Request, 9, m_type, &payload), EndsWait::Receive)
    })
}

fn take_short_request(server: &mut ModelEndpoint) -> Option<Message> {
    let (kind, state) = server.link.look()?;
    assert_eq!(kind, MessageKind::Request);
    server.link.take_short(kind, state, server.peer)
}

fn answer_short(server: &mut ModelEndpoint) -> bool {
    let (m_type, payload) = contents(ANSWER);
    let Some(request) = server.link.ready_to_answer() else { return false };
    server.link.answer_short(request, m_type, &payload)
}

fn take_short_answer(client: &mut ModelEndpoint, request: SlotState) -> Option<Message> {
    let state = client.link.look_for_answer(request)?;
    client.link.take_short(MessageKind::Reply, state, client.peer)
}

fn post_long_request(client: &mut ModelEndpoint) -> SlotState {
    assert!(client.link.is_ready_to_post(), "the slot is not free");
    let (m_type, payload) = contents(QUESTION);
    client.publish(|own| {
        let long = &payload[..8];
        (own.link.post(MessageKind::Request, 9, m_type, &payload, long), EndsWait::Receive)
    })
}

fn take_long_request(server: &mut ModelEndpoint) -> Option<u8> {
    let (kind, state) = server.link.look()?;
    assert_eq!(kind, MessageKind::Request);
    take_long(server, kind, state)
}

fn answer_long(server: &mut ModelEndpoint) -> bool {
    let (m_type, payload) = contents(ANSWER);
    let Some(request) = server.link.ready_to_answer() else { return false };
    server.link.answer_long(request, m_type, &payload, &payload[..8])
}

fn take_long_answer(client: &mut ModelEndpoint, request: SlotState) -> Option<u8> {
    let state = client.link.look_for_answer(request)?;
    take_long(client, MessageKind::Reply, state)
}

fn take_long(own: &mut ModelEndpoint, kind: MessageKind, state: SlotState) -> Option<u8> {
    let mut long = [0; 8];
    let (message, bytes) = own.link.take_long(kind, state, own.peer, |_| &mut long)?;
    let value = short_value_of(&message);
    assert_eq!((bytes, &long[..]), (8, &message.payload[..8]), "the message mixes two messages");
    Some(value)
}

pub fn short_value_of(message: &Message) -> u8 {
    let value = u8::try_from(message.m_type).expect("a type that was sent");
    assert_eq!(message.payload, contents(value).1, "the message mixes two messages");
    value
}

/// The client cancels at any moment. An answer is posted if and only if the client gets it, and a
/// withdrawn request was not taken.
pub fn cancel() {
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
    let end = end_request(&mut client, request);
    let served = serving.join().expect("the server ends");
    check(end, served);
}

/// The client cancels and asks again. The answer to the first request never counts for the second.
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
    let first_end = end_request(&mut client, first);
    let mut second_end = None;
    if client.link.is_free() == Ok(true) {
        let second = client.post(MessageKind::Request, 9, QUESTION);
        second_end = Some(match client.take_answer(second) {
            Some(_answer) => End::Answered,
            None => end_request(&mut client, second),
        });
    }
    let (first_served, second_served) = serving.join().expect("the server ends");
    check(first_end, first_served);
    check(second_end.expect("a request that is over leaves its cell"), second_served);
}

fn serve_taken(server: &mut ModelEndpoint) -> Served {
    match answer_with(server, ANSWER) {
        AnswerOutcome::Posted => Served::Answered,
        AnswerOutcome::NotAwaited => Served::Refused,
    }
}

fn answer_with(server: &mut ModelEndpoint, value: u8) -> AnswerOutcome {
    let (m_type, payload) = contents(value);
    if twisted(Twist::AnswerBlindly) {
        if !server.link.owes_answer() || server.link.is_free() != Ok(true) {
            return AnswerOutcome::NotAwaited;
        }
        // Links number their messages from 1.
        server.link.post(MessageKind::Reply, 1, m_type, &payload, &[]);
        return AnswerOutcome::Posted;
    }
    server.link.answer(MessageKind::Reply, m_type, &payload, &[]).expect("no rule is broken")
}

/// Cancels a request, and polls for its answer once more if the server took it.
fn end_request(client: &mut ModelEndpoint, request: SlotState) -> End {
    let early = if twisted(Twist::PollBeforeCancel) { client.take_answer(request) } else { None };
    match client.link.cancel(request).expect("no rule is broken") {
        Cancelled::Withdrawn => return End::NotTaken,
        Cancelled::Taken if twisted(Twist::DeathIsNotTaken) => return End::NotTaken,
        Cancelled::Taken if twisted(Twist::PollBeforeCancel) => {
            return if early.is_some() { End::Answered } else { End::Taken };
        }
        Cancelled::Taken => {}
        Cancelled::Unanswered | Cancelled::Unknown => unreachable!("no proxy is here"),
    }
    match client.take_answer(request) {
        Some(_answer) => End::Answered,
        None => End::Taken,
    }
}

/// Both sides agree on the end. A server that died before its answer has taken the request.
fn check(end: End, served: Served) {
    let fits = match end {
        End::Answered => served == Served::Answered,
        End::NotTaken => served == Served::Nothing,
        End::Taken => matches!(served, Served::Took | Served::Refused),
    };
    note_end((end, served));
    assert!(fits, "the client ends with {end:?}, the server with {served:?}");
}

/// The server dies, and the daemon announces it. The client ends with exactly one of answered,
/// taken and not taken.
pub fn death_before_take() {
    death(Served::Nothing, true);
}

/// The same, with a server that may have taken the request.
pub fn death_after_take() {
    death(Served::Took, true);
}

/// The same, with a server that may have answered without a wake-up.
pub fn death_after_answer() {
    death(Served::Answered, true);
}

/// The daemon announces an end while the server still answers.
pub fn event_while_answering() {
    death(Served::Answered, false);
}

/// The server runs up to `last_step`. If it dies there, the daemon announces it afterwards.
fn death(last_step: Served, dies: bool) {
    let (mut client, mut server) = pair(STAMPS);
    let daemon = client.give_control_page();
    let asking = thread::spawn(move || {
        let request = client.post(MessageKind::Request, 9, QUESTION);
        let answered = client.wait(|endpoint| {
            if let Some(_answer) = endpoint.take_answer(request) {
                return Some(true);
            }
            endpoint.has_new_event().then_some(false)
        });
        if answered { End::Answered } else { end_request(&mut client, request) }
    });
    let serving = thread::spawn(move || {
        if last_step == Served::Nothing || server.take_any().is_none() {
            return Served::Nothing;
        }
        if last_step == Served::Took {
            return Served::Took;
        }
        // A server that dies after its answer wakes nobody.
        let ends = if dies { EndsWait::None } else { EndsWait::OnThisLink };
        server.publish(|own| (serve_taken(own), ends))
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

/// A server that has answered awaits its slot, to send. The client that takes the answer wakes it.
pub fn slot_of_answer() {
    let (mut client, mut server) = pair(STAMPS);
    let request = client.post(MessageKind::Request, 9, QUESTION);
    server.take_any().expect("the request is there");
    assert_eq!(answer_with(&mut server, ANSWER), AnswerOutcome::Posted);
    let serving = thread::spawn(move || {
        server.wait(|endpoint| (endpoint.link.is_free() == Ok(true)).then_some(()));
    });
    client.take_answer(request).expect("the answer is there");
    serving.join().expect("the server ends");
}

/// The daemon raises a flag and announces it. A receiver about to sleep sees the flag.
pub fn wakeup() {
    let (mut receiver, _peer) = pair(Detail::default());
    let daemon = receiver.give_control_page();
    let waking = thread::spawn(move || {
        daemon.raise(FLAG_WOKEN);
        daemon.announce_event();
    });
    receiver.wait(|endpoint| {
        if twisted(Twist::FlagsBeforeEvents) {
            let woken = endpoint.is_woken();
            endpoint.has_new_event();
            return woken.then_some(());
        }
        endpoint.has_new_event();
        endpoint.is_woken().then_some(())
    });
    waking.join().expect("the daemon ends");
}
