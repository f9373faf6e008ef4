//! Users of one node that share its calls with another node.

use m3ipc::{Address, Endpoint, Message, Source, VmConfig};
use m3ipc_test_fixture::{USERS, UserNode, is_root, until, watchdog};
use m3ipc_test_nodes::{Directory, OneNode, Process, VM};
use std::time::{Duration, Instant};

const CLIENT: i32 = 1;
const SERVER: i32 = 10;
/// Endpoints of the hostile user, and the servers to each of which each of them sends: more calls
/// than the 512 that a VM may have with a node.
const ENDPOINTS: i32 = 45;
const DEAF: std::ops::RangeInclusive<i32> = 11..=23;

#[test]
fn a_user_with_very_many_calls_does_not_hold_up_others() {
    if !is_root("a_user_with_very_many_calls_does_not_hold_up_others") {
        return;
    }
    watchdog(120);
    let directory = Directory::new("shares");
    let config = VmConfig::new("shop").id(VM);
    let beta = OneNode::with_vm(&directory, "beta", &config);
    let alpha = UserNode::start("shares", 0, true);
    let vm = alpha.node().vm_init(&config.mode(0o755)).expect("a fresh VM");
    let config = directory.path().join("alpha.toml");
    let text = format!(
        "node = \"alpha\"\nregistry = \"nodes.toml\"\nkeys = \"keys\"\nruntime_dir = {:?}\n",
        alpha.directory()
    );
    std::fs::write(&config, text).expect("a test may write there");
    let _proxy = Process::start(&["proxy", config.to_str().expect("a text")]);
    let _server = beta.program("echo", SERVER);
    let mut deaf: Vec<Endpoint> = DEAF.map(|slot| beta.bind(slot)).collect();
    until("all servers are known", || {
        let listed = alpha.node().endpoints(VM).unwrap_or_default();
        let mut servers = std::iter::once(SERVER).chain(DEAF);
        servers.all(|server| listed.iter().any(|it| it.address == server))
    });
    let mut client = vm.bind(CLIENT).expect("the slot is of alpha");
    let mut call = || {
        let limit = Duration::from_secs(20);
        let answer = client.sendrec_timeout(Address(SERVER), &Message::new(7), limit);
        answer.expect("the server answers").m_type
    };
    assert_eq!(call(), 8);
    let [endpoints, first, last] =
        [ENDPOINTS, *DEAF.start(), *DEAF.end()].map(|number| number.to_string());
    let words = ["crowd", &USERS[0].to_string(), alpha.path(), &endpoints, &first, &last];
    let mut hostile = Process::start(&words);
    assert_eq!(hostile.line(), "sent");
    // Its messages reach the other node meanwhile, as many as may.
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(3) {
        assert_eq!(call(), 8);
    }
    // No message is lost: those that waited for room go on as others end.
    let (mut taken, all) = (0, ENDPOINTS * i32::try_from(DEAF.count()).expect("few"));
    until("all messages are taken", || {
        for server in &mut deaf {
            while server.try_receive(Source::Any).is_ok() {
                taken += 1;
            }
        }
        taken == all
    });
    assert_eq!(hostile.line(), "taken");
    assert_eq!(call(), 8);
}
