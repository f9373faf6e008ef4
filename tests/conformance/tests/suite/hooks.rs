//! Signals in the parts of a call that wait for the daemon: the hook decides, as in all waits.

use m3ipc::{Endpoint, Message, SendRecError, Source};
use m3ipc_test_fixture::{NodeFixture, signals, until, watchdog};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// A first call while the daemon is stopped. The caller gets a signal, and its hook answers.
fn first_call(name: &str, ends: bool, limit: Option<Duration>) -> Result<Message, SendRecError> {
    signals::handle();
    let fixture = NodeFixture::new(name);
    let vm = fixture.vm(name);
    let mut client = vm.bind(2).expect("slot 2 is free");
    let mut server = vm.bind_additional(Some(1)).expect("slot 1 is free");
    let to = server.address();
    let asked = Arc::new(AtomicU32::new(0));
    let by_hook = Arc::clone(&asked);
    client.interrupt_by(move || {
        by_hook.fetch_add(1, Ordering::Relaxed);
        ends
    });
    let (is_over, tid) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    signals::stop(fixture.daemon_pid());
    let call = {
        let (is_over, tid) = (Arc::clone(&is_over), Arc::clone(&tid));
        move || {
            tid.store(m3ipc_sys::thread_id().cast_unsigned(), Ordering::Relaxed);
            let answer = call_once(&mut client, to, limit);
            is_over.store(true, Ordering::Relaxed);
            answer
        }
    };
    let calling = std::thread::spawn(call);
    until("the thread runs", || tid.load(Ordering::Relaxed) != 0);
    let own_pid = std::process::id().cast_signed();
    until("the hook is asked", || {
        signals::send(own_pid, tid.load(Ordering::Relaxed).cast_signed());
        asked.load(Ordering::Relaxed) > 0
    });
    if ends {
        until("the call ends", || is_over.load(Ordering::Relaxed));
    }
    signals::resume(fixture.daemon_pid());
    if !ends {
        let request = server.receive(Source::Any).expect("the call goes on");
        server.reply(request.source, &Message::new(8)).expect("the client waits");
    }
    calling.join().expect("no panic")
}

fn call_once(
    client: &mut Endpoint,
    to: m3ipc::Address,
    limit: Option<Duration>,
) -> Result<Message, SendRecError> {
    match limit {
        Some(limit) => client.sendrec_timeout(to, &Message::new(7), limit),
        None => client.sendrec(to, &Message::new(7)),
    }
}

#[test]
fn a_hook_lets_a_first_contact_go_on_after_a_signal() {
    watchdog(120);
    for limit in [None, Some(Duration::from_secs(100))] {
        let answer = first_call("goes-on", false, limit);
        assert_eq!(answer.expect("the call goes on").m_type, 8, "{limit:?}");
    }
}

#[test]
fn a_hook_ends_a_first_contact() {
    watchdog(120);
    for limit in [None, Some(Duration::from_secs(100))] {
        let ended = first_call("ends", true, limit);
        assert!(matches!(ended, Err(SendRecError::Interrupted(_))), "{ended:?}");
    }
}
