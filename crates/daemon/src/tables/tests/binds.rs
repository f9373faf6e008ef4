//! `bind`, `unbind`, `exit`, and the tickets that they complete.

use super::*;

#[test]
fn the_generation_of_a_user_slot_rises_and_that_of_a_system_slot_stays() {
    let mut node = with_vm();
    let first = bind(&mut node, 29, 7).unwrap();
    assert_eq!((first.slot(), first.generation()), (29, 1));
    assert_eq!(node.exit(7).len(), 1);
    assert_eq!(bind(&mut node, 29, 7).unwrap().generation(), 2);
    assert_eq!(bind(&mut node, 3, 8), Ok(Address(3)));
    node.exit(8);
    assert_eq!(bind(&mut node, 3, 8), Ok(Address(3)));
}

#[test]
fn a_bind_is_refused_by_the_codes_of_the_contract() {
    let mut node = with_vm();
    let mut code = |vm, slot, uid, kind| {
        node.bind(vm, slot, member(7), &cred(uid, 7), kind, None).unwrap_err().code()
    };
    assert_eq!(code(4, 29, OWNER, MemberKind::Process), Code::BadVmId);
    assert_eq!(code(3, 29, OWNER, MemberKind::Process), Code::VmNotRun);
    assert_eq!(code(0, 40, OWNER, MemberKind::Process), Code::Range);
    assert_eq!(code(0, -5, OWNER, MemberKind::Process), Code::Range);
    assert_eq!(code(0, 29, STRANGER, MemberKind::Process), Code::Privileges);
    assert_eq!(code(0, 28, FELLOW, MemberKind::Process), Code::Privileges);
    assert_eq!(code(0, 29, OWNER, MemberKind::Thread), Code::GrpLeader);
    assert_eq!(code(0, 29, FELLOW, MemberKind::Foreign { uid: OWNER, gid: 0 }), Code::Privileges);
    bind(&mut node, 29, 7).unwrap();
    assert_eq!(bind(&mut node, 30, 7), Err(Code::SlotUsed));
    assert_eq!(bind(&mut node, 29, 8), Err(Code::SlotUsed));
    let tidless = node.bind(0, 30, member(7), &cred(OWNER, 7), MemberKind::Thread, None);
    assert_eq!(tidless.unwrap_err().code(), Code::BindType);
    let other = node.bind(0, 30, member(9), &cred(OWNER, 8), MemberKind::Process, None);
    assert_eq!(other, Err(BindError::NotAllowed(OWNER)));
}

#[test]
fn reserved_numbers_are_no_slots() {
    let mut node = Node::new(0, NodeLimits::MAX, Quota::default());
    let limits = VmLimits { procs: 35_534, tasks: 35 };
    node.vm_init(VmSpec::new("big", limits, &cred(OWNER, 1)), &cred(OWNER, 1)).unwrap();
    for reserved in [m3ipc_abi::ANY, m3ipc_abi::NONE, m3ipc_abi::SELF] {
        assert_eq!(bind(&mut node, reserved.0, 7), Err(Code::Range));
    }
    assert_eq!(bind(&mut node, 35_533, 7).map(Address::slot), Ok(35_533));
}

#[test]
fn free_slots_are_given_in_order_and_skip_the_reserved_numbers() {
    let mut node = Node::new(0, NodeLimits::MAX, Quota { endpoints: u32::MAX, ..Quota::default() });
    let limits = VmLimits { procs: 35_534, tasks: 0 };
    node.vm_init(VmSpec::new("big", limits, &cred(OWNER, 1)), &cred(OWNER, 1)).unwrap();
    let reserved = [m3ipc_abi::ANY.0, m3ipc_abi::NONE.0, m3ipc_abi::SELF.0];
    for slot in (29..35_534).filter(|slot| !reserved.contains(slot)) {
        let bound =
            node.bind_free(0, member(slot), &cred(OWNER, slot), MemberKind::Process, None).unwrap();
        assert_eq!(bound.address.slot(), slot);
    }
    let full = node.bind_free(0, member(1), &cred(OWNER, 1), MemberKind::Process, None);
    assert_eq!(full, Err(BindError::Full));
}

#[test]
fn open_slots_let_members_of_the_group_bind_system_slots() {
    let mut node = node();
    node.vm_init(VmSpec { open_slots: true, ..spec("one") }, &cred(OWNER, 1)).unwrap();
    assert_eq!(bind_as(&mut node, -2, 7, FELLOW), Ok(Address(-2)));
    assert_eq!(bind_as(&mut node, 1, 8, STRANGER), Err(Code::Privileges));
}

#[test]
fn the_lowest_free_user_slot_is_given() {
    let mut node = with_vm();
    bind(&mut node, 29, 7).unwrap();
    bind(&mut node, 31, 8).unwrap();
    let mut free =
        |pid| node.bind_free(0, member(pid), &cred(OWNER, pid), MemberKind::Process, None);
    assert_eq!(free(9).unwrap().address.slot(), 30);
    for pid in 10..18 {
        assert_eq!(free(pid).unwrap().address.slot(), pid + 22);
    }
    assert_eq!(free(99).unwrap_err().code(), Code::SlotUsed);
    node.exit(8);
    assert_eq!(
        node.bind_free(0, member(8), &cred(OWNER, 8), MemberKind::Process, None)
            .unwrap()
            .address
            .slot(),
        31
    );
}

#[test]
fn the_endpoints_of_threads_end_with_their_process() {
    let mut node = with_vm();
    let process = bind(&mut node, 29, 7).unwrap();
    let mut tbind =
        |tid| node.bind_free(0, thread(7, tid), &cred(OWNER, 7), MemberKind::Thread, None);
    let one = tbind(71).unwrap().address;
    let two = tbind(72).unwrap().address;
    assert_eq!(tbind(71).unwrap_err(), BindError::Bound(one));
    assert_eq!(node.exit_thread(7, 71).unwrap().id, at(one));
    let dead: Vec<_> =
        node.unbind(at(process)).unwrap().iter().map(|death| death.id.address).collect();
    assert_eq!(dead, [two, process]);
}

#[test]
fn additional_endpoints_end_with_their_process() {
    let mut node = with_vm();
    let bind_additional = |node: &mut Node| {
        node.bind_free(0, member(7), &cred(OWNER, 7), MemberKind::Additional, None)
    };
    let unbound = bind_additional(&mut node);
    assert_eq!(unbound.unwrap_err().code(), Code::GrpLeader, "the process has no endpoint");
    let process = bind(&mut node, 29, 7).unwrap();
    let one = bind_additional(&mut node).unwrap().address;
    let two = bind_additional(&mut node).unwrap().address;
    assert_eq!(node.endpoint_of_process(7), Some(at(process)));
    let again = node.bind_free(0, member(7), &cred(OWNER, 7), MemberKind::Process, None);
    assert_eq!(again.unwrap_err(), BindError::Bound(process), "the rule of the C API stays");
    let dead =
        |deaths: Vec<Death>| -> Vec<_> { deaths.iter().map(|death| death.id.address).collect() };
    assert_eq!(dead(node.unbind(at(one)).unwrap()), [one], "the other endpoints stay");
    let copy = Node::replay(&node.snapshot(), Quota::default()).unwrap();
    assert_eq!(copy.snapshot(), node.snapshot());
    assert_eq!(dead(node.exit(7)), [two, process]);
}

#[test]
fn an_unbind_distinguishes_a_free_slot_from_another_generation() {
    let mut node = with_vm();
    let address = bind(&mut node, 29, 7).unwrap();
    assert_eq!(
        node.may_unbind(at(address), &cred(STRANGER, 9)).unwrap_err().code(),
        Code::Privileges
    );
    assert_eq!(node.may_unbind(at(address), &cred(OWNER, 9)), Ok(()));
    node.unbind(at(address)).unwrap();
    assert_eq!(node.unbind(at(address)).unwrap_err().code(), Code::NotBind);
    bind(&mut node, 29, 8).unwrap();
    assert_eq!(node.unbind(at(address)).unwrap_err().code(), Code::Endpoint);
}

#[test]
fn lclbind_gives_the_endpoint_to_the_other_process() {
    let mut node = with_vm();
    assert_eq!(node.wait_bind(9, TicketId(50)), Wait::Registered);
    let kind = MemberKind::Foreign { uid: OWNER, gid: 5 };
    let bound = node.bind(0, 29, member(9), &cred(OWNER, 7), kind, None).unwrap();
    assert_eq!(bound.tickets, [TicketId(50)]);
    assert_eq!(node.endpoint_of_process(9), Some(at(bound.address)));
    assert_eq!(node.wait_bind(9, TicketId(51)), Wait::Already(bound.address));
    assert_eq!(node.endpoint(at(bound.address)).unwrap().gid, 5);
}

#[test]
fn an_owner_has_no_more_endpoints_than_the_quota() {
    let mut node = Node::new(0, LIMITS, Quota { endpoints: 1, ..Quota::default() });
    node.vm_init(spec("one"), &cred(OWNER, 1)).unwrap();
    bind(&mut node, 29, 7).unwrap();
    assert_eq!(bind(&mut node, 30, 8), Err(Code::NoMem));
    assert_eq!(bind_as(&mut node, 30, 8, FELLOW).map(Address::slot), Ok(30));
    node.exit(7);
    assert!(bind(&mut node, 29, 9).is_ok());
}
