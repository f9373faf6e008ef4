//! Models of held messages: a proxy decides, its sender gives up, the proxy dies.

use crate::model_endpoint::{Detail, ModelEndpoint, contents, pair, value_of, write_type};
use crate::weakness::{Twist, note_end, twisted};
use loom::thread;
use m3ipc_abi::Code;
use m3ipc_link::held::{TakingBack, take_back};
use m3ipc_link::waiting::EndsWait;
use m3ipc_link::{
    Cancelled, Held, LinkSide, MessageKind, RuleBroken, SlotState, TakenMessage, Withdrawing,
};

const CODES: Detail =
    Detail { contents: false, stamps: false, notifications: false, pulses: false, codes: true };
const CONTENTS_AND_CODES: Detail = Detail { contents: true, ..CODES };
const FIRST: u8 = 1;
const SECOND: u8 = 2;
const REASON: Code = Code::NotConn;

/// A sender, and the proxy at the other end of its link.
fn sender_and_proxy(detail: Detail) -> (ModelEndpoint, ModelEndpoint) {
    let (mut sender, proxy) = pair(detail);
    sender.link.let_peer_hold();
    (sender, proxy)
}

/// The same, with a message of this kind that the proxy holds.
fn held_message(kind: MessageKind) -> (ModelEndpoint, ModelEndpoint, SlotState) {
    let (mut sender, mut proxy) = sender_and_proxy(CODES);
    let posted = sender.post(kind, 9, FIRST);
    hold(&mut proxy).expect("the message is there");
    (sender, proxy, posted)
}

/// Holds the message that is there.
fn hold(proxy: &mut ModelEndpoint) -> Option<(SlotState, TakenMessage)> {
    let arrival = proxy.link.peek().expect("no rule is broken")?;
    let (message, _long) = proxy.link.hold(arrival).expect("no rule is broken")?;
    Some((arrival.state, message))
}

/// The decisions of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Take,
    GiveBack,
    Lose,
    LoseAnswer,
}

/// Decides, and wakes the sender. `false` if the sender waits no longer.
fn decide(proxy: &mut ModelEndpoint, message: SlotState, decision: Decision) -> bool {
    proxy.publish(|own| {
        if decision == Decision::GiveBack && twisted(Twist::CodeInCell) {
            write_type(&own.page, LinkSide::Zero, REASON.number());
        }
        let decided = match decision {
            Decision::Take => own.link.take_held(message),
            Decision::GiveBack => own.link.give_back(message, REASON),
            Decision::Lose => own.link.lose(message),
            Decision::LoseAnswer => own.link.lose_answer(message, REASON),
        };
        let wakes = !twisted(Twist::DecideWithoutWakeUp);
        (decided, if wakes { EndsWait::OnThisLink } else { EndsWait::None })
    })
}

/// The end of a wait: taken, or the code of the proxy.
fn end_of(sender: &ModelEndpoint, posted: SlotState) -> Option<Result<(), Code>> {
    if sender.link.is_taken(posted).expect("no rule is broken") {
        return Some(Ok(()));
    }
    sender.link.ended_by_proxy(posted).expect("no rule is broken").map(|(_fate, code)| Err(code))
}

/// The sender sleeps, the proxy holds and decides: the sender wakes, with the reason.
fn decision(kind: MessageKind, decisions: &'static [Decision], expected: Result<(), Code>) {
    let (mut sender, mut proxy) = sender_and_proxy(CODES);
    let deciding = thread::spawn(move || {
        let (message, _) = proxy.wait(hold);
        for decision in decisions {
            assert!(decide(&mut proxy, message, *decision), "the sender waits");
        }
    });
    let posted = sender.post(kind, 9, FIRST);
    let end = sender.wait(|own| {
        let end = end_of(own, posted);
        // The take of a request does not end its wait.
        end.filter(|end| kind == MessageKind::Send || end.is_err())
    });
    assert_eq!(end, expected);
    deciding.join().expect("the proxy ends");
    assert_eq!(sender.link.is_free(), Ok(true));
}

pub fn taken() {
    decision(MessageKind::Send, &[Decision::Take], Ok(()));
}

pub fn given_back() {
    decision(MessageKind::Send, &[Decision::GiveBack], Err(REASON));
}

pub fn lost() {
    decision(MessageKind::Request, &[Decision::Lose], Err(Code::Unknown));
}

pub fn unanswered() {
    decision(MessageKind::Request, &[Decision::Take, Decision::LoseAnswer], Err(REASON));
}

/// A sender that gives its message up.
struct GivenUp<'a> {
    sender: &'a mut ModelEndpoint,
    posted: SlotState,
    /// Whether it waits for the proxy. An impatient one stops at any moment.
    is_patient: bool,
}

impl TakingBack for GivenUp<'_> {
    type Error = RuleBroken;

    fn withdraw(&mut self) -> Result<Withdrawing, RuleBroken> {
        self.sender.link.withdraw(self.posted)
    }

    fn ask_back(&mut self) {
        let posted = self.posted;
        self.sender.publish(|own| {
            own.link.ask_back(posted);
            let wakes = !twisted(Twist::AskWithoutWakeUp);
            ((), if wakes { EndsWait::Receive } else { EndsWait::None })
        });
    }

    fn await_proxy(&mut self) -> bool {
        let posted = self.posted;
        if self.is_patient {
            self.sender.wait(|own| (!own.link.is_held(posted)).then_some(()));
        }
        !self.sender.link.is_held(posted)
    }

    fn leave_behind(&mut self) -> bool {
        if twisted(Twist::LeaveBlindly) {
            let _ = self.sender.link.cancel(self.posted);
            return true;
        }
        self.sender.link.leave_behind(self.posted)
    }
}

fn give_up(sender: &mut ModelEndpoint, posted: SlotState, is_patient: bool) -> Withdrawing {
    let mut given_up = GivenUp { sender, posted, is_patient };
    take_back(&mut given_up).expect("no rule is broken")
}

/// The proxy waits until the sender wants its message back, and gives it back.
pub fn ask_back() {
    let (mut sender, mut proxy, posted) = held_message(MessageKind::Send);
    let deciding = thread::spawn(move || {
        proxy.wait(|own| (own.link.holding(posted) != Some(Held::Open)).then_some(()));
        decide(&mut proxy, posted, Decision::GiveBack)
    });
    assert_eq!(give_up(&mut sender, posted, true), Withdrawing::Withdrawn);
    assert!(deciding.join().expect("the proxy ends"));
}

/// The sender wants its message back while the proxy takes it.
pub fn ask_too_late() {
    let (mut sender, mut proxy, posted) = held_message(MessageKind::Send);
    let deciding = thread::spawn(move || decide(&mut proxy, posted, Decision::Take));
    assert_eq!(give_up(&mut sender, posted, true), Withdrawing::Taken);
    assert!(deciding.join().expect("the proxy ends"));
}

/// The end of a message for its proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It had no message, or the sender was first.
    NotHeld,
    /// The sender waited no longer.
    TooLate,
    Decided,
}

/// Both agree on the end of a message.
fn check(withdrawn: Withdrawing, end: End, decided: Withdrawing) {
    note_end((withdrawn, end));
    let fits = match end {
        End::NotHeld => withdrawn == Withdrawing::Withdrawn,
        End::TooLate => withdrawn == Withdrawing::Unknown,
        End::Decided => withdrawn == decided,
    };
    assert!(fits, "the sender ends with {withdrawn:?}, the proxy with {end:?}");
}

/// The sender gives up at any moment, while the proxy holds and decides, and posts the next
/// message, which stays whole.
fn withdraw(decision: Decision, decided: Withdrawing) {
    let (mut sender, mut proxy) = sender_and_proxy(CONTENTS_AND_CODES);
    let first = sender.post(MessageKind::Send, 9, FIRST);
    let sending = thread::spawn(move || {
        let withdrawn = give_up(&mut sender, first, false);
        assert_eq!(sender.link.is_free(), Ok(true), "a message that is over leaves its cell");
        let (m_type, payload) = contents(SECOND);
        sender.link.post(MessageKind::Send, 9, m_type, &payload, &[]);
        withdrawn
    });
    let mut end = End::NotHeld;
    let mut has_second = false;
    if let Some((message, copy)) = hold(&mut proxy) {
        has_second = value_of(&copy) == SECOND;
        if !has_second {
            let is_decided = decide(&mut proxy, message, decision);
            end = if is_decided { End::Decided } else { End::TooLate };
        }
    }
    let withdrawn = sending.join().expect("the sender ends");
    check(withdrawn, end, decided);
    if !has_second {
        let (_, copy) = hold(&mut proxy).expect("the second message is there");
        assert_eq!(value_of(&copy), SECOND);
    }
}

pub fn withdraw_or_take() {
    withdraw(Decision::Take, Withdrawing::Taken);
}

pub fn withdraw_or_give_back() {
    withdraw(Decision::GiveBack, Withdrawing::Withdrawn);
}

/// The sender gives up at any moment, while the proxy has no room and lets the message go.
pub fn withdraw_or_let_go() {
    let (mut sender, mut proxy) = sender_and_proxy(CODES);
    let posted = sender.post(MessageKind::Send, 9, FIRST);
    let sending = thread::spawn(move || give_up(&mut sender, posted, false));
    let mut end = End::NotHeld;
    if hold(&mut proxy).is_some() {
        end = End::TooLate;
        if proxy.link.let_go(posted) {
            end = End::NotHeld;
            if hold(&mut proxy).is_some() {
                let is_decided = decide(&mut proxy, posted, Decision::Take);
                end = if is_decided { End::Decided } else { End::TooLate };
            }
        }
    }
    check(sending.join().expect("the sender ends"), end, Withdrawing::Taken);
}

/// The sender of a taken request waits no longer, and posts the next one, while the proxy hears
/// that no answer comes.
pub fn cancel_or_lose_answer() {
    let (mut sender, mut proxy, first) = held_message(MessageKind::Request);
    assert!(proxy.link.take_held(first));
    let sending = thread::spawn(move || {
        let cancelled = sender.link.cancel(first).expect("no rule is broken");
        if cancelled == Cancelled::Unanswered {
            assert_eq!(sender.link.proxy_code(), Ok(REASON));
        }
        assert_eq!(sender.link.is_free(), Ok(true));
        let (m_type, payload) = contents(SECOND);
        (cancelled, sender.link.post(MessageKind::Request, 9, m_type, &payload, &[]))
    });
    let is_lost = decide(&mut proxy, first, Decision::LoseAnswer);
    let (cancelled, second) = sending.join().expect("the sender ends");
    note_end((cancelled, is_lost));
    assert_eq!(cancelled == Cancelled::Unanswered, is_lost);
    let (message, _) = hold(&mut proxy).expect("the second request is there");
    assert_eq!(message, second);
}

/// The proxy dies after any step, and the daemon announces it: the sender knows what it did.
pub fn death_of_the_proxy() {
    let (mut sender, mut proxy) = sender_and_proxy(CODES);
    let daemon = sender.give_control_page();
    let acting = thread::spawn(move || {
        let mut end = End::NotHeld;
        if let Some((message, _)) = hold(&mut proxy) {
            // It dies before it can wake the sender.
            end = if proxy.link.take_held(message) { End::Decided } else { End::TooLate };
        }
        daemon.announce_event();
        end
    });
    let posted = sender.post(MessageKind::Send, 9, FIRST);
    let is_taken = sender.wait(|own| match end_of(own, posted) {
        Some(end) => Some(end == Ok(())),
        None => own.has_new_event().then_some(false),
    });
    let withdrawn = if is_taken { Withdrawing::Taken } else { give_up(&mut sender, posted, false) };
    check(withdrawn, acting.join().expect("the proxy ends"), Withdrawing::Taken);
}

/// The proxy dies while it holds the message: the sender learns that nobody knows.
pub fn death_while_held() {
    let (mut sender, proxy, posted) = held_message(MessageKind::Send);
    let daemon = sender.give_control_page();
    let dying = thread::spawn(move || {
        drop(proxy);
        daemon.announce_event();
    });
    sender.wait(|own| own.has_new_event().then_some(()));
    assert_eq!(give_up(&mut sender, posted, false), Withdrawing::Unknown);
    dying.join().expect("the daemon ends");
    assert_eq!(sender.link.is_free(), Ok(true));
}
