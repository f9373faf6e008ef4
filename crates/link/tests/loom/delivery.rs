//! Models of one message: delivered, withdrawn, notified, crossed.

use crate::model_endpoint::{Detail, ModelEndpoint, contents, pair, value_of};
use crate::requests::{short_value_of, used_pair};
use crate::weakness::{Twist, note_end, twisted};
use loom::thread;
use m3ipc_abi::Message;
use m3ipc_link::waiting::EndsWait;
use m3ipc_link::{Link, LinkSide, MessageKind, PULSES_MAX, TakenMessage, Withdrawing};

const CONTENTS: Detail =
    Detail { contents: true, stamps: false, notifications: false, pulses: false, codes: false };

/// Both parties sleep for each other. The message arrives whole, and both parties wake.
pub fn deliver() {
    deliver_each(&[1]);
}

/// The same with two messages in a row, in one slot.
pub fn deliver_twice() {
    deliver_each(&[1, 2]);
}

fn deliver_each(values: &'static [u8]) {
    let (mut sender, mut receiver) = pair(CONTENTS);
    let sending = thread::spawn(move || {
        for value in values {
            let posted = sender.post(MessageKind::Send, 0, *value);
            sender.wait(|endpoint| {
                endpoint.link.is_taken(posted).expect("no rule is broken").then_some(())
            });
        }
    });
    for value in values {
        let incoming = receiver.wait(ModelEndpoint::take_any);
        assert_eq!(value_of(&incoming), *value);
    }
    sending.join().expect("the sender ends");
}

/// As [`deliver`], by the functions of the fast path; the slots have been used before.
pub fn short_delivery() {
    let (mut sender, mut receiver) = used_pair();
    let sending = thread::spawn(move || {
        assert!(sender.link.is_ready_to_post(), "the slot is not free");
        let (m_type, payload) = contents(1);
        sender.publish(|own| {
            (own.link.post_short(MessageKind::Send, 9, m_type, &payload), EndsWait::Receive)
        });
        sender.wait(|own| own.link.is_last_taken().then_some(()));
    });
    let incoming = receiver.wait(take_short);
    assert_eq!(short_value_of(&incoming), 1);
    sending.join().expect("the sender ends");
}

fn take_short(receiver: &mut ModelEndpoint) -> Option<Message> {
    let (kind, state) = receiver.link.look()?;
    assert_eq!(kind, MessageKind::Send);
    let source = receiver.peer;
    receiver.publish(|own| {
        let ends =
            if twisted(Twist::TakeWithoutWakeUp) { EndsWait::None } else { EndsWait::OnThisLink };
        (own.link.take_short(kind, state, source), ends)
    })
}

/// A sender withdraws while the receiver takes, and posts again. Each time exactly one of the two
/// wins, and no copy mixes two messages.
pub fn withdraw() {
    let (mut sender, mut receiver) = pair(CONTENTS);
    let sending = thread::spawn(move || {
        let (m_type, payload) = contents(1);
        let first = sender.link.post(MessageKind::Send, 0, m_type, &payload, &[]);
        let first_back = sender.link.withdraw(first) == Ok(Withdrawing::Withdrawn);
        assert_eq!(sender.link.is_free(), Ok(true));
        if twisted(Twist::SameNumber) {
            sender.link = Link::over(sender.page.clone(), LinkSide::Zero);
        }
        let (m_type, payload) = contents(2);
        let second = sender.link.post(MessageKind::Send, 0, m_type, &payload, &[]);
        (first_back, sender.link.withdraw(second) == Ok(Withdrawing::Withdrawn))
    });
    let mut got = [0, 0, 0];
    for _attempt in 0..2 {
        if let Some(incoming) = peek_and_take(&mut receiver) {
            got[usize::from(value_of(&incoming))] += 1;
        }
    }
    let (first_back, second_back) = sending.join().expect("the sender ends");
    note_end((first_back, second_back));
    assert_eq!(got[1], u32::from(!first_back), "the first was taken or went back");
    assert_eq!(got[2], u32::from(!second_back), "the second was taken or went back");
}

fn peek_and_take(receiver: &mut ModelEndpoint) -> Option<TakenMessage> {
    let arrival = receiver.link.peek().expect("no rule is broken")?;
    receiver.link.take(arrival, &mut []).expect("no rule is broken")
}

/// Two notifications with arguments. The sleeper receives each argument exactly once.
pub fn notify() {
    let (mut sender, mut receiver) = pair(Detail { notifications: true, ..Detail::default() });
    let sending = thread::spawn(move || {
        for argument in [1, 2] {
            sender.publish(|endpoint| (endpoint.link.notify(argument), EndsWait::Receive));
        }
    });
    let mut received = 0;
    while received != 3 {
        let argument = receiver.wait(|endpoint| endpoint.link.take_notifications());
        assert_eq!(received & argument, 0, "an argument arrives once");
        received |= argument;
    }
    sending.join().expect("the sender ends");
}

/// Two notifications. The first one ends the receive of a receiver that waits, and the second one
/// stays pending. A receiver that begins to receive after both takes them as one.
pub fn notify_waiting() {
    let (mut sender, mut receiver) = pair(Detail { notifications: true, ..Detail::default() });
    let sending = thread::spawn(move || {
        for argument in [1, 2] {
            sender.publish(|endpoint| (endpoint.link.notify(argument), EndsWait::Receive));
        }
    });
    let at_once = receiver.link.take_notifications();
    let waited = at_once.is_none();
    let first = at_once.unwrap_or_else(|| {
        receiver.wait(|endpoint| {
            if twisted(Twist::MergeInWait) {
                endpoint.link.take_notifications()
            } else {
                endpoint.link.take_first_notification()
            }
        })
    });
    sending.join().expect("the sender ends");
    let second = receiver.link.take_notifications();
    note_end((waited, first, second));
    if waited {
        assert_eq!((first, second), (1, Some(2)), "the first one ends the wait");
    }
    assert_eq!(first ^ second.unwrap_or(0), 3, "each argument arrives once");
    assert!(receiver.link.take_notifications().is_none(), "a notification too many");
}

/// The words of a pulse.
fn pulse_pair() -> (ModelEndpoint, ModelEndpoint) {
    pair(Detail { notifications: true, pulses: true, ..Detail::default() })
}

/// Two pulses. The sleeper receives each of them once, whole and in order.
pub fn pulse() {
    let (mut sender, mut receiver) = pulse_pair();
    let sending = thread::spawn(move || {
        for number in [1_u8, 2] {
            sender.publish(|endpoint| {
                let is_sent = endpoint.link.send_pulse(number, u64::from(number) << 40);
                (assert!(is_sent, "the ring has room"), EndsWait::Receive)
            });
        }
    });
    for number in [1_u8, 2] {
        let received = receiver.wait(|endpoint| endpoint.link.take_pulse());
        assert_eq!(received, (number, u64::from(number) << 40));
    }
    sending.join().expect("the sender ends");
    assert_eq!(receiver.link.take_pulse(), None, "a pulse too many");
}

/// A full ring. The sender tries one pulse more while the receiver takes the first: the pulse is
/// refused, or it takes the place of the first after the receiver has copied that.
pub fn pulse_ring() {
    let (mut sender, mut receiver) = pulse_pair();
    let first = 1_u8;
    let last = first + u8::try_from(PULSES_MAX).expect("a few");
    for number in first..last {
        assert!(sender.link.send_pulse(number, u64::from(number)), "the ring has room");
    }
    let sending = thread::spawn(move || sender.link.send_pulse(last, u64::from(last)));
    assert_eq!(receiver.link.take_pulse(), Some((first, u64::from(first))));
    let is_sent = sending.join().expect("the sender ends");
    note_end(is_sent);
    for number in first + 1..last + u8::from(is_sent) {
        assert_eq!(receiver.link.take_pulse(), Some((number, u64::from(number))));
    }
    assert_eq!(receiver.link.take_pulse(), None, "a pulse too many");
}

/// Both parties post to each other at once. The younger message goes back, and its endpoint takes
/// the elder message.
pub fn cross() {
    cross_with([5, 7], LinkSide::One);
}

/// The same, with the younger message on the side that made the link.
pub fn cross_back() {
    cross_with([7, 5], LinkSide::Zero);
}

/// The same with equal stamps: the message of the side that made the link is the elder.
pub fn cross_at_once() {
    cross_with([6, 6], LinkSide::One);
}

fn cross_with(stamps: [u64; 2], younger: LinkSide) {
    let (mut zero, mut one) = pair(Detail { stamps: true, ..Detail::default() });
    let sending = thread::spawn(move || send_or_yield(&mut zero, stamps[0]));
    let one_yielded = send_or_yield(&mut one, stamps[1]);
    let zero_yielded = sending.join().expect("the other endpoint ends");
    let expected = if younger == LinkSide::Zero { (true, false) } else { (false, true) };
    assert_eq!((zero_yielded, one_yielded), expected, "exactly the younger message goes back");
}

/// Sends a message. Withdraws and receives if the peer's message is elder.
fn send_or_yield(endpoint: &mut ModelEndpoint, stamp: u64) -> bool {
    let posted = endpoint.post(MessageKind::Send, stamp, 1);
    let yields = endpoint.wait(|endpoint| {
        if endpoint.link.is_taken(posted).expect("no rule is broken") {
            return Some(false);
        }
        let arrival = endpoint.link.peek().expect("no rule is broken")?;
        let is_younger = endpoint.link.is_younger_than(arrival.stamp);
        if twisted(Twist::NoPartyYields) {
            return None;
        }
        (is_younger || twisted(Twist::BothYield)).then_some(true)
    });
    if yields {
        assert_eq!(
            endpoint.link.withdraw(posted),
            Ok(Withdrawing::Withdrawn),
            "the elder endpoint waits and does not take"
        );
        endpoint.wait(ModelEndpoint::take_any);
    }
    yields
}
