//! Programs that are killed: nothing of them stays that would keep later ones out.

use m3ipc::{Address, Endpoint, Lease, Message, Source};
use m3ipc_test_fixture::{until, watchdog};
use m3ipc_test_nodes::Cluster;

const CLIENT: i32 = 1;
const SERVER: i32 = 10;
const SERVER_ADDRESS: Address = Address(SERVER);
/// All slots of the node.
const KILLS: i32 = 99;
/// More than the copies that one user may have under way.
const READERS: i32 = 66;
/// Fewer descriptors of a proxy than one for each kill.
const LEFT_MAX: usize = 40;

/// A request that lends memory.
fn lend(client: &mut Endpoint, to: Address, memory: &mut [u8]) -> bool {
    let lease = Lease::both(memory);
    let request = Message::new(7).with_bytes(&lease.address().to_ne_bytes());
    client.sendrec_leased(to, &request, &[lease], None).is_ok()
}

/// Each copier has a slot of its own.
#[test]
fn requesters_that_are_killed_in_their_copies_leave_nothing() {
    watchdog(240);
    let cluster = Cluster::new("copy-kills");
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    let mut memory = vec![7; 4 << 20];
    let descriptors = || [&cluster.alpha, &cluster.beta].map(|node| node.proxy.descriptors());
    let before = descriptors();
    for slot in 101..101 + KILLS {
        let role = if slot < 101 + READERS { "reader" } else { "writer" };
        let mut copier = cluster.beta.program(role, slot);
        let address = cluster.alpha.await_slot(slot);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let answered = lend(&mut client, address, &mut memory);
                assert!(!answered, "the copier answers nothing");
            });
            assert_eq!(copier.line(), "copied");
            copier.kill();
        });
    }
    let after = descriptors();
    let is_less = |(after, before): (usize, usize)| after < before + LEFT_MAX;
    assert!(after.into_iter().zip(before).all(is_less), "{before:?} descriptors, then {after:?}");
    let mut server = cluster.beta.vm.bind(SERVER).expect("the slot is of beta");
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    let lending = std::thread::spawn(move || lend(&mut client, SERVER_ADDRESS, &mut memory));
    let request = server.receive(Source::Any).expect("the request comes");
    let place = u64::from_ne_bytes(request.payload[..8].try_into().expect("8 bytes"));
    let mut found = vec![0; 300_000];
    server.copy_from(request.source, place, &mut found).expect("there is room");
    server.reply(request.source, &Message::new(0)).expect("the client waits");
    assert!(lending.join().expect("no panic"), "an answer");
}

#[test]
fn a_reader_of_keys_that_is_killed_leaves_no_entry_among_the_processes() {
    watchdog(120);
    let cluster = Cluster::new("key-reader");
    let _server = cluster.beta.bind(SERVER);
    // The proxy is at work.
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    let parent = format!("PPid:\t{}\n", cluster.alpha.proxy.pid());
    let all = std::fs::read_dir("/proc").expect("there is /proc").flatten();
    let mut readers = all.map(|it| it.path()).filter(|process| {
        let read = |name| std::fs::read(process.join(name)).unwrap_or_default();
        let text = |name| String::from_utf8_lossy(&read(name)).into_owned();
        text("cmdline").contains(m3ipc_proxy::run::renewal::COMMAND)
            && text("status").contains(&parent)
    });
    let reader = readers.next().expect("the proxy has started it");
    let pid = reader.file_name().expect("a number");
    let killed = std::process::Command::new("kill").arg("-KILL").arg(pid).status();
    assert!(killed.expect("kill runs").success());
    until("the reader is gone", || !reader.exists());
}
