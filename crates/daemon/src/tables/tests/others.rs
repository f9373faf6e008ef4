//! Names, tickets, privileges, links.

use super::*;

#[test]
fn a_reserved_name_goes_to_its_key_and_its_holder_alone() {
    let mut node = with_vm();
    let [holder, other] = [bind(&mut node, 30, 1).unwrap(), bind(&mut node, 31, 2).unwrap()];
    let owner = cred(OWNER, 1);
    let key = Some(7);
    let refused = node.name_reserve(at(other), "fs", key, &cred(FELLOW, 2));
    assert_eq!(refused, Err(NameError::NotAllowed(FELLOW)));
    assert_eq!(node.name_reserve(at(holder), "fs", key, &owner), Ok(()));
    let taken = Err(NameError::Reserved(holder));
    assert_eq!(node.name_reserve(at(other), "fs", Some(8), &owner), taken);
    for wrong in [None, Some(8)] {
        assert_eq!(node.name_attach(at(other), "fs", wrong), Err(NameError::Reserved(holder)));
    }
    assert_eq!(node.name_attach(at(other), "fs", key), Ok(vec![]));
    node.unbind(at(other)).unwrap();
    let other = bind(&mut node, 31, 2).unwrap();
    let between = node.name_attach(at(other), "fs", None).unwrap_err();
    assert_eq!(between.code(), Code::RscBusy);
    let again = Node::replay(&node.snapshot(), Quota::default()).expect("a snapshot");
    assert_eq!(again.snapshot(), node.snapshot());
    assert_eq!(node.name_attach(at(holder), "fs", None), Ok(vec![]), "the holder itself");
    node.unbind(at(holder)).unwrap();
    assert_eq!(node.name_attach(at(other), "fs", None), Ok(vec![]), "the holder has ended");
}

#[test]
fn a_name_is_unique_and_ends_with_its_endpoint() {
    let mut node = with_vm();
    let one = bind(&mut node, 29, 7).unwrap();
    let two = bind(&mut node, 30, 8).unwrap();
    assert_eq!(node.wait_name(0, "fs", TicketId(50)), Ok(Wait::Registered));
    assert_eq!(node.name_attach(at(one), "fs", None), Ok(vec![TicketId(50)]));
    assert_eq!(node.name_attach(at(one), "files", None), Ok(vec![]));
    assert_eq!(node.wait_name(0, "fs", TicketId(51)), Ok(Wait::Already(one)));
    let code = |result: Result<Vec<TicketId>, NameError>| result.unwrap_err().code();
    assert_eq!(code(node.name_attach(at(two), "fs", None)), Code::RscBusy);
    assert_eq!(code(node.name_attach(at(two), &"x".repeat(64), None)), Code::NameSize);
    assert_eq!(code(node.name_attach(at(two), "", None)), Code::BadValue);
    assert_eq!(node.name_locate(0, "files"), Ok(one));
    node.exit(7);
    assert_eq!(node.name_locate(0, "fs").unwrap_err().code(), Code::NoNode);
    assert_eq!(code(node.name_attach(at(one), "fs", None)), Code::NotBind);
    assert_eq!(node.name_attach(at(two), "fs", None), Ok(vec![]));
}

#[test]
fn a_wait_for_an_endpoint_to_come_ends_with_it_alone() {
    let mut node = with_vm();
    let [first, second] = [Address::new(1, 29), Address::new(2, 29)];
    assert_eq!(node.wait_bind_ep(None, at(second), TicketId(50)), Ok(Wait::Registered));
    assert_eq!(node.wait_bind_ep(None, at(Address(29)), TicketId(51)), Ok(Wait::Registered));
    let bound = node.bind(0, 29, member(7), &cred(OWNER, 7), MemberKind::Process, None).unwrap();
    assert_eq!(bound, Bound { address: first, tickets: vec![TicketId(51)] });
    assert_eq!(node.wait_bind_ep(None, at(Address(29)), TicketId(52)), Ok(Wait::Already(first)));
    assert_eq!(
        node.wait_bind_ep(Some(first), at(first), TicketId(52)).unwrap_err().code(),
        Code::Endpoint
    );
    node.exit(7);
    assert_eq!(
        node.wait_bind_ep(None, at(first), TicketId(52)).unwrap_err().code(),
        Code::Endpoint
    );
    node.wait_bind_ep(None, at(second), TicketId(53)).unwrap();
    node.cancel_wait(TicketId(50));
    let bound = node.bind(0, 29, member(7), &cred(OWNER, 7), MemberKind::Process, None).unwrap();
    assert_eq!(bound, Bound { address: second, tickets: vec![TicketId(53)] });
}

#[test]
fn a_wait_for_an_endpoint_to_go_ends_at_its_death() {
    let mut node = with_vm();
    let address = bind(&mut node, 29, 7).unwrap();
    assert_eq!(node.wait_unbind(None, at(address), TicketId(50)), Ok(Wait::Registered));
    assert_eq!(node.exit(7)[0].tickets, [TicketId(50)]);
    assert_eq!(node.wait_unbind(None, at(address), TicketId(51)), Ok(Wait::Already(address)));
    bind(&mut node, 29, 8).unwrap();
    assert_eq!(node.wait_unbind(None, at(address), TicketId(51)), Ok(Wait::Already(address)));
    let never = Address::new(9, 29);
    assert_eq!(node.wait_unbind(None, at(never), TicketId(51)).unwrap_err().code(), Code::Endpoint);
    assert_eq!(
        node.wait_unbind(None, at(Address(77)), TicketId(51)).unwrap_err().code(),
        Code::Range
    );
}

#[test]
fn privileges_forbid_verbs_and_partners() {
    let mut node = with_vm();
    let [one, two] = [(29, 7), (30, 8)].map(|(slot, pid)| bind(&mut node, slot, pid).unwrap());
    let privileges = Privileges {
        traps: !Verb::Notify.mask(),
        ipc_to: Some(vec![]),
        ipc_from: Some(vec![30]),
        level: 3,
    };
    let refused = node.set_priv(at(one), privileges.clone(), &cred(FELLOW, 7));
    assert_eq!(refused.unwrap_err().code(), Code::Privileges);
    node.set_priv(at(one), privileges.clone(), &cred(OWNER, 1)).unwrap();
    assert_eq!(node.get_priv(at(one)), Ok(&privileges));
    let code = |from, to, verb| node.check_verb(at(from), to, verb).map_err(Denied::code);
    assert_eq!(code(one, Some(two), Verb::Notify), Err(Code::TrapDenied));
    assert_eq!(code(one, Some(two), Verb::Send), Err(Code::CallDenied));
    assert_eq!(code(one, Some(two), Verb::Receive), Ok(()));
    assert_eq!(code(one, Some(two), Verb::Reply), Ok(()));
    assert_eq!(code(one, None, Verb::Receive), Ok(()));
    assert_eq!(code(two, Some(one), Verb::Send), Ok(()));
    assert_eq!(code(two, Some(one), Verb::Receive), Err(Code::CallDenied));
    assert_eq!(code(two, Some(Address::new(5, 29)), Verb::Reply), Err(Code::CallDenied));
    assert_eq!(code(Address::new(5, 29), None, Verb::Receive), Err(Code::TrapDenied));
}

#[test]
fn a_new_endpoint_gets_the_privileges_of_its_vm() {
    let mut node = node();
    let privileges = Privileges { traps: 0, ..UNRESTRICTED };
    node.vm_init(VmSpec { privileges, ..spec("one") }, &cred(OWNER, 1)).unwrap();
    let one = bind(&mut node, 29, 7).unwrap();
    assert_eq!(node.check_verb(at(one), None, Verb::Receive), Err(Denied::Trap(Verb::Receive)));
}

#[test]
fn link_indexes_are_dense_on_both_sides_and_given_again() {
    let mut node = with_vm();
    let [a, b, c] =
        [(29, 7), (30, 8), (31, 9)].map(|(slot, pid)| bind(&mut node, slot, pid).unwrap());
    let link = |requester_index, peer_index, fresh| Ok(Link { requester_index, peer_index, fresh });
    assert_eq!(node.link(at(a), b), link(0, 0, true));
    assert_eq!(node.link(at(c), b), link(0, 1, true));
    assert_eq!(node.link(at(c), a), link(1, 1, true));
    assert_eq!(node.link(at(b), a), link(0, 0, false));
    let deaths = node.exit(7);
    let peers = [
        LinkedPeer { address: b, index: 0, peer_index: 0 },
        LinkedPeer { address: c, index: 1, peer_index: 1 },
    ];
    assert_eq!(deaths[0].peers, peers);
    assert_eq!(node.link(at(b), a).unwrap_err().code(Code::DstDied), Code::DstDied);
    let a = bind(&mut node, 29, 7).unwrap();
    assert_eq!(node.link(at(b), a), link(0, 0, true));
    assert!(node.unlink(at(a), b));
    assert!(!node.unlink(at(a), b));
    assert_eq!(node.peers(at(b)), [LinkedPeer { address: c, index: 1, peer_index: 0 }]);
}

#[test]
fn a_link_counts_for_its_requester_and_needs_one_allowed_direction() {
    let mut node = Node::new(0, LIMITS, Quota { links: 1, ..Quota::default() });
    node.vm_init(spec("one"), &cred(OWNER, 1)).unwrap();
    let [a, b] = [(29, 7), (30, 8)].map(|(slot, pid)| bind(&mut node, slot, pid).unwrap());
    let fellow = bind_as(&mut node, 31, 9, FELLOW).unwrap();
    let mute = Privileges { ipc_to: Some(vec![]), ..UNRESTRICTED };
    node.set_priv(at(fellow), mute.clone(), &cred(OWNER, 1)).unwrap();
    assert!(node.link(at(fellow), a).unwrap().fresh);
    assert_eq!(node.link(at(fellow), b).unwrap_err().code(Code::DstDied), Code::NoMem);
    assert!(node.link(at(a), b).unwrap().fresh);
    node.exit(7);
    node.set_priv(at(b), mute, &cred(OWNER, 1)).unwrap();
    assert_eq!(node.link(at(b), fellow).unwrap_err().code(Code::DstDied), Code::CallDenied);
}
