//! Each rule of the tables by itself, and the journal.

mod areas;
mod binds;
mod journal;
mod others;
mod stand_ins;
mod vms;

use m3ipc_abi::{Address, Code, NodeLimits, Verb, VmLimits};
use m3ipc_wire::Privileges;

use super::*;

const LIMITS: NodeLimits = NodeLimits { vms: 4, nodes: 3, procs: 100, tasks: 35 };
const VM_LIMITS: VmLimits = VmLimits { procs: 40, tasks: 4 };
/// The owner of the VM of most tests.
const OWNER: u32 = 1000;
/// A user in the owner's group.
const FELLOW: u32 = 1001;
/// A user in no group of the owner.
const STRANGER: u32 = 1002;

fn cred(uid: u32, pid: i32) -> Credentials {
    match uid {
        0 => Credentials::administrator(pid),
        _ => Credentials::new(uid, if uid == STRANGER { 9 } else { 100 }, pid),
    }
}

fn member(pid: i32) -> Member {
    Member { pid, tid: None, started: 0 }
}

fn thread(pid: i32, tid: i32) -> Member {
    Member { pid, tid: Some(tid), started: 0 }
}

fn node() -> Node {
    Node::new(1, LIMITS, Quota { owner: Some(OWNER), ..Quota::default() })
}

fn spec(name: &str) -> VmSpec {
    VmSpec::new(name, VM_LIMITS, &cred(OWNER, 1))
}

/// A node with VM 0.
fn with_vm() -> Node {
    let mut node = node();
    assert_eq!(node.vm_init(spec("one"), &cred(OWNER, 1)), Ok(0));
    node
}

fn bind(node: &mut Node, slot: i32, pid: i32) -> Result<Address, Code> {
    bind_as(node, slot, pid, OWNER)
}

fn bind_as(node: &mut Node, slot: i32, pid: i32, uid: u32) -> Result<Address, Code> {
    let bound = node.bind(0, slot, member(pid), &cred(uid, pid), MemberKind::Process, None);
    bound.map(|bound| bound.address).map_err(|error| error.code())
}

fn at(address: Address) -> MemberId {
    MemberId::new(0, address)
}
