//! T11: what a hostile member can do to two others that exchange messages, by mode of trust.
//!
//! The test makes real attempts, and compares them with the table in `docs/threat-model.md`.

use m3ipc::VmConfig;
use m3ipc_hostile::hostile_process;
use m3ipc_test_fixture::raw::RawMember;
use m3ipc_test_fixture::{MemberProcess, USERS, UserNode, is_root, program};
use m3ipc_wire::{Reply, Request, VmParams};
use std::collections::BTreeMap;
use std::time::Duration;

const COLUMNS: [&str; 6] = ["read", "forge", "alter", "lose", "hang", "kill"];

/// The row of the threat model for a mode.
fn promised(mode: &str) -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/threat-model.md");
    let text = std::fs::read_to_string(path).expect("the threat model is written");
    let head = format!("| mode | {} |", COLUMNS.join(" | "));
    assert!(text.contains(&head), "the table of the threat model has other columns");
    let row = text.lines().find(|line| line.starts_with(&format!("| {mode} |")));
    let cells = row.expect("the mode has a row").trim_matches('|').split('|').skip(1);
    cells.map(|cell| cell.trim().to_owned()).collect()
}

/// How the three processes run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Members {
    /// As usual.
    Plain,
    /// With "dumpable" off.
    Hidden,
    /// Each in a user and a PID namespace of its own.
    Apart,
}

/// Two members that exchange messages, and an intruder.
struct Fixture {
    node: UserNode,
    holder: MemberProcess,
    listener: MemberProcess,
    intruder: MemberProcess,
    /// The victim's process, as the test sees it.
    victim_pid: i32,
    to: String,
    from: String,
}

/// The address that a role says, and the argument for the intruder.
fn victim_of(role: &mut MemberProcess) -> (String, String) {
    let pid = role.pid();
    victim_as(role, pid)
}

/// The process of a role; in namespaces of its own it is the inner one.
fn pid_of(role: &mut MemberProcess, members: Members) -> i32 {
    if members != Members::Apart {
        return role.pid();
    }
    let line = role.line();
    line.strip_prefix("inner ").and_then(|pid| pid.parse().ok()).expect("namespaces of its own")
}

fn victim_as(role: &mut MemberProcess, pid: i32) -> (String, String) {
    let line = role.line();
    let (address, secret) =
        line.strip_prefix("at ").and_then(|rest| rest.split_once(' ')).expect("bound");
    (address.to_owned(), format!("{pid}:{address}:{secret}"))
}

/// Creates the VM as root, which no member is. The library refuses root a daemon of a user.
fn create_vm_of_root(node: &UserNode) {
    let params = VmParams {
        id: None,
        name: "modes".into(),
        procs: None,
        tasks: None,
        mode: 0o755,
        gid: None,
        grace_ms: 1000,
        copy_granted: false,
        domains: BTreeMap::new(),
        domain_users: BTreeMap::new(),
        life: m3ipc_wire::VmLife::UntilEnded,
    };
    let mut raw = RawMember::greeted(node.directory()).expect("the daemon answers");
    let reply = raw.request(&Request::VmInit(params));
    assert!(matches!(reply, Some((Reply::Vm(_), _))), "{reply:?}");
}

/// Whether the condition comes to hold within two seconds.
fn soon(mut holds: impl FnMut() -> bool) -> bool {
    (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        holds()
    })
}

impl Fixture {
    fn new(mode: &str, system: bool, daemon: u32, users: [u32; 3], members: Members) -> Self {
        let node = UserNode::start(mode, daemon, system);
        create_vm_of_root(&node);
        let name = |role: &str| match members {
            Members::Plain => role.to_owned(),
            Members::Hidden => format!("{role}-hidden"),
            Members::Apart => format!("apart-{role}"),
        };
        let (starter, path) = match members {
            Members::Apart => node.way_for_namespaces(),
            _ => (Vec::new(), node.path()),
        };
        let start = |program_name: &str, user, role: &str, words: &[&str]| {
            let words: Vec<&str> = [path, "modes"].iter().chain(words).copied().collect();
            let program = program(program_name);
            MemberProcess::start_program(&starter, &program, user, role, &words)
        };
        let mut holder = start("m3-tests-member", users[0], &name("holder"), &[]);
        let mut listener = start("m3-tests-member", users[1], &name("listener"), &[]);
        let victim_pid = pid_of(&mut holder, members);
        let other_pid = pid_of(&mut listener, members);
        let (from, victim) = victim_as(&mut holder, victim_pid);
        let (to, other) = victim_as(&mut listener, other_pid);
        let daemon = node.daemon_pid().to_string();
        let role = if members == Members::Apart { "apart-intruder" } else { "intruder" };
        let words = [victim.as_str(), &other, &daemon];
        let mut intruder = start("m3-tests-hostile", users[2], role, &words);
        pid_of(&mut intruder, members);
        assert_eq!(intruder.line(), "ready");
        let mut fixture = Self { node, holder, listener, intruder, victim_pid, to, from };
        assert_eq!(fixture.talk(|_| {}), format!("{} 77", fixture.from), "the two talk");
        fixture
    }

    /// The victim sends, the intruder acts, and then the listener listens.
    fn talk(&mut self, meanwhile: impl FnOnce(&mut MemberProcess)) -> String {
        self.holder.tell(&format!("send {}", self.to));
        std::thread::sleep(Duration::from_millis(50));
        meanwhile(&mut self.intruder);
        let heard = self.listener.ask("5000");
        self.holder.line();
        heard
    }

    /// What the intruder can do, in the order of the columns.
    fn measure(mut self) -> Vec<String> {
        let read = self.intruder.ask("read") == "yes";
        self.intruder.ask("forge");
        let forge = self.listener.ask("300") != "nothing";
        self.intruder.ask("alter");
        let alter = self.holder.ask("look") != "whole";
        // The intruder has forged messages on this link.
        let lose = {
            let mut fixture = self;
            let whole = format!("{} 77", fixture.from);
            let heard = fixture.talk(|intruder| {
                intruder.ask("lose");
            });
            self = fixture;
            heard != whole
        };
        let hang = self.intruder.ask("hang") == "yes" && self.does_not_answer();
        let kill = self.intruder.ask("kill") == "yes" && soon(|| self.holder.has_ended());
        drop(self.node);
        [read, forge, alter, lose, hang, kill]
            .map(|can| if can { "yes" } else { "no" }.to_owned())
            .to_vec()
    }

    /// Whether the victim stops; lets it go on.
    ///
    /// A stopped process is marked as stopped when its thread next runs, which a busy machine may
    /// put off.
    fn does_not_answer(&mut self) -> bool {
        let path = format!("/proc/{}/stat", self.victim_pid);
        let stopped = soon(|| {
            let stat = std::fs::read_to_string(&path).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
        });
        let pidfd = m3ipc_sys::open_process(self.victim_pid).expect("it lives");
        m3ipc_sys::signal(pidfd, m3ipc_sys::Signal::CONT).expect("it may go on");
        stopped
    }
}

#[test]
fn each_mode_keeps_its_promises() {
    if !is_root("T11 modes") {
        return;
    }
    let [one, two, three, ..] = USERS;
    let modes = [
        ("different users", true, 0, [one, two, three], Members::Plain),
        ("namespaces", true, 0, [one; 3], Members::Apart),
        ("one user", false, one, [one; 3], Members::Hidden),
        ("open", false, one, [one; 3], Members::Plain),
    ];
    let mut shown = Vec::new();
    for (mode, system, daemon, users, members) in modes {
        let measure =
            || Fixture::new(&mode.replace(' ', "-"), system, daemon, users, members).measure();
        let mut measured = measure();
        // An attack that should succeed may miss its moment. An attack that should fail may never
        // succeed.
        for _ in 0..3 {
            if measured == promised(mode)
                || (measured.iter().zip(&promised(mode)))
                    .any(|(got, said)| *got == "yes" && *said == "no")
            {
                break;
            }
            measured = measure();
        }
        assert_eq!(measured, promised(mode), "{mode}: {COLUMNS:?}");
        shown.push(format!("{mode}: {}", measured.join(" ")));
    }
    println!("T11 modes: {} = docs/threat-model.md ({})", COLUMNS.join(" "), shown.join("; "));
}

#[test]
fn a_stranger_is_refused_everywhere() {
    if !is_root("T11 stranger") {
        return;
    }
    let mut refusals = Vec::new();
    for system in [false, true] {
        let user = if system { 0 } else { USERS[0] };
        let node = UserNode::start(if system { "stranger-s" } else { "stranger-u" }, user, system);
        let vm = node.node().vm_init(&VmConfig::new("modes")).expect("a VM").id().to_string();
        // Root may join a VM of mode 0750; the stranger may not.
        let mut holder = MemberProcess::start(user, "holder", &[node.path(), "modes"]);
        let (_, victim) = victim_of(&mut holder);
        let (lines, _) =
            hostile_process(USERS[5], "stranger", &[node.path(), &vm, &victim]).finish();
        let served: Vec<_> = lines.iter().filter(|line| line.ends_with(" served")).collect();
        if system {
            assert_eq!(served, ["connect served"], "a VM of mode 0750 is nobody else's");
            assert!(lines.len() > 20);
        } else {
            assert_eq!(lines, ["connect refused"], "a user's own node is nobody else's");
        }
        assert_eq!(holder.ask("look"), "whole");
        refusals.push(lines.len() - served.len());
    }
    println!(
        "T11 stranger: refused {} of {} attempts system-wide, the connection itself per user",
        refusals[1], refusals[1]
    );
}

#[test]
fn a_planted_fault_is_noticed() {
    if !is_root("T11 planted") {
        return;
    }
    // Others may join this VM, contrary to the row: the test must notice that the stranger is
    // served.
    let node = UserNode::start("planted-t11", 0, true);
    let vm =
        node.node().vm_init(&VmConfig::new("modes").mode(0o755)).expect("a VM").id().to_string();
    let mut holder = MemberProcess::start(0, "holder", &[node.path(), "modes"]);
    let (_, victim) = victim_of(&mut holder);
    let (lines, _) = hostile_process(USERS[5], "stranger", &[node.path(), &vm, &victim]).finish();
    assert!(lines.iter().any(|line| line == "Bind any served"), "{lines:?}");
    // Members that can be read do not match the row `one user`.
    let open =
        Fixture::new("planted-open", false, USERS[0], [USERS[0]; 3], Members::Plain).measure();
    assert_ne!(open, promised("one user"));
    // Members that share their namespaces do not match the row `namespaces`.
    assert_ne!(open, promised("namespaces"));
    println!("T11 modes: planted faults noticed 3/3");
}
