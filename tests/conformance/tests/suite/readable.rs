//! A wakeup makes the endpoint's descriptor readable, for poll and for tokio.

use m3ipc::asynchronous::AsyncEndpoint;
use m3ipc::{Endpoint, Message, ReceiveError, Source, Timeout};
use m3ipc_abi::Code;
use m3ipc_test_fixture::{NodeFixture, in_child, watchdog};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A case counts the sockets of the process, and other cases may be threads of it.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn descriptor(endpoint: &mut Endpoint) -> OwnedFd {
    endpoint.fd().expect("a descriptor").try_clone_to_owned().expect("a copy")
}

fn is_readable(fd: &OwnedFd, limit: Duration) -> bool {
    let limit_ns = u64::try_from(limit.as_nanos()).expect("a short time");
    m3ipc_sys::wait_readable(&[fd.as_fd()], limit_ns).expect("no signal")
}

const NOW: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_secs(30);

#[test]
fn a_wakeup_makes_the_descriptor_readable() {
    let _alone = alone();
    watchdog(60);
    let fixture = NodeFixture::new("readable");
    let vm = fixture.vm("readable");
    let mut poller = vm.bind(1).expect("a slot");
    let mut other = vm.bind_thread(None).expect("a slot");
    let fd = descriptor(&mut poller);
    for round in 0..3 {
        assert!(
            matches!(poller.try_receive(Source::Any), Err(ReceiveError::WouldBlock(_))),
            "{round}"
        );
        assert!(!is_readable(&fd, NOW), "nothing has happened yet");
        // It polls, and is not blocked in a call: the wakeup is remembered.
        let code = other.wakeup(poller.address()).expect_err("it runs").code();
        assert_eq!(code, Code::ProcRun);
        assert!(is_readable(&fd, LONG), "a wakeup is something to see");
        assert_eq!(poller.try_receive(Source::Any), Err(ReceiveError::Woken(m3ipc_abi::ANY)));
    }
    // Two wakeups are one, as the contract has it.
    let _ = other.wakeup(poller.address());
    let _ = other.wakeup(poller.address());
    assert!(is_readable(&fd, LONG));
    assert_eq!(poller.try_receive(Source::Any), Err(ReceiveError::Woken(m3ipc_abi::ANY)));
    assert!(matches!(poller.try_receive(Source::Any), Err(ReceiveError::WouldBlock(_))));
    assert!(!is_readable(&fd, NOW), "and over");
}

#[test]
fn a_wakeup_before_the_descriptor_is_used_is_seen_too() {
    let _alone = alone();
    watchdog(60);
    let fixture = NodeFixture::new("readable-early");
    let vm = fixture.vm("readable");
    let mut poller = vm.bind(1).expect("a slot");
    let mut other = vm.bind_thread(None).expect("a slot");
    let _ = other.wakeup(poller.address());
    let _fd = descriptor(&mut poller);
    assert_eq!(poller.try_receive(Source::Any), Err(ReceiveError::Woken(m3ipc_abi::ANY)));
}

#[test]
fn a_wakeup_ends_an_awaited_receive() {
    let _alone = alone();
    watchdog(60);
    let fixture = NodeFixture::new("readable-tokio");
    let vm = fixture.vm("readable");
    let poller = vm.bind(1).expect("a slot");
    let address = poller.address();
    let waker = std::thread::spawn(move || {
        let mut other = vm.bind_thread(None).expect("a slot");
        std::thread::sleep(Duration::from_millis(100));
        let _ = other.wakeup(address);
    });
    let runtime = tokio::runtime::Runtime::new().expect("its threads");
    runtime.block_on(async {
        let mut poller = AsyncEndpoint::new(poller).expect("a descriptor");
        assert_eq!(poller.receive(Source::Any).await, Err(ReceiveError::Woken(m3ipc_abi::ANY)));
    });
    waker.join().expect("it has woken");
}

#[test]
fn a_pending_send_that_was_taken_hides_no_message_of_its_receiver() {
    let _alone = alone();
    watchdog(60);
    let fixture = NodeFixture::new("readable-send");
    let vm = fixture.vm("readable");
    let mut own = vm.bind(1).expect("a slot");
    let mut peer = vm.bind_additional(Some(2)).expect("a slot");
    let (from, to) = (own.address(), peer.address());
    own.notify(to).expect("a link");
    assert!(peer.receive(Source::Any).expect("a message").is_notification());
    let fd = descriptor(&mut own);
    for _ in 0..3 {
        let mut sent = own.begin_send(to, &Message::new(1), Vec::new()).expect("no failure");
        loop {
            own.try_receive(Source::Any).expect_err("no message");
            assert!(!own.poll_send(&mut sent).expect("no failure"));
            if !is_readable(&fd, NOW) {
                break;
            }
        }
        assert_eq!(peer.try_receive(Source::Any).expect("the message").m_type, 1);
        let mut back = peer.begin_send(from, &Message::new(2), Vec::new()).expect("no failure");
        assert!(is_readable(&fd, LONG));
        assert_eq!(own.try_receive(Source::Any).expect("the message").m_type, 2);
        assert!(own.poll_send(&mut sent).expect("it was taken"));
        assert!(peer.poll_send(&mut back).expect("it was taken"));
    }
}

#[test]
fn a_message_that_becomes_an_answer_by_the_take_of_the_request_rings() {
    let _alone = alone();
    watchdog(60);
    let fixture = NodeFixture::new("readable-answer");
    let vm = fixture.vm("readable");
    let mut server = vm.bind(1).expect("a slot");
    let mut client = vm.bind_additional(Some(2)).expect("a slot");
    let (to, back) = (server.address(), client.address());
    client.notify(to).expect("a link");
    assert!(server.receive(Source::Any).expect("a message").is_notification());
    let fd = descriptor(&mut client);
    let mut asked = client.begin_request(to, &Message::new(1)).expect("no failure");
    let mut sent = server.begin_send(back, &Message::new(2), Vec::new()).expect("no failure");
    loop {
        assert_eq!(client.poll_request(&mut asked).expect("no failure"), None);
        if !is_readable(&fd, NOW) {
            break;
        }
    }
    assert_eq!(server.try_receive(Source::Any).expect("the request").m_type, 1);
    assert!(is_readable(&fd, LONG), "the answer is there");
    let answer = client.poll_request(&mut asked).expect("no failure");
    assert_eq!(answer.expect("the answer").m_type, 2);
    assert!(server.poll_send(&mut sent).expect("it was taken"));
}

#[test]
fn a_call_of_a_child_by_fork_leaves_the_descriptor_to_its_parent() {
    let _alone = alone();
    watchdog(60);
    let fixture = NodeFixture::new("readable-fork");
    let vm = fixture.vm("readable");
    let mut own = vm.bind(1).expect("a slot");
    let mut worker = vm.bind_additional(Some(2)).expect("a slot");
    let mut client = vm.bind_additional(Some(3)).expect("a slot");
    let fd = descriptor(&mut own);
    let mut pending =
        own.begin_request(worker.address(), &Message::new(7)).expect("the worker is there");
    while worker.try_receive(Source::Any).is_err() {
        assert_eq!(own.poll_request(&mut pending).expect("no failure"), None);
    }
    loop {
        own.try_receive(Source::Any).expect_err("no message");
        assert_eq!(own.poll_request(&mut pending).expect("no failure"), None);
        if !is_readable(&fd, NOW) {
            break;
        }
    }
    client.notify(own.address()).expect("the poller is there");
    assert!(is_readable(&fd, LONG));
    assert_eq!(own.poll_request(&mut pending).expect("no failure"), None);
    assert!(is_readable(&fd, NOW), "the receive has not looked");
    let is_refused = in_child(|| own.rcvrqst(&mut [], Timeout::NoWait).is_err());
    assert!(is_refused, "the child is unbound");
    assert!(is_readable(&fd, NOW), "the receive of the parent has not looked");
    assert!(own.try_receive(Source::Any).expect("a message").is_notification());
}

#[test]
fn a_child_by_fork_keeps_no_socket_of_an_endpoint() {
    let _alone = alone();
    watchdog(60);
    let fixture = NodeFixture::new("readable-sockets");
    let vm = fixture.vm("readable");
    let mut poller = vm.bind(1).expect("a slot");
    let fd = descriptor(&mut poller);
    let sockets = || {
        let descriptors = std::fs::read_dir("/proc/self/fd").expect("/proc").flatten();
        let targets = descriptors.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
    };
    assert!(sockets() >= 2, "the control connection and the doorbell");
    assert!(in_child(|| sockets() == 0));
    assert!(!is_readable(&fd, NOW));
}
