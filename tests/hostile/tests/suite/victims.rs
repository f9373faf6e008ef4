//! A member of one user goes on while another user attacks it over links.

use m3ipc::VmConfig;
use m3ipc_hostile::hostile_process;
use m3ipc_test_fixture::{MemberProcess, USERS, UserNode, is_root, watchdog};

const VM: &str = "victims";
/// The time limit of a receive in milliseconds.
const LIMIT: &str = "2000";

/// A node with a VM that has room for the endpoints of an attack.
fn node(name: &str) -> Option<UserNode> {
    watchdog(120);
    if !is_root(name) {
        return None;
    }
    let node = UserNode::start_with(name, 0, true, &["--procs", "1000"]);
    let config = VmConfig::new(VM).mode(0o755).procs(1_000);
    node.node().vm_init(&config).expect("a VM");
    Some(node)
}

/// A member, and its address.
fn member(node: &UserNode, user: u32, role: &str) -> (MemberProcess, String) {
    let mut member = MemberProcess::start(user, role, &[node.path(), VM]);
    let line = member.line();
    let rest = line.strip_prefix("at ").expect("the role is bound");
    let address = rest.split(' ').next().unwrap_or_default().to_owned();
    (member, address)
}

fn attacker(node: &UserNode, attack: &str, victim: &str) -> MemberProcess {
    hostile_process(USERS[3], "greedy", &[node.path(), VM, attack, victim])
}

/// Each of the 160 copies could hold the victim for 100 ms, beyond the limit of its receive.
#[test]
fn copies_of_many_endpoints_hold_a_receive_no_longer_than_one() {
    let Some(node) = node("held") else { return };
    let (mut victim, address) = member(&node, USERS[0], "listener");
    let (mut neighbour, _) = member(&node, USERS[1], "listener");
    let (mut sender, from) = member(&node, USERS[1], "holder");
    // The attack begins its copies while the victim waits.
    victim.tell("10000");
    let mut attacker = attacker(&node, "held", &address);
    let said = attacker.line();
    println!("T8 held: {said}");
    let (endpoints, copies) = said.split_once(' ').expect("two numbers");
    assert_eq!(endpoints, "160");
    assert!(copies.parse::<u32>().is_ok_and(|copies| copies >= 160), "{said}");
    victim.tell(LIMIT);
    assert_eq!(neighbour.ask("10000"), "nothing");
    // The victim has begun its second receive at the latest now, and four limits pass.
    (0..4).for_each(|_| assert_eq!(neighbour.ask(LIMIT), "nothing"));
    sender.tell(&format!("send {address}"));
    assert_eq!(victim.line(), "nothing");
    assert_eq!(victim.line(), "nothing", "its receive ended before the message was sent");
    assert_eq!(victim.ask(LIMIT), format!("{from} 77"));
}

#[test]
fn notifications_over_a_poisoned_link_reach_nobody() {
    let Some(node) = node("poisoned") else { return };
    let (mut victim, address) = member(&node, USERS[0], "listener");
    let (mut sender, from) = member(&node, USERS[1], "holder");
    let mut attacker = attacker(&node, "poisoned", &address);
    let lines: Vec<String> = (0..6).map(|_| victim.ask("200")).collect();
    sender.tell(&format!("send {address}"));
    assert_eq!(victim.ask(LIMIT), format!("{from} 77"), "others reach it meanwhile");
    let count = attacker.line().parse().unwrap_or(0);
    println!("T8 poisoned: {count} notifications: {lines:?}");
    assert!(count > 1_000, "the attack went on");
    // The first one may come before the broken rule is found.
    assert!(lines[1..].iter().all(|line| line == "nothing"), "{lines:?}");
}
