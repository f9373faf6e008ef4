//! A wakeup makes the endpoint's descriptor readable, for poll and for tokio.

use m3ipc::asynchronous::AsyncEndpoint;
use m3ipc::{Endpoint, ReceiveError, Source};
use m3ipc_abi::Code;
use m3ipc_test_fixture::{NodeFixture, watchdog};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

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
    watchdog(60);
    let fixture = NodeFixture::new("readable-early");
    let vm = fixture.vm("readable");
    let mut poller = vm.bind(1).expect("a slot");
    let mut other = vm.bind_thread(None).expect("a slot");
    let _ = other.wakeup(poller.address());
    let _fd = descriptor(&mut poller);
    assert_eq!(poller.try_receive(Source::Any), Err(ReceiveError::Woken(m3ipc_abi::ANY)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wakeup_ends_an_awaited_receive() {
    watchdog(60);
    let fixture = NodeFixture::new("readable-tokio");
    let vm = fixture.vm("readable");
    let poller = vm.bind(1).expect("a slot");
    let address = poller.address();
    let mut poller = AsyncEndpoint::new(poller).expect("a descriptor");
    let waker = std::thread::spawn(move || {
        let mut other = vm.bind_thread(None).expect("a slot");
        std::thread::sleep(Duration::from_millis(100));
        let _ = other.wakeup(address);
    });
    assert_eq!(poller.receive(Source::Any).await, Err(ReceiveError::Woken(m3ipc_abi::ANY)));
    waker.join().expect("it has woken");
}
