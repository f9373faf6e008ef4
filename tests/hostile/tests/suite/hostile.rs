//! T8: a member that breaks every rule, while others that keep the rules exchange messages.
//!
//! Their messages have numbers and sums. The attacker has its own user if the test may become other
//! users.

use m3ipc::VmConfig;
use m3ipc_hostile::hostile_process;
use m3ipc_test_fixture::message_count::MessageCount;
use m3ipc_test_fixture::{MemberProcess, USERS, UserNode, signals};

/// The calls of each client while the attacker is stopped.
const CALLS_BESIDE_STOPPED: usize = 100;

/// The server and its clients.
struct Fixture {
    node: UserNode,
    server: MemberProcess,
    address: String,
    clients: Vec<MemberProcess>,
    users: [u32; 6],
}

impl Fixture {
    fn new(name: &str, plants: &[&str]) -> Self {
        let root = m3ipc_sys::user_id() == 0;
        let users = if root { USERS } else { [0; 6] };
        let node = UserNode::start(name, 0, root);
        node.node().vm_init(&VmConfig::new("hostile").mode(0o755)).expect("a VM");
        let mut server = MemberProcess::start(users[1], "server", &[node.path(), "hostile"]);
        let address = server.line().strip_prefix("at ").expect("the server is bound").to_owned();
        let mut clients = Vec::new();
        for plant in plants {
            let mut client = MemberProcess::start(
                users[2],
                "client",
                &[node.path(), "hostile", &address, plant],
            );
            assert!(client.line().starts_with("at "), "the client is bound");
            assert_eq!(client.line(), "first", "the client is served");
            clients.push(client);
        }
        Self { node, server, address, clients, users }
    }

    /// Each client is served again and again. A server that waits for the attacker would serve
    /// none, and the watchdog would end the test.
    fn go_on(&mut self) {
        for _ in 0..CALLS_BESIDE_STOPPED {
            for client in &mut self.clients {
                assert_eq!(client.ask("again"), "again", "the client is served");
            }
        }
    }

    /// Ends all processes. Returns the count of the server, and that of its clients.
    fn finish(self) -> (MessageCount, MessageCount) {
        let mut asked = MessageCount::default();
        for client in self.clients {
            let (lines, succeeded) = client.finish();
            assert!(succeeded, "a client panicked");
            let one = lines.iter().find_map(|line| MessageCount::parse(line)).expect("its count");
            asked.whole += one.whole;
            asked.lost += one.lost;
            asked.altered += one.altered;
            asked.worst_us = asked.worst_us.max(one.worst_us);
        }
        let (lines, succeeded) = self.server.finish();
        assert!(succeeded, "the victim panicked");
        let served = lines.iter().find_map(|line| MessageCount::parse(line)).expect("its count");
        drop(self.node);
        (served, asked)
    }
}

#[test]
fn a_hostile_member_harms_only_its_own_talk() {
    let mut fixture = Fixture::new("hostile", &["", ""]);
    if fixture.users[0] == 0 {
        println!("SKIP other users: needs root; the attacker has the victim's user");
    }
    let arguments = [fixture.node.path(), "hostile", &fixture.address, "120"];
    let mut attacker = hostile_process(fixture.users[0], "attacker", &arguments);
    let scripts: u32 = attacker.line().strip_prefix("scripts ").unwrap().parse().unwrap();
    let mut rounds = 0;
    for _ in 0..3 {
        attacker.tell("all");
        loop {
            let line = attacker.line();
            if line == "stopping" {
                signals::until_stopped(attacker.pid());
                fixture.go_on();
                signals::resume(attacker.pid());
                continue;
            }
            rounds +=
                line.strip_prefix("rounds ").expect("the attacker lives").parse::<u32>().unwrap();
            break;
        }
    }
    assert_eq!(rounds, 3 * scripts, "every script ran");
    drop(attacker);
    let (served, asked) = fixture.finish();
    println!(
        "T8 hostile: messages {}, lost {}, altered {}, victim panics 0, \
         worst wake-up {:.1} ms (worst call {:.1} ms, {rounds} rounds of {scripts} scripts)",
        served.whole,
        served.lost + asked.lost + served.doubled,
        served.altered + asked.altered,
        f64::from(u32::try_from(served.worst_us).unwrap()) / 1000.0,
        f64::from(u32::try_from(asked.worst_us).unwrap()) / 1000.0,
    );
    assert_eq!((served.lost, served.doubled, served.altered), (0, 0, 0));
    assert_eq!((asked.lost, asked.altered), (0, 0));
    assert_eq!(served.whole, asked.whole);
    assert!(served.whole > 1000, "too few messages were served meanwhile");
}

#[test]
fn a_planted_fault_is_noticed() {
    let fixture = Fixture::new("planted", &["lose", "alter", "alter-long"]);
    let (served, asked) = fixture.finish();
    // A message whose sum is wrong is counted as altered, and its number as lost.
    assert_eq!((served.altered, served.lost), (2, 3), "{served:?}");
    assert_eq!((asked.lost, asked.altered), (0, 0));
    println!("T8 hostile: planted faults noticed 3/3");
}
