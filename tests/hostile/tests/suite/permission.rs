//! T7: only the owner of a status page writes it, whatever user a member has. No member holds a
//! page of a link of others.

use m3ipc::VmConfig;
use m3ipc_hostile::hostile_process;
use m3ipc_test_fixture::{MemberProcess, USERS, UserNode};

/// The attacks that succeed if only the size is sealed: reopening and writing in all its forms.
const PLANTED_MIN: usize = 6;

/// The inodes of the link pages that a process has mapped.
fn links_of(pid: i32) -> Vec<String> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("a process of ours");
    let links = maps.lines().filter(|line| line.contains("memfd:m3-link"));
    links.filter_map(|line| line.split_whitespace().nth(4).map(str::to_owned)).collect()
}

#[test]
fn only_its_owner_writes_a_page() {
    let root = m3ipc_sys::user_id() == 0;
    let users = if root {
        vec![("same", USERS[0]), ("other", USERS[1]), ("root", 0)]
    } else {
        println!("SKIP T7 other users: needs root");
        vec![("same", 0)]
    };
    let owner = if root { USERS[0] } else { 0 };
    let node = UserNode::start("seals", 0, root);
    node.node().vm_init(&VmConfig::new("seals").mode(0o755)).expect("a VM");
    // A pair with a link that no other member may hold.
    let mut pair = MemberProcess::start(owner, "pair", &[node.path(), "seals"]);
    assert!(pair.line().starts_with("ready"));
    assert_eq!(pair.ask("5"), "ok 5");
    let foreign = links_of(pair.pid());
    assert!(!foreign.is_empty(), "the pair has a link");
    let mut victim = MemberProcess::start(owner, "listener", &[node.path(), "seals"]);
    let line = victim.line();
    let address = line.split(' ').nth(1).expect("bound").to_owned();
    let (mut attacks, mut refused, mut foreign_found) = (0, 0, 0);
    for (name, user) in users {
        let mut words = vec![node.path(), "seals", &address];
        words.extend(foreign.iter().map(String::as_str));
        let (lines, succeeded) = hostile_process(user, "seals", &words).finish();
        assert!(succeeded, "{lines:?}");
        for line in lines {
            if let Some(noticed) = line.strip_prefix("planted ") {
                let noticed: usize = noticed.parse().expect("a number");
                assert!(
                    noticed >= PLANTED_MIN,
                    "{name}: the tools found {noticed} ways into an open page"
                );
            } else if let Some(rest) = line.strip_prefix("foreign ") {
                let (found, own) = rest.split_once(" own ").expect("two numbers");
                foreign_found += found.parse::<usize>().expect("a number");
                assert_eq!(own, "1", "a page that it holds is found");
            } else {
                attacks += 1;
                refused += usize::from(line.ends_with(": refused"));
                assert!(line.ends_with(": refused"), "{name} user: {line}");
            }
        }
    }
    println!(
        "T7 permission: attacks refused {refused}/{attacks}, foreign mappings {foreign_found}"
    );
    assert_eq!((refused, foreign_found), (attacks, 0));
    assert!(attacks >= 12);
}
