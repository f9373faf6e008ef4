//! Held messages, with the test in place of the proxy: what a sender that gives up is told.

use m3ipc::nodes::{ForeignRange, Proxy, StandIn, StandInEvent};
use m3ipc::{Address, Code, Delivery, Endpoint, Message, Source, Timeout, VmConfig, Withdrawal};
use m3ipc_test_fixture::{NodeFixture, watchdog};
use std::collections::BTreeSet;
use std::thread::JoinHandle;
use std::time::Duration;

const VM: i32 = 3;
const REMOTE: Address = Address(20);
/// The number of the last message, which the proxy takes at once.
const LAST: u32 = u32::MAX - 3;

/// A node whose proxy is the test, with a stand-in and a client.
struct HeldNode {
    _fixture: NodeFixture,
    _proxy: Proxy,
    _vm: m3ipc::Vm,
    stand_in: Option<StandIn>,
    client: Endpoint,
}

impl HeldNode {
    fn new(name: &str) -> Self {
        let fixture = NodeFixture::new(name);
        let vm = fixture.node().vm_init(&VmConfig::new("shop").id(VM)).expect("a fresh VM");
        let slot = REMOTE.0;
        let range = ForeignRange { vm: VM, first: slot, last: slot, node: "beta".to_owned() };
        let mut proxy = Proxy::register(fixture.directory(), vec![range]).expect("the only proxy");
        proxy.set_reachable("beta", true).expect("the daemon runs");
        let stand_in = proxy.stand_in(VM, REMOTE).expect("a slot of the other node");
        let client = vm.bind(1).expect("the slot is free");
        Self { _fixture: fixture, _proxy: proxy, _vm: vm, stand_in: Some(stand_in), client }
    }

    /// Lets a thread be the proxy, until its closure has done its part.
    fn act<T: Send + 'static>(
        &mut self,
        act: impl FnOnce(&mut StandIn) -> T + Send + 'static,
    ) -> JoinHandle<(StandIn, T)> {
        let mut stand_in = self.stand_in.take().expect("one thread at a time");
        std::thread::spawn(move || {
            let done = act(&mut stand_in);
            (stand_in, done)
        })
    }

    fn join<T>(&mut self, acting: JoinHandle<(StandIn, T)>) -> T {
        let (stand_in, done) = acting.join().expect("the proxy does its part");
        self.stand_in = Some(stand_in);
        done
    }
}

/// Looks until something is there.
fn next_events(stand_in: &mut StandIn) -> Vec<StandInEvent> {
    loop {
        let found = stand_in.poll().expect("the stand-in is bound");
        if !found.is_empty() {
            return found;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

fn await_given_up(stand_in: &mut StandIn) {
    while !next_events(stand_in).iter().any(|it| matches!(it, StandInEvent::GivenUp(_))) {}
}

fn number_of(message: &Message) -> u32 {
    u32::from_ne_bytes(message.payload[..4].try_into().expect("4 bytes"))
}

fn numbered(number: u32) -> Message {
    Message::new(7).with_bytes(&number.to_ne_bytes())
}

#[test]
fn a_withdrawal_of_a_held_message_tells_what_the_proxy_said() {
    watchdog(120);
    let mut node = HeldNode::new("withdrawn");
    let ends = [
        (Some(Code::TimedOut), Withdrawal::Withdrawn),
        (Some(Code::Unknown), Withdrawal::Unknown),
        (None, Withdrawal::Taken),
    ];
    for (code, expected) in ends {
        let pending = node.client.begin_send(REMOTE, &numbered(1), Vec::new()).expect("it lives");
        next_events(node.stand_in.as_mut().expect("it is here"));
        let from = node.client.address();
        let acting = node.act(move |stand_in| {
            await_given_up(stand_in);
            match code {
                Some(code) => stand_in.failed(from, code),
                None => stand_in.taken(from),
            }
        });
        assert_eq!(node.client.withdraw(&pending), expected, "{code:?}");
        node.join(acting);
        let again = node.client.withdraw(&pending);
        assert_eq!(again, Withdrawal::Unknown, "its end has been told");
    }
    // Nobody says a word: the caller does not know, and the link serves on.
    let pending = node.client.begin_send(REMOTE, &numbered(1), Vec::new()).expect("it lives");
    next_events(node.stand_in.as_mut().expect("it is here"));
    let silent = node.client.withdraw_timeout(&pending, Timeout::NoWait);
    assert_eq!(silent, Withdrawal::Unknown);
    let from = node.client.address();
    let acting = node.act(move |stand_in| {
        while !next_events(stand_in).iter().any(|it| matches!(it, StandInEvent::Message { .. })) {}
        stand_in.taken(from);
    });
    node.client.send(REMOTE, &numbered(2)).expect("the remote endpoint takes it");
    node.join(acting);
    // The proxy dies with the message.
    let pending = node.client.begin_send(REMOTE, &numbered(3), Vec::new()).expect("it lives");
    next_events(node.stand_in.as_mut().expect("it is here"));
    node.stand_in = None;
    assert_eq!(node.client.withdraw(&pending), Withdrawal::Unknown);
}

/// What the proxy of [`calls_that_end_while_a_proxy_acts_know_what_it_did`] does next.
fn decide(stand_in: &mut StandIn, from: Address, (number, is_request): (u32, bool)) -> bool {
    match number % 4 {
        0 => stand_in.taken(from),
        1 => stand_in.failed(from, Code::DstDied),
        2 => {
            stand_in.let_go(from);
            return false;
        }
        _ => await_given_up(stand_in),
    }
    if number % 4 == 3 {
        stand_in.taken(from);
    }
    let is_taken = number % 4 != 1;
    if is_taken && is_request {
        stand_in.failed(from, Code::SrcDied);
    }
    is_taken
}

/// The numbers of the messages that the proxy has taken, up to the last one.
fn be_proxy(stand_in: &mut StandIn) -> BTreeSet<u32> {
    let mut taken = BTreeSet::new();
    let mut tried = BTreeSet::new();
    loop {
        for event in next_events(stand_in) {
            let StandInEvent::Message { from, is_request, message, .. } = event else { continue };
            assert_eq!(message.m_type, 7, "the message is whole");
            let number = number_of(&message);
            // What was let go once is taken the next time.
            let act = if number % 4 == 2 && !tried.insert(number) { 0 } else { number };
            if decide(stand_in, from, (act, is_request)) {
                taken.insert(number);
            }
            if number == LAST {
                return taken;
            }
        }
    }
}

/// Messages end at any moment, while the proxy holds, takes, returns and lets them go. No end is
/// the fault of a peer, and each one that claims to know is true.
#[test]
fn calls_that_end_while_a_proxy_acts_know_what_it_did() {
    watchdog(240);
    const MESSAGES: u32 = 3000;
    let mut node = HeldNode::new("ends");
    let acting = node.act(be_proxy);
    let (mut sent, mut unknown, mut untaken) = (BTreeSet::new(), BTreeSet::new(), 0);
    for number in 0..MESSAGES {
        let limit = Duration::from_micros(u64::from(number % 29) * 5);
        let code = if number % 3 == 0 {
            match node.client.sendrec_timeout(REMOTE, &numbered(number), limit) {
                Err(error) if error.delivery() == Delivery::Taken => None,
                Err(error) => Some(error.code()),
                Ok(_) => panic!("nobody answers"),
            }
        } else {
            node.client
                .send_timeout(REMOTE, &numbered(number), limit)
                .err()
                .map(|error| error.code())
        };
        match code {
            None => drop(sent.insert(number)),
            Some(Code::Unknown) => drop(unknown.insert(number)),
            Some(Code::TimedOut | Code::Again | Code::DstDied) => untaken += 1,
            Some(other) => panic!("message {number} ends with {other}"),
        }
    }
    node.client.send(REMOTE, &numbered(LAST)).expect("the remote endpoint takes it");
    let taken = node.join(acting);
    let known: BTreeSet<u32> =
        taken.into_iter().filter(|it| *it < MESSAGES && !unknown.contains(it)).collect();
    assert_eq!(known, sent, "exactly these were taken");
    assert!(!sent.is_empty() && untaken > 0, "{} sent, {untaken} not taken", sent.len());
}

#[test]
fn a_notification_before_an_answer_or_a_message_is_found_before_it() {
    watchdog(60);
    let mut node = HeldNode::new("notified");
    let from = node.client.address();
    let stand_in = node.stand_in.as_mut().expect("it is here");
    let mut posted = stand_in.post(from, true, &numbered(1), Vec::new()).expect("it lives");
    let is_notified = |found: &StandInEvent| match found {
        StandInEvent::Notified { from: source, .. } => *source == from,
        _ => false,
    };
    while node.client.try_receive(Source::Any).is_err() {
        assert!(!stand_in.poll().expect("it is bound").iter().any(is_notified));
    }
    node.client.notify(REMOTE).expect("it lives");
    node.client.reply(REMOTE, &numbered(2)).expect("it waits");
    // The proxy finds the answer in a look of its own, after its look at the links.
    while stand_in.poll_posted(&mut posted).is_none() {}
    assert_eq!(stand_in.notified_by(from), Some(0), "a plain one has no bit");
    assert_eq!(stand_in.notified_by(from), None, "each one once");
    node.client.notify(REMOTE).expect("it lives");
    let _pending = node.client.begin_send(REMOTE, &numbered(3), Vec::new()).expect("it lives");
    let found = next_events(stand_in);
    assert!(
        is_notified(&found[0]) && matches!(found[1], StandInEvent::Message { .. }),
        "{found:?}"
    );
}
