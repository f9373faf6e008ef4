//! A request that its server takes after the daemon's verdict of a deadlock.

use m3ipc::{Address, Message, SendRecError, Source, VmConfig};
use m3ipc_crash::CrashFixture;
use m3ipc_test_fixture::signals;
use std::time::Duration;

#[test]
fn a_request_taken_after_the_verdict_of_a_deadlock_is_answered() {
    if !m3ipc_sys::HAS_PAUSE_POINTS {
        println!("SKIPPED: this build has no pause points (a release)");
        return;
    }
    m3ipc_test_fixture::watchdog(120);
    let fixture = CrashFixture::new("verdict");
    let vm = fixture.node().vm_init(&VmConfig::new("verdict")).unwrap();
    let mut server = vm.bind(1).unwrap();
    let mut other = vm.bind_additional(Some(2)).unwrap();
    let call = ["verdict", "30", "1", "sendrec", "1"];
    let mut caller = fixture.paused_peer("client.locked", "call", &call);
    let address = Address(caller.bound());
    // The circle: the caller asks the server, the server asks the other, the other the caller.
    let (to_other, limit) = (other.address(), Duration::from_secs(3));
    let server = std::thread::spawn(move || {
        let asked = server.sendrec(to_other, &Message::new(1));
        (server, asked)
    });
    let other = std::thread::spawn(move || {
        let _ = other.sendrec_timeout(address, &Message::new(2), limit);
        other
    });
    let is_asked =
        || fixture.endpoints(vm.id()).iter().filter(|it| it.wait.for_ns > 0).count() == 2;
    fixture.until("both wait", is_asked);
    caller.go();
    caller.await_paused();
    // The other gives up or dies: the circle is open, and the server takes the request.
    drop(other.join().unwrap());
    let (mut server, asked) = server.join().unwrap();
    assert!(matches!(asked, Err(SendRecError::DiedBefore(_))), "{asked:?}");
    let request = server.receive(Source::From(address)).unwrap();
    signals::resume(caller.pid());
    server.reply(request.source, &Message::new(77)).unwrap();
    caller.expect("answer 77");
    caller.expect("done");
}
