//! `vm_init`, `vm_end`, the list of VMs.

use super::*;

fn init(node: &mut Node, change: impl FnOnce(&mut VmSpec)) -> Result<i32, Code> {
    let mut spec = spec("two");
    change(&mut spec);
    node.vm_init(spec, &cred(OWNER, 1)).map_err(|error| error.code())
}

#[test]
fn a_vm_is_refused_by_the_codes_of_the_contract() {
    let mut node = with_vm();
    assert_eq!(init(&mut node, |spec| spec.id = Some(4)), Err(Code::BadVmId));
    assert_eq!(init(&mut node, |spec| spec.id = Some(-1)), Err(Code::BadVmId));
    assert_eq!(init(&mut node, |spec| spec.id = Some(0)), Err(Code::RscBusy));
    assert_eq!(init(&mut node, |spec| spec.name = "one".into()), Err(Code::RscBusy));
    assert_eq!(init(&mut node, |spec| spec.name = "x".repeat(16)), Err(Code::NameSize));
    assert_eq!(init(&mut node, |spec| spec.name = "a/b".into()), Err(Code::BadValue));
    assert_eq!(init(&mut node, |spec| spec.name = "0".into()), Err(Code::BadValue));
    assert_eq!(init(&mut node, |spec| spec.name = "-7".into()), Err(Code::BadValue));
    assert_eq!(init(&mut node, |spec| spec.limits.procs = 101), Err(Code::BadRange));
    assert_eq!(init(&mut node, |spec| spec.nodes = vec![1, 3]), Err(Code::BadNodeId));
    assert_eq!(init(&mut node, |spec| spec.nodes = vec![2]), Err(Code::NoVmNode));
    assert_eq!(init(&mut node, |spec| spec.owner_uid = FELLOW), Err(Code::Perm));
    assert_eq!(init(&mut node, |spec| spec.id = Some(2)), Ok(2));
    assert_eq!(init(&mut node, |spec| spec.name = "three".into()), Ok(1));
}

#[test]
fn a_vm_ends_in_two_steps() {
    let mut node = with_vm();
    let address = bind(&mut node, 29, 7).unwrap();
    assert_eq!(node.wait_name(0, "late", TicketId(50)), Ok(Wait::Registered));
    assert_eq!(node.finish_end(0).unwrap_err().code(), Code::VmRun);
    assert_eq!(node.begin_end(0, &cred(FELLOW, 8)).unwrap_err().code(), Code::Privileges);
    let ending = node.begin_end(0, &cred(OWNER, 1)).unwrap();
    assert_eq!(
        (ending.members, ending.tickets),
        (vec![(at(address), member(7))], vec![TicketId(50)])
    );
    assert_eq!(bind(&mut node, 30, 8), Err(Code::VmNotRun));
    assert_eq!(node.begin_end(0, &cred(OWNER, 1)).unwrap_err().code(), Code::VmNotRun);
    assert_eq!(node.visible_vm(0, &cred(OWNER, 1)).unwrap().state(), VmState::Ending);
    let deaths = node.finish_end(0).unwrap();
    assert_eq!(deaths.len(), 1);
    assert_eq!(node.finish_end(0).unwrap_err().code(), Code::VmNotRun);
    assert_eq!(node.finish_end(4).unwrap_err().code(), Code::BadVmId);
    assert_eq!(node.endpoint_of_process(7), None);
}

#[test]
fn a_vm_is_left_by_all_after_its_last_member_and_not_before_its_first() {
    let mut node = node();
    init(&mut node, |spec| spec.life = m3ipc_wire::VmLife::Members).unwrap();
    let is_left = |node: &Node| node.vm(0).unwrap().is_left_by_all();
    assert!(!is_left(&node));
    bind(&mut node, 29, 7).unwrap();
    bind(&mut node, 30, 8).unwrap();
    node.exit(7);
    assert!(!is_left(&node));
    node.exit(8);
    assert!(is_left(&node));
    assert!(is_left(&Node::replay(&node.snapshot(), Quota::default()).unwrap()));
    let mut other = with_vm();
    bind(&mut other, 29, 7).unwrap();
    other.exit(7);
    assert!(!is_left(&other), "it ends by request alone");
}

#[test]
fn the_mode_of_a_vm_decides_which_users_see_it() {
    let node = with_vm();
    assert_eq!(node.visible_vms(&cred(FELLOW, 2)).count(), 1);
    assert_eq!(node.visible_vms(&cred(STRANGER, 2)).count(), 0);
    assert_eq!(node.visible_vm(0, &cred(STRANGER, 2)).unwrap_err().code(), Code::Privileges);
    assert_eq!(node.vm_by_name("one"), Ok(0));
    assert_eq!(node.vm_by_name("none").unwrap_err().code(), Code::NoNode);
}

#[test]
fn a_user_has_no_more_vms_than_the_quota() {
    let mut node = Node::new(0, NodeLimits { vms: 8, ..LIMITS }, Quota::default());
    assert_eq!(init(&mut node, |_| {}), Ok(0));
    assert_eq!(init(&mut node, |spec| spec.name = "second".into()), Ok(1));
    assert_eq!(init(&mut node, |spec| spec.name = "more".into()), Err(Code::NoMem));
    let quota = Quota { owner: Some(OWNER), ..Quota::default() };
    let mut own = Node::new(0, NodeLimits { vms: 8, ..LIMITS }, quota);
    for id in 0..8 {
        assert_eq!(init(&mut own, |spec| spec.name = format!("v{id}")), Ok(id));
    }
}
