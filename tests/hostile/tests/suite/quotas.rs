//! A greedy user takes all that it can get, and two members of other users go on.
//!
//! After each attack the pair exchanges a message and a third user binds a member. The attacker
//! keeps what it took meanwhile.

use m3ipc::{AreaConfig, VmConfig};
use m3ipc_daemon::quota::TABLE;
use m3ipc_hostile::hostile_process;
use m3ipc_test_fixture::{MemberProcess, USERS, UserNode, is_root};

/// The descriptors of the daemon. A user can fill its part of these, and not that of half a
/// million.
const DESCRIPTORS: &str = "--nofile=20000:20000";

/// A node of root with two members that exchange messages.
struct Fixture {
    node: UserNode,
    holder: MemberProcess,
    listener: MemberProcess,
    from: String,
    to: String,
}

/// The address that a role says.
fn address_of(role: &mut MemberProcess) -> String {
    let line = role.line();
    let rest = line.strip_prefix("at ").expect("the role is bound");
    rest.split(' ').next().unwrap_or_default().to_owned()
}

impl Fixture {
    fn new(name: &str) -> Option<Self> {
        if !is_root(name) {
            return None;
        }
        let starter = ["prlimit", DESCRIPTORS];
        let node = UserNode::start_by(&starter, &format!("greedy-{name}"), 0, true, &[]);
        let config = VmConfig::new("greedy").mode(0o755).domain("front", 3);
        let config = config.domain("back", 4).domain_user("back", USERS[3]);
        node.node().vm_init(&config).expect("a VM");
        let member = |user, role| MemberProcess::start(user, role, &[node.path(), "greedy"]);
        let mut holder = member(USERS[0], "holder");
        let mut listener = member(USERS[1], "listener");
        let (from, to) = (address_of(&mut holder), address_of(&mut listener));
        let mut fixture = Self { node, holder, listener, from, to };
        fixture.check_others();
        Some(fixture)
    }

    /// Starts an attack. Returns the attacker with what it took, and its words.
    fn attack(&self, attack: &str, arguments: &[&str]) -> (MemberProcess, String) {
        let words: Vec<&str> =
            [self.node.path(), "greedy", attack].iter().chain(arguments).copied().collect();
        let mut attacker = hostile_process(USERS[3], "greedy", &words);
        let said = attacker.line();
        println!("quotas: {attack}: {said}");
        (attacker, said)
    }

    /// The pair exchanges a message, and a member of a third user binds and sends, too.
    fn check_others(&mut self) {
        self.holder.tell(&format!("send {}", self.to));
        assert_eq!(self.listener.ask("20000"), format!("{} 77", self.from));
        assert!(self.holder.line().starts_with("Ok"), "the pair exchanges messages");
        let words = [self.node.path(), "greedy"];
        let mut third = MemberProcess::start(USERS[2], "holder", &words);
        let from = address_of(&mut third);
        third.tell(&format!("send {}", self.to));
        assert_eq!(self.listener.ask("20000"), format!("{from} 77"), "a new member sends");
        assert!(third.line().starts_with("Ok"));
    }
}

/// Checks that an attack ended at this quota with -12 and names it; returns its count.
fn check_refusal(said: &str, name: &str) -> usize {
    let mut words = said.splitn(3, ' ');
    let count = words.next().and_then(|count| count.parse().ok()).expect("a count");
    assert_eq!(words.next(), Some("-12"), "{said}");
    let why = words.next().unwrap_or_default();
    assert!(why.contains("quota") && why.contains(name), "{why}");
    count
}

#[test]
fn requests_for_copies_do_not_disconnect_their_victim() {
    let Some(mut fixture) = Fixture::new("copies") else { return };
    let (_attacker, said) = fixture.attack("copies", &[&fixture.from.clone()]);
    assert_eq!(said, "70000", "each request was served");
    fixture.check_others();
}

#[test]
fn renewals_of_a_link_take_one_place_in_the_queue_of_their_victim() {
    let Some(mut fixture) = Fixture::new("renewals") else { return };
    let before = fixture.node.daemon_fds();
    let (_attacker, said) = fixture.attack("renewals", &[&fixture.from.clone()]);
    assert_eq!(said, "5000", "each request was served");
    // A connection of the setup may end meanwhile.
    let held = fixture.node.daemon_fds().saturating_sub(before);
    assert!(held < 100, "the daemon holds {held} descriptors for one link");
    fixture.check_others();
}

#[test]
fn a_user_at_a_quota_is_refused_and_others_go_on() {
    let Some(mut fixture) = Fixture::new("numbers") else { return };
    let area = {
        let vm = fixture.node.node().vm_named("greedy").expect("the VM");
        let mut me = vm.bind_any().expect("a slot");
        let area = me.create_area(&AreaConfig::vm(1 << 20)).expect("an area");
        (me, area.id().to_string())
    };
    let attacks = [
        ("vms", "VMs", 8),
        ("slots", "slots", 48),
        ("tickets", "tickets", 8_192),
        ("areas", "area addresses", 7),
        ("indexes", "area indexes", 1_024),
    ];
    for (attack, name, limit) in attacks {
        let (attacker, said) = fixture.attack(attack, &[&area.1]);
        assert_eq!(check_refusal(&said, name), limit, "{said}");
        fixture.check_others();
        drop(attacker);
    }
    let (_attacker, said) = fixture.attack("connections", &[]);
    assert!(check_refusal(&said, "quota") > 100, "{said}");
    fixture.check_others();
}

#[test]
fn descriptors_that_nobody_reads_hold_up_their_user_alone() {
    let Some(mut fixture) = Fixture::new("unread") else { return };
    let mut owner = fixture.attack("vms", &[]).0;
    let words = [fixture.node.path(), "greedy0", "unread"];
    let mut attacker = hostile_process(USERS[3], "greedy", &words);
    let said = attacker.line();
    println!("quotas: unread: {said}");
    assert!(said.contains("no answer"), "its own requests wait: {said}");
    fixture.check_others();
    assert!(!owner.has_ended() && !attacker.has_ended(), "it keeps what it took");
}

#[test]
fn a_named_domain_is_for_its_user_alone() {
    let Some(mut fixture) = Fixture::new("domain") else { return };
    let (attacker, said) = fixture.attack("domain", &["3"]);
    assert!(said.starts_with("13 ") && said.contains("for user 0"), "{said}");
    drop(attacker);
    assert_eq!(fixture.attack("domain", &["4"]).1, "joined");
    assert_eq!(fixture.attack("domain", &["5"]).1, "joined", "a domain without a name");
    fixture.check_others();
}

#[test]
fn a_user_gets_a_quarter_of_the_domains_of_a_vm() {
    let Some(mut fixture) = Fixture::new("domains") else { return };
    let (_attacker, said) = fixture.attack("domains", &["5"]);
    assert_eq!(check_refusal(&said, "domains"), 63, "{said}");
    // A domain with a name for the user is not one of them.
    assert_eq!(fixture.attack("domain", &["4"]).1, "joined");
    let words = [fixture.node.path(), "greedy", "domain", "200"];
    let mut other = hostile_process(USERS[2], "greedy", &words);
    assert_eq!(other.line(), "joined", "another user has its part");
    fixture.check_others();
}

#[test]
fn a_question_about_a_large_circle_is_answered_in_parts() {
    let Some(mut fixture) = Fixture::new("circle") else { return };
    // The attacker is the owner of a VM of its own: it has all slots.
    let _owner = fixture.attack("vms", &[]).0;
    let words = [fixture.node.path(), "greedy0", "circle"];
    let said = hostile_process(USERS[3], "greedy", &words).line();
    println!("quotas: circle: {said}");
    let (members, answers) = said.split_once(' ').expect("a count and answers");
    let members: usize = members.parse().expect("a count");
    assert!(members > 150, "{said}");
    let parts = answers.split(',').count();
    assert!(answers.ends_with(" 1]") && parts == (members - 1).div_ceil(64), "{said}");
    fixture.check_others();
}

#[test]
fn malformed_frames_end_their_connections_alone() {
    let Some(mut fixture) = Fixture::new("malformed") else { return };
    assert_eq!(fixture.attack("malformed", &[]).1, "2000");
    fixture.check_others();
}

#[test]
fn the_threat_model_lists_each_quota() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/threat-model.md");
    let text = std::fs::read_to_string(path).expect("the threat model is written");
    let section =
        text.split("\n## ").find(|section| section.starts_with("Quotas")).expect("Quotas");
    let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    let expected: Vec<String> = TABLE
        .iter()
        .map(|row| format!("| {} | {} | {} |", row.name, row.limit.text(), row.counts))
        .collect();
    assert_eq!(rows, expected, "the table of docs/threat-model.md differs from quota.rs");
}
