//! T12: the daemon is killed or stopped at random moments while members bind, call and leave. No
//! message is lost or doubled, the records survive, and no member takes a slot of another
//! meanwhile.

mod gap;
mod pairs;

use m3ipc::{Address, EndpointInfo, Privileges, VmConfig};
use m3ipc_crash::CrashFixture;
use m3ipc_sys::Signal;
use m3ipc_test_fixture::Rng;
use pairs::{Pairs, Visitors};
use std::time::Duration;

/// The number of pairs.
const PAIRS: usize = 8;

fn kills() -> u32 {
    std::env::var("M3_CHAOS_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(40)
}

/// What a daemon knows of each server. Its successors must know the same.
fn records(fixture: &CrashFixture, vm: i32) -> Vec<(i32, i32, i32, Vec<String>, Privileges)> {
    let mut node = fixture.node();
    let servers = |endpoint: &EndpointInfo| endpoint.slot <= i32::try_from(PAIRS).unwrap_or(0);
    let endpoints = node.endpoints(vm).expect("endpoints").into_iter().filter(servers);
    let told = endpoints.map(|endpoint| {
        let EndpointInfo { slot, address, pid, names, .. } = endpoint;
        let privileges = node.privileges(vm, Address(address)).expect("privileges");
        (slot, address, pid, names, privileges)
    });
    told.collect()
}

#[test]
fn the_daemon_dies_at_any_moment() {
    m3ipc_test_fixture::watchdog(400);
    let mut fixture = CrashFixture::new("chaos");
    let vm = fixture.node().vm_init(&VmConfig::new("chaos")).expect("a VM").id();
    let mut rng = Rng::new();
    println!("seed {}", rng.seed());
    let mut pairs = Pairs::start(&fixture, PAIRS);
    let limited = Privileges { ipc_from: None, ipc_to: None, traps: 0xff, level: 3 };
    fixture.node().set_privileges(vm, Address(1), limited).expect("the owner may");
    let before = records(&fixture, vm);
    assert_eq!(before.len(), PAIRS);
    let mut intruder = fixture.peer("intruder", &["chaos", "1"]);
    intruder.expect("ready");
    let mut visitors = Visitors::default();
    let (mut killed, mut stopped) = (0, 0);
    while killed < kills() {
        std::thread::sleep(Duration::from_millis(20 + rng.below(480)));
        visitors.come(&fixture, &mut rng, PAIRS);
        pairs.collect();
        if rng.below(4) == 0 && fixture.signal_daemon(Signal::STOP) {
            stopped += 1;
            std::thread::sleep(Duration::from_millis(20 + rng.below(200)));
            // Kill it while stopped, or let it go on.
            if rng.below(2) == 0 {
                fixture.signal_daemon(Signal::CONT);
                continue;
            }
        }
        killed += u32::from(fixture.kill_daemon());
    }
    let visited = visitors.end(&mut pairs);
    intruder.finish();
    let attempts = intruder.next_line().expect("the intruder's report");
    assert!(attempts.starts_with("tried"), "an intruder took another's slot: {attempts}");
    // New binds work: the visitor starts the next daemon if there is none.
    let mut late = fixture.peer("visitor", &["chaos", "1", "900000000", "10"]);
    let said = late.rest();
    assert_eq!(said.iter().filter(|line| line.starts_with("a ")).count(), 10, "{said:?}");
    said.into_iter().for_each(|line| pairs.note(line));
    // Members come back at their next slow check.
    fixture.until("all servers are back", || {
        let endpoints = fixture.endpoints(vm);
        endpoints.iter().filter(|endpoint| endpoint.connected).count() >= 2 * PAIRS
    });
    assert_eq!(records(&fixture, vm), before, "names, privileges, addresses, processes");
    let (verdict, unknown) = pairs.end();
    println!(
        "T12 daemon chaos: {killed} kills, {stopped} stops, {} messages, \
         {visited} visitors, lost {}, doubled {}, intruder {attempts}, seed {}",
        verdict.answered,
        verdict.lost + verdict.refused,
        verdict.doubled,
        rng.seed()
    );
    assert_eq!(unknown, [""; 0]);
    assert_eq!((verdict.lost, verdict.doubled, verdict.refused), (0, 0, 0), "{:?}", verdict.wrong);
    assert!(verdict.answered > 1_000, "the load was too small");
    fixture.until("all records are removed", || {
        fixture.info().links == 0 && fixture.info().endpoints == 0
    });
}
