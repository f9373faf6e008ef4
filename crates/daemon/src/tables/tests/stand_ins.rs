//! Slots of other nodes, and stand-ins.

use super::*;
use m3ipc_wire::ForeignRange;

fn range(vm: i32, first: i32, last: i32) -> ForeignRange {
    ForeignRange { vm, first, last, node: "beta".to_owned() }
}

fn with_foreign() -> Node {
    let mut node = with_vm();
    assert_eq!(node.set_foreign(vec![range(0, 10, 19), range(0, 29, 31)]), Ok(()));
    node
}

fn stand_in(node: &mut Node, address: Address) -> Result<Address, Code> {
    let bound = node.bind_stand_in(at(address), member(50), &cred(OWNER, 50));
    bound.map(|bound| bound.address).map_err(|error| error.code())
}

#[test]
fn a_slot_of_another_node_is_not_bound_here() {
    let mut node = with_foreign();
    for (slot, bound) in [(10, Err(Code::RmtProc)), (31, Err(Code::RmtProc)), (9, Ok(()))] {
        assert_eq!(bind(&mut node, slot, 100 + slot).map(drop), bound, "{slot}");
    }
    // The daemon chooses among the slots of its node.
    for (pid, slot) in [(1, 32), (2, 33)] {
        let free = node.bind_free(0, member(pid), &cred(OWNER, pid), MemberKind::Process, None);
        assert_eq!(free.map(|bound| bound.address.slot()).ok(), Some(slot));
    }
}

#[test]
fn ranges_that_a_local_endpoint_is_in_are_refused_by_name() {
    let mut node = with_foreign();
    let local = bind(&mut node, 5, 7).expect("a slot of this node");
    let refused = node.set_foreign(vec![range(0, 0, 9)]);
    assert_eq!(refused, Err((at(local), "beta".to_owned())));
    assert_eq!(node.node_of(0, Address(10)), Some("beta"), "the former ranges stay");
}

#[test]
fn a_stand_in_has_the_address_that_it_is_given_and_no_process() {
    let mut node = with_foreign();
    let remote = Address::new(7, 30);
    assert_eq!(stand_in(&mut node, remote), Ok(remote));
    assert_eq!(stand_in(&mut node, Address::new(8, 30)), Err(Code::SlotUsed));
    assert_eq!(stand_in(&mut node, Address(5)), Err(Code::LclProc));
    assert_eq!(stand_in(&mut node, Address(400)), Err(Code::Range));
    assert!(node.is_stand_in(at(remote)) && node.stand_ins() == [at(remote)]);
    assert_eq!(node.endpoint_of_process(50), None);
    assert!(node.exit(50).is_empty(), "it is no process of the VM");
    // The proxy may be a member besides, as any process.
    assert!(bind(&mut node, 6, 50).is_ok());
    assert_eq!(node.own_endpoints().count(), 1);
    let deaths = node.unbind(at(remote)).expect("it lives");
    assert_eq!((deaths.len(), deaths[0].kind), (1, MemberKind::StandIn));
    // The same endpoint may come back: its node was out of reach.
    assert_eq!(stand_in(&mut node, remote), Ok(remote));
}

#[test]
fn a_vm_ends_beside_a_stand_in() {
    let mut node = with_foreign();
    assert!(stand_in(&mut node, Address(10)).is_ok());
    node.begin_end(0, &cred(OWNER, 1)).expect("the owner may");
    let deaths = node.finish_end(0).expect("it is ending");
    assert_eq!(deaths.len(), 1);
    assert_eq!(stand_in(&mut node, Address(11)), Err(Code::VmNotRun));
}

#[test]
fn a_journal_brings_stand_ins_back_for_the_daemon_to_end() {
    let mut node = with_foreign();
    assert!(stand_in(&mut node, Address(10)).is_ok());
    let records = node.drain_records();
    let mut replayed = Node::replay(&records, node.quota()).expect("the records agree");
    assert_eq!(replayed, node);
    assert_eq!(replayed.stand_ins(), [at(Address(10))]);
    assert!(replayed.unbind(at(Address(10))).is_ok());
    // The proxy registers again.
    assert_eq!(replayed.node_of(0, Address(10)), None);
}
