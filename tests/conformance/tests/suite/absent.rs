//! A member that lives and has not yet come back to a new daemon. A non-blocking call to it never
//! waits.

use m3ipc::{Address, Delivered, Message, ReceiveError, ReplyError, SendError, Source};
use m3ipc_test_fixture::{NodeFixture, watchdog};
use std::time::Duration;

#[test]
fn non_blocking_calls_do_not_wait_for_a_member_that_has_not_come_back() {
    watchdog(60);
    let mut fixture = NodeFixture::new("absent");
    let vm = fixture.vm("absent");
    // The member computes and makes no call, so it does not notice the new daemon.
    let mut absent = vm.bind(1).expect("a slot");
    let mut me = vm.bind_thread(Some(30)).expect("a slot");
    fixture.restart_daemon();
    let there = Address(1);
    assert_eq!(me.try_send(there, &Message::new(1)), Err(SendError::WouldBlock(there)));
    let not_waiting = Delivered::No(ReplyError::NotWaiting(there));
    assert_eq!(me.reply(there, &Message::new(1)), Ok(not_waiting));
    assert_eq!(me.try_receive(there), Err(ReceiveError::WouldBlock(there)));
    me.notify(there).expect("remembered");
    me.notify(there).expect("coalesced");
    // The member comes back by itself, since it sleeps now; the daemon has kept its notifications.
    let note =
        absent.receive_timeout(Source::Any, Duration::from_secs(30)).expect("the notification");
    assert!(note.is_notification());
    assert_eq!(note.source, me.address());
    assert_eq!(absent.latest_peer().map(|peer| peer.pid), Some(m3ipc_sys::process_id()));
    assert_eq!(absent.try_receive(Source::Any), Err(ReceiveError::WouldBlock(m3ipc_abi::ANY)));
    // From now on there is a link.
    me.notify(there).expect("over the link");
    assert_eq!(absent.receive(me.address()).expect("the notification").source, me.address());
}

#[test]
fn what_was_kept_keeps_its_bits_and_outlives_its_source() {
    watchdog(60);
    let mut fixture = NodeFixture::new("kept");
    let vm = fixture.vm("kept");
    let mut absent = vm.bind(1).expect("a slot");
    let mut hardware = vm.bind_thread(Some(-1)).expect("a slot of a task");
    let (restarted, wait) = std::sync::mpsc::channel::<()>();
    let (bound, is_bound) = std::sync::mpsc::channel();
    let brief = std::thread::spawn(move || {
        let mut brief = vm.bind_thread(Some(31)).expect("a slot");
        bound.send(brief.address()).expect("the test goes on");
        wait.recv().expect("the test goes on");
        brief.notify(Address(1)).expect("remembered");
    });
    let brief_address = is_bound.recv().expect("it is bound");
    fixture.restart_daemon();
    hardware.notify_set(Address(1), 0b100).expect("remembered");
    hardware.notify_set(Address(1), 0b001).expect("joined");
    // Its call was accepted: the notification arrives without it.
    restarted.send(()).expect("it waits");
    brief.join().expect("it has notified and left");
    let note =
        absent.receive_timeout(Source::Any, Duration::from_secs(30)).expect("the notification");
    assert_eq!(note.source, hardware.address());
    assert_eq!(note.payload[4..8], 0b101_u32.to_ne_bytes());
    let left = absent.try_receive(Source::Any).expect("the notification of the brief member");
    assert_eq!(left.source, brief_address);
    assert_eq!(absent.try_receive(Source::Any), Err(ReceiveError::WouldBlock(m3ipc_abi::ANY)));
}
