//! Rights over VMs and the node of others come from capabilities in the namespaces of the daemon,
//! and from no user number.

use m3ipc_users::{ATTACKER, Place, Running, SYSTEM, VICTIM, is_root};
use std::path::Path;

const DENIED: &str = "-335 ";
const EXCLUDED: &str = "-335 user";

/// A system's node of root with VM 0 of the victim, and an endpoint in it at slot 1.
struct Fixture {
    place: Place,
    path: String,
    // The member ends before its daemon.
    _member: Running,
    _daemon: Running,
}

impl Fixture {
    fn new() -> Self {
        let place = Place::new();
        let directory = place.folder("node", 0, 0o755);
        let daemon = place.daemon(0, &directory);
        let path = text(&directory).to_owned();
        assert_eq!(place.run(VICTIM, &["create", &path, "bank"]), "0");
        let mut member = Running::start(&mut place.role(VICTIM, &["member", &path, "bank"]));
        assert!(!member.line().is_empty(), "the member has bound slot 1");
        Self { place, path, _member: member, _daemon: daemon }
    }

    /// What an operation says to root with these words in front of it.
    fn says(&self, rights: &[&str], operation: &[&str]) -> String {
        let (name, rest) = operation.split_first().expect("an operation");
        let words = [rights, &[*name, self.path.as_str()], rest].concat();
        self.place.run(0, &words)
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

#[test]
fn user_0_without_its_rights_is_an_ordinary_user() {
    if !is_root("root without capabilities") {
        return;
    }
    let node = Fixture::new();
    for rights in [&["without"][..], &["deeper"], &["apart"]] {
        for (operation, why) in [
            (&["down"][..], "CAP_KILL"),
            (&["unbind", "0", "1"], "CAP_KILL"),
            (&["trace", "0"], "CAP_SYS_PTRACE"),
        ] {
            let said = node.says(rights, operation);
            let is_denied = said.starts_with(DENIED) && said.contains(why);
            assert!(is_denied || said.starts_with("SKIP"), "{rights:?} {operation:?}: {said}");
        }
        // The mode of the VM excludes an ordinary user.
        for operation in [&["end", "bank"][..], &["join", "bank"]] {
            let said = node.says(rights, operation);
            let is_excluded = said.starts_with(EXCLUDED) || said.starts_with("SKIP");
            assert!(is_excluded, "{rights:?} {operation:?}: {said}");
        }
    }
    assert_eq!(node.says(&[], &["join", "bank"]).parse().map(|it: i32| it >= 0), Ok(true));
    assert_eq!(node.says(&[], &["trace", "0"]), "0");
    assert_eq!(node.says(&[], &["unbind", "0", "1"]), "0");
    assert_eq!(node.says(&[], &["end", "bank"]), "0");
    assert_eq!(node.says(&[], &["down"]), "0");
}

#[test]
fn each_capability_gives_a_user_its_own_right_alone() {
    if !is_root("capabilities of users") {
        return;
    }
    let node = Fixture::new();
    let user = ATTACKER.to_string();
    let says = |capability: &str, operation: &[&str]| {
        node.says(&["ambient", capability, &user], operation)
    };
    assert!(says("sys_ptrace", &["join", "bank"]).starts_with(EXCLUDED));
    assert!(says("kill", &["trace", "0"]).starts_with(DENIED));
    assert!(says("ipc_owner", &["end", "bank"]).starts_with(DENIED));
    assert_eq!(says("sys_ptrace", &["trace", "0"]), "0");
    assert!(says("ipc_owner", &["join", "bank"]).parse::<i32>().is_ok_and(|it| it >= 0));
    assert_eq!(says("kill", &["unbind", "0", "1"]), "0");
    assert_eq!(says("kill", &["down"]), "0");
}

#[test]
fn a_capability_that_a_process_gained_itself_counts_after_its_exec_alone() {
    if !is_root("kept capabilities") {
        return;
    }
    let node = Fixture::new();
    // The kernel takes this process for one that executed a program with more rights.
    let said = node.says(&["capabilities", &ATTACKER.to_string()], &["down"]);
    assert!(said.starts_with(DENIED), "{said}");
}

#[test]
fn the_daemon_of_another_user_knows_root() {
    if !is_root("root at the system's node") {
        return;
    }
    let place = Place::new();
    let system = SYSTEM.to_string();
    for (rights, expected) in [(&[][..], "0"), (&["without"], DENIED), (&["deeper"], DENIED)] {
        let words = [&["system", system.as_str(), "755", "0"], rights, &["down", "/run/m3"]];
        let said = place.run(0, &words.concat());
        assert!(said.starts_with(expected) || said.starts_with("SKIP"), "{rights:?}: {said}");
    }
}
