//! Numbered messages from one node to another, and the check that nothing is lost, doubled or
//! untrue.

use crate::OneNode;
use m3ipc::{Address, Code, Endpoint, Message, Source};
use m3ipc_test_fixture::until;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The pause after a failed call.
const PAUSE: Duration = Duration::from_millis(2);

/// What both threads of a flow see.
#[derive(Debug, Default)]
struct Shared {
    client_stops: AtomicBool,
    server_stops: AtomicBool,
    successes: AtomicU32,
    failures: AtomicU32,
}

/// A flow: a client sends and asks in turn, without a time limit.
#[derive(Debug)]
pub struct Flow {
    shared: Arc<Shared>,
    client: JoinHandle<Vec<(u32, Result<(), Code>)>>,
    server: JoinHandle<Vec<u32>>,
}

/// How a flow went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Account {
    /// Calls that succeeded.
    pub successes: usize,
    /// Calls of which nobody knows whether they were taken.
    pub unknown: usize,
}

impl Flow {
    /// Starts a flow between two slots, whose addresses never change.
    ///
    /// # Panics
    /// If a slot is taken.
    #[must_use]
    pub fn start(from: &OneNode, client: i32, to: &OneNode, server: i32) -> Self {
        let shared = Arc::new(Shared::default());
        let (serving, asking) = (to.bind(server), from.bind(client));
        from.await_endpoint(Address(server));
        let (here, there) = (Arc::clone(&shared), Arc::clone(&shared));
        let server_thread = std::thread::spawn(move || serve(serving, &there));
        let client = std::thread::spawn(move || ask(asking, Address(server), &here));
        Self { shared, client, server: server_thread }
    }

    /// The calls that have succeeded.
    #[must_use]
    pub fn successes(&self) -> u32 {
        self.shared.successes.load(Ordering::Relaxed)
    }

    /// The calls that have failed.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.shared.failures.load(Ordering::Relaxed)
    }

    /// Waits for further calls that succeed.
    pub fn await_successes(&self, more: u32) {
        let goal = self.successes() + more;
        until("the flow goes on", || self.successes() >= goal);
    }

    /// Waits for further calls that fail.
    pub fn await_failures(&self, more: u32) {
        let goal = self.failures() + more;
        until("the flow fails", || self.failures() >= goal);
    }

    /// Ends the flow and checks it.
    ///
    /// # Panics
    /// If a message was lost or doubled, came out of order, or has an untrue outcome.
    pub fn finish(self) -> Account {
        self.shared.client_stops.store(true, Ordering::Relaxed);
        let calls = self.client.join().expect("the client ends");
        self.shared.server_stops.store(true, Ordering::Relaxed);
        let taken = self.server.join().expect("the server ends");
        assert!(taken.is_sorted_by(|one, other| one < other), "doubled or out of order");
        let mut account = Account::default();
        let mut left: BTreeMap<u32, ()> = taken.into_iter().map(|number| (number, ())).collect();
        for (number, outcome) in calls {
            let was_taken = left.remove(&number).is_some();
            let expected = match outcome {
                Ok(()) => Some(true),
                Err(Code::AnswerLost | Code::SrcDied) => Some(true),
                Err(Code::Unknown) => None,
                Err(Code::NotConn | Code::DstDied | Code::DeadSrcDst | Code::Again) => Some(false),
                Err(code) => panic!("{number} failed with {code}"),
            };
            account.successes += usize::from(outcome.is_ok());
            account.unknown += usize::from(expected.is_none());
            let is_true = expected.is_none_or(|expected| expected == was_taken);
            assert!(is_true, "{number} ended with {outcome:?}, taken: {was_taken}");
        }
        assert!(left.is_empty(), "nobody sent {left:?}");
        account
    }
}

fn ask(mut client: Endpoint, to: Address, shared: &Shared) -> Vec<(u32, Result<(), Code>)> {
    let mut calls = Vec::new();
    for number in 0_u32.. {
        if shared.client_stops.load(Ordering::Relaxed) {
            break;
        }
        let mut message = Message::new(7);
        message.payload[..4].copy_from_slice(&number.to_ne_bytes());
        let outcome = if number % 2 == 0 {
            client.send(to, &message).map_err(|error| error.code())
        } else {
            let asked = client.sendrec(to, &message).map_err(|error| error.code());
            asked.map(|answer| assert_eq!(answer.payload, message.payload))
        };
        calls.push((number, outcome));
        let counter = if outcome.is_ok() { &shared.successes } else { &shared.failures };
        counter.fetch_add(1, Ordering::Relaxed);
        if outcome.is_err() {
            std::thread::sleep(PAUSE);
        }
    }
    calls
}

fn serve(mut server: Endpoint, shared: &Shared) -> Vec<u32> {
    let mut taken = Vec::new();
    // After the stop, one more look: a message whose outcome is unknown may lie there.
    loop {
        let stops = shared.server_stops.load(Ordering::Relaxed);
        let Ok(message) = server.receive_timeout(Source::Any, Duration::from_millis(20)) else {
            if stops {
                return taken;
            }
            continue;
        };
        let mut number = [0; 4];
        number.copy_from_slice(&message.payload[..4]);
        let number = u32::from_ne_bytes(number);
        taken.push(number);
        if number % 2 == 1 {
            // The client may have been told of the end of its node.
            let _ = server.reply(message.source, &message);
        }
    }
}
