//! T11: what a hostile third member can do to two that talk, by mode of trust.
//!
//! Measured by real attempts, and equal to the table in `docs/threat-model.md`,
//! which this test reads.

use m3ipc::VmConfig;
use m3ipc_conformance::field::{Role, USERS, UsersNode, is_root};
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

/// Who the three are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Members {
    /// As programs usually run.
    Plain,
    /// With "dumpable" off.
    Hidden,
    /// Each in a user and a PID namespace of its own.
    Apart,
}

/// Two that talk and one that intrudes.
struct Scene {
    node: UsersNode,
    sitter: Role,
    listener: Role,
    intruder: Role,
    /// The victim's process, as the test sees it.
    victim_pid: i32,
    to: String,
    from: String,
}

/// The address a role tells, and the whole as the intruder wants it.
fn introduced(role: &mut Role) -> (String, String) {
    let pid = role.pid();
    introduced_as(role, pid)
}

/// The process that a role has become.
fn pid_of(role: &mut Role, members: Members) -> i32 {
    if members != Members::Apart {
        return role.pid();
    }
    let line = role.hear();
    line.strip_prefix("inner ").and_then(|pid| pid.parse().ok()).expect("namespaces of its own")
}

fn introduced_as(role: &mut Role, pid: i32) -> (String, String) {
    let line = role.hear();
    let (address, secret) =
        line.strip_prefix("at ").and_then(|rest| rest.split_once(' ')).expect("bound");
    (address.to_owned(), format!("{pid}:{address}:{secret}"))
}

impl Scene {
    fn new(mode: &str, system: bool, daemon: u32, users: [u32; 3], members: Members) -> Self {
        let node = UsersNode::start(mode, daemon, system);
        node.node().vm_init(&VmConfig::new("modes").mode(0o755)).expect("a VM");
        let name = |role: &str| match members {
            Members::Plain => role.to_owned(),
            Members::Hidden => format!("{role}-hidden"),
            Members::Apart => format!("apart-{role}"),
        };
        let mut sitter = Role::start(users[0], &name("sitter"), &[node.path(), "modes"]);
        let mut listener = Role::start(users[1], &name("listener"), &[node.path(), "modes"]);
        let victim_pid = pid_of(&mut sitter, members);
        let other_pid = pid_of(&mut listener, members);
        let (from, victim) = introduced_as(&mut sitter, victim_pid);
        let (to, other) = introduced_as(&mut listener, other_pid);
        let daemon = node.daemon_pid().to_string();
        let words = [node.path(), "modes", &victim, &other, &daemon];
        let role = if members == Members::Apart { "apart-intruder" } else { "intruder" };
        let mut intruder = Role::start(users[2], role, &words);
        pid_of(&mut intruder, members);
        assert_eq!(intruder.hear(), "ready");
        let mut scene = Self { node, sitter, listener, intruder, victim_pid, to, from };
        assert_eq!(scene.talk(|_| {}), format!("{} 77", scene.from), "the two talk");
        scene
    }

    /// The victim sends, the intruder acts, and then the listener listens.
    fn talk(&mut self, meanwhile: impl FnOnce(&mut Role)) -> String {
        self.sitter.tell(&format!("send {}", self.to));
        std::thread::sleep(Duration::from_millis(50));
        meanwhile(&mut self.intruder);
        let heard = self.listener.ask("500");
        self.sitter.hear();
        heard
    }

    /// What the intruder can do, in the order of the columns.
    fn measure(mut self) -> Vec<String> {
        let read = self.intruder.ask("read") == "yes";
        self.intruder.ask("forge");
        let forge = self.listener.ask("300") != "nothing";
        self.intruder.ask("alter");
        let alter = self.sitter.ask("look") != "whole";
        // The intruder forged over the link of the two: a fresh pair, where it could.
        let lose = {
            let mut scene = self;
            let whole = format!("{} 77", scene.from);
            let heard = scene.talk(|intruder| {
                intruder.ask("lose");
            });
            self = scene;
            heard != whole
        };
        let hang = self.intruder.ask("hang") == "yes" && self.does_not_answer();
        let kill = self.intruder.ask("kill") == "yes" && {
            std::thread::sleep(Duration::from_millis(100));
            self.sitter.has_ended()
        };
        drop(self.node);
        [read, forge, alter, lose, hang, kill]
            .map(|can| if can { "yes" } else { "no" }.to_owned())
            .to_vec()
    }

    /// Whether the victim is stopped; it is made to go on.
    fn does_not_answer(&mut self) -> bool {
        let stat =
            std::fs::read_to_string(format!("/proc/{}/stat", self.victim_pid)).unwrap_or_default();
        let stopped = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']));
        let pidfd = m3ipc_sys::open_process(self.victim_pid).expect("it lives");
        m3ipc_sys::signal(pidfd, m3ipc_sys::Signal::CONT).expect("it may go on");
        stopped
    }
}

#[test]
fn t11_modes() {
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
            || Scene::new(&mode.replace(' ', "-"), system, daemon, users, members).measure();
        let mut measured = measure();
        // An attack that is promised to nobody may miss its moment; one that is refused never may succeed.
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
fn t11_a_stranger_is_refused_everywhere() {
    if !is_root("T11 stranger") {
        return;
    }
    let mut refusals = Vec::new();
    for system in [false, true] {
        let user = if system { 0 } else { USERS[0] };
        let node = UsersNode::start(if system { "stranger-s" } else { "stranger-u" }, user, system);
        let vm = node.node().vm_init(&VmConfig::new("modes")).expect("a VM").id().to_string();
        // Root may join a VM of mode 0750; the stranger may not.
        let mut sitter = Role::start(0, "sitter", &[node.path(), "modes"]);
        let (_, victim) = introduced(&mut sitter);
        let (lines, _) = Role::start(USERS[5], "stranger", &[node.path(), &vm, &victim]).finish();
        let served: Vec<_> = lines.iter().filter(|line| line.ends_with(" served")).collect();
        if system {
            assert_eq!(served, ["connect served"], "a VM of mode 0750 is nobody else's");
            assert!(lines.len() > 20);
        } else {
            assert_eq!(lines, ["connect refused"], "a user's own node is nobody else's");
        }
        assert_eq!(sitter.ask("look"), "whole");
        refusals.push(lines.len() - served.len());
    }
    println!(
        "T11 stranger: refused {} of {} attempts system-wide, the connection itself per user",
        refusals[1], refusals[1]
    );
}

#[test]
fn t11_a_planted_fault_is_noticed() {
    if !is_root("T11 planted") {
        return;
    }
    // A VM that others may join, told as if they might not: the stranger is served, and that shows.
    let node = UsersNode::start("planted-t11", 0, true);
    let vm =
        node.node().vm_init(&VmConfig::new("modes").mode(0o755)).expect("a VM").id().to_string();
    let mut sitter = Role::start(0, "sitter", &[node.path(), "modes"]);
    let (_, victim) = introduced(&mut sitter);
    let (lines, _) = Role::start(USERS[5], "stranger", &[node.path(), &vm, &victim]).finish();
    assert!(lines.iter().any(|line| line == "Bind any served"), "{lines:?}");
    // Members that can be looked into are no row of `one user`.
    let open = Scene::new("planted-open", false, USERS[0], [USERS[0]; 3], Members::Plain).measure();
    assert_ne!(open, promised("one user"));
    // Nor are those of one user who share their namespaces a row of `namespaces`.
    assert_ne!(open, promised("namespaces"));
    println!("T11 modes: planted faults noticed 3/3");
}
