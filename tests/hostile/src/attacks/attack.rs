//! The attacks: each one a name, and the processes that make it.

use m3ipc::Endpoint;
use m3ipc_hostile::hostile_process;
use m3ipc_test_fixture::{MemberProcess, USERS};

/// The attacker's user.
const ATTACKER: u32 = USERS[3];
/// The user of the member at which an attack aims.
const VICTIM: u32 = USERS[2];
/// The VM that the attacker owns, after the attack `vms`.
const OWN_VM: &str = "greedy0";

/// What an attack may aim at.
pub(crate) struct Target {
    /// A member of a third user.
    _victim: MemberProcess,
    address: String,
    /// An area of root that each member may join.
    area: u32,
    _owner: Endpoint,
}

impl Target {
    /// A victim in a VM of this directory, on this CPU.
    pub(crate) fn new(node: [&str; 3], owner: Endpoint, area: u32) -> Self {
        let mut victim = hostile_process(VICTIM, "answerer", &node);
        let address = victim.line();
        Self { _victim: victim, address, area, _owner: owner }
    }
}

/// The argument of an attack.
#[derive(Clone, Copy)]
enum Aim {
    Nothing,
    Victim,
    Area,
}

/// One attack.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    aim: Aim,
    /// Whether it needs a VM of the attacker, in which it may take all slots.
    in_own_vm: bool,
    /// The slots of the VM; a quarter of them is the attacker's quota.
    pub(crate) procs: i32,
}

/// The slots of a VM by default.
const PROCS: i32 = 221;

const fn attack(name: &'static str, aim: Aim) -> Attack {
    Attack { name, aim, in_own_vm: false, procs: PROCS }
}

/// All attacks on the daemon, and on a member through the daemon.
pub(crate) const ATTACKS: &[Attack] = &[
    attack("none", Aim::Nothing),
    attack("copies", Aim::Victim),
    attack("renewals", Aim::Victim),
    Attack { procs: 1_000, ..attack("held", Aim::Victim) },
    attack("poisoned", Aim::Victim),
    attack("silent", Aim::Nothing),
    Attack { in_own_vm: true, ..attack("unread", Aim::Nothing) },
    attack("areas", Aim::Nothing),
    Attack { in_own_vm: true, ..attack("circle", Aim::Nothing) },
    attack("extents", Aim::Nothing),
    attack("tickets", Aim::Nothing),
    attack("connections", Aim::Nothing),
    attack("vms", Aim::Nothing),
    attack("slots", Aim::Nothing),
    attack("indexes", Aim::Area),
    attack("pulse", Aim::Nothing),
    attack("malformed", Aim::Nothing),
    attack("frames", Aim::Nothing),
    attack("binds", Aim::Nothing),
];

impl Attack {
    /// Starts the attack; it lasts until the processes are dropped.
    pub(crate) fn start(&self, directory: &str, vm: &str, target: &Target) -> Vec<MemberProcess> {
        let mut attackers = Vec::new();
        if self.name == "none" {
            return attackers;
        }
        let mut vm = vm;
        if self.in_own_vm {
            let mut owner = hostile_process(ATTACKER, "greedy", &[directory, vm, "vms"]);
            owner.line();
            attackers.push(owner);
            vm = OWN_VM;
        }
        let area = target.area.to_string();
        let argument = match self.aim {
            Aim::Nothing => "0",
            Aim::Victim => &target.address,
            Aim::Area => &area,
        };
        let mut flood = hostile_process(ATTACKER, "flood", &[directory, vm, self.name, argument]);
        assert_eq!(flood.line(), "begun", "the attack begins");
        attackers.push(flood);
        attackers
    }
}
