//! Slots of other nodes, and stand-ins.

use super::*;
use m3ipc_abi::GENERATION_MAX;
use m3ipc_wire::{BackedSlot, ForeignRange, OtherSlots, SlotPlace};

const PROCESS: MemberKind = MemberKind::Process;

fn range(vm: i32, first: i32, last: i32) -> ForeignRange {
    ForeignRange { vm, first, last, node: "beta".to_owned() }
}

fn with_foreign() -> Node {
    let mut node = with_vm();
    let ranges = vec![range(0, 10, 19), range(0, 29, 31)];
    assert_eq!(node.set_foreign(ranges.into(), true, |_| true), Ok(Vec::new()));
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
    let refused = node.set_foreign(vec![range(0, 0, 9)].into(), true, |_| true);
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

/// The slots 10 to 19 and 29 to 31 are of beta. Slot 30, and slot 5 of this node, have backups.
fn backed() -> OtherSlots {
    let backed = [30, 5].map(|slot| BackedSlot { vm: 0, slot }).to_vec();
    OtherSlots { foreign: vec![range(0, 10, 19), range(0, 29, 31)], backed }
}

fn with_backed() -> Node {
    let mut node = with_vm();
    assert_eq!(node.set_foreign(backed(), true, |_| true), Ok(Vec::new()));
    node
}

fn wait(node: &mut Node, slot: i32, pid: i32, ticket: TicketId) -> Result<Wait, Code> {
    let waits = node.wait_place((0, slot), (member(pid), &cred(OWNER, pid), PROCESS), true, ticket);
    waits.map_err(|error| error.code())
}

fn there() -> SlotPlace {
    SlotPlace::There("beta".to_owned())
}

#[test]
fn a_backup_waits_for_its_place_and_gets_the_address_that_was_there() {
    let mut node = with_backed();
    let former = Address::new(7, 30);
    assert_eq!(stand_in(&mut node, former), Ok(former));
    assert_eq!(bind(&mut node, 30, 1), Err(Code::RmtProc));
    let ticket = TicketId(1);
    assert_eq!(wait(&mut node, 30, 1, ticket), Ok(Wait::Registered));
    // The stand-in ends, and the wait with it.
    let here = node.place((0, 30), SlotPlace::Here(Some(former.0)));
    assert_eq!(here, Ok((Some(at(former)), vec![ticket])));
    assert!(node.unbind(at(former)).is_ok());
    assert!(node.places_are_known().is_empty());
    // The daemon never chooses the place for a program.
    let free = node.bind_free(0, member(2), &cred(OWNER, 2), MemberKind::Process, None);
    assert_eq!(free.map(|bound| bound.address.slot()).ok(), Some(32));
    assert_eq!(bind(&mut node, 30, 1), Ok(former));
    let back = SlotPlace::Back("beta".to_owned());
    let refused = node.place((0, 30), back.clone()).map_err(|error| error.code());
    assert_eq!(refused, Err(Code::SlotUsed));
    // A successor has an address that the home does not give.
    assert!(node.unbind(at(former)).is_ok());
    for own in [8, 9].map(|generation| Address::new(generation + GENERATION_MAX / 2, 30)) {
        assert_eq!(bind(&mut node, 30, 1), Ok(own));
        assert!(node.unbind(at(own)).is_ok());
    }
    assert_eq!(node.place((0, 30), back), Ok((None, Vec::new())));
    assert_eq!(bind(&mut node, 30, 1), Err(Code::RmtProc));
}

#[test]
fn the_place_of_another_endpoint_is_for_root_and_the_privileged() {
    let mut node = with_backed();
    let former = Address::new(7, 30);
    let place = SlotPlace::Here(Some(former.0));
    assert!(node.place((0, 30), place).is_ok());
    let other = cred(FELLOW, 1);
    let binds = |node: &mut Node, slot, cred: &Credentials, kind| {
        let bound = node.bind(0, slot, member(cred.pid), cred, kind, None);
        bound.map(|bound| bound.address).map_err(|error| error.code())
    };
    // Neither by a bind of its own process nor by one of another process.
    assert_eq!(binds(&mut node, 30, &other, MemberKind::Process), Err(Code::Privileges));
    let foreign = MemberKind::Foreign { uid: FELLOW, gid: FELLOW };
    assert_eq!(binds(&mut node, 30, &other, foreign), Err(Code::Privileges));
    let waits = node.wait_place((0, 30), (member(1), &other, PROCESS), true, TicketId(1));
    assert_eq!(waits.map_err(|error| error.code()), Err(Code::Privileges));
    // Slots of this node are as free as before.
    let free = node.bind_free(0, member(1), &other, MemberKind::Process, None);
    assert_eq!(free.map(|bound| bound.address.slot()).ok(), Some(32));
    assert_eq!(binds(&mut node, 30, &cred(OWNER, 3), MemberKind::Process), Ok(former));
    for holder in [cred(0, 4), cred(OWNER, 5)] {
        let latest = node.local_endpoint(0, 30).expect("it is bound");
        assert!(node.unbind(latest).is_ok());
        assert!(binds(&mut node, 30, &holder, MemberKind::Process).is_ok());
    }
}

#[test]
fn the_owner_of_a_vm_gets_no_place_by_that() {
    // A user has made the VM of this id on this node, before anyone else did.
    let mut node = Node::new(1, LIMITS, Quota { owner: Some(OWNER), ..Quota::default() });
    let spec = VmSpec::new("one", VM_LIMITS, &cred(FELLOW, 1));
    assert_eq!(node.vm_init(spec, &cred(FELLOW, 1)), Ok(0));
    assert_eq!(node.set_foreign(backed(), true, |_| true), Ok(Vec::new()));
    assert!(node.place((0, 30), SlotPlace::Here(Some(Address::new(7, 30).0))).is_ok());
    assert_eq!(bind_as(&mut node, 30, 2, FELLOW), Err(Code::Privileges));
    let waits = node.wait_place((0, 30), (member(2), &cred(FELLOW, 2), PROCESS), true, TicketId(1));
    assert_eq!(waits.map_err(|error| error.code()), Err(Code::Privileges));
    assert!(bind_as(&mut node, 6, 2, FELLOW).is_ok());
}

#[test]
fn a_place_ends_with_the_proxy_that_has_proven_it() {
    let mut node = with_backed();
    let here = SlotPlace::Here(Some(Address::new(7, 30).0));
    assert!(node.place((0, 30), here).is_ok());
    node.proxy_left();
    assert_eq!(bind(&mut node, 30, 1), Err(Code::RmtProc));
    assert_eq!(node.node_of(0, Address(30)), Some("beta"));
    assert_eq!(node.set_foreign(backed(), true, |_| true), Ok(Vec::new()));
    assert_eq!(bind(&mut node, 30, 1), Err(Code::RmtProc));
    // Slots of this node need no proof.
    node.proxy_left();
    assert!(bind(&mut node, 5, 5).is_ok());
}

#[test]
fn a_backup_that_dies_without_a_proxy_has_no_successor() {
    let mut node = with_backed();
    assert!(node.place((0, 30), SlotPlace::Here(None)).is_ok());
    let backup = bind(&mut node, 30, 1).expect("the place is here");
    node.proxy_left();
    assert!(node.local_endpoint(0, 30).is_some(), "it goes on");
    assert!(node.unbind(at(backup)).is_ok());
    assert_eq!(bind(&mut node, 30, 1), Err(Code::RmtProc));
    assert_eq!(wait_without_proxy(&mut node, 30), Ok(Wait::Registered));
    assert_eq!(node.set_foreign(backed(), true, |_| true), Ok(Vec::new()));
    assert_eq!(bind(&mut node, 30, 1), Err(Code::RmtProc));
}

fn wait_without_proxy(node: &mut Node, slot: i32) -> Result<Wait, Code> {
    let waits =
        node.wait_place((0, slot), (member(1), &cred(OWNER, 1), PROCESS), false, TicketId(1));
    waits.map_err(|error| error.code())
}

#[test]
fn a_new_proxy_ends_a_backup_of_which_it_does_not_hear() {
    let mut node = with_backed();
    assert!(node.place((0, 30), SlotPlace::Here(None)).is_ok());
    let backup = bind(&mut node, 30, 1).expect("the place is here");
    // The same proxy will hear of it.
    assert_eq!(node.set_foreign(backed(), false, |_| false), Ok(Vec::new()));
    node.proxy_left();
    assert_eq!(node.set_foreign(backed(), true, |_| false), Ok(vec![at(backup)]));
    assert!(node.unbind(at(backup)).is_ok());
    assert_eq!(bind(&mut node, 30, 1), Err(Code::RmtProc));
}

#[test]
fn a_place_that_is_taken_again_gives_no_address_twice() {
    let mut node = with_backed();
    let mut given = Vec::new();
    for former in [7, 8, 9] {
        let here = SlotPlace::Here(Some(Address::new(former, 30).0));
        assert!(node.place((0, 30), here).is_ok());
        for _ in 0..4 {
            let address = bind(&mut node, 30, 1).expect("the place is here");
            given.push(address);
            assert!(node.unbind(at(address)).is_ok());
        }
        assert!(node.place((0, 30), SlotPlace::Back("beta".to_owned())).is_ok());
        // A new proxy of this node changes nothing.
        node.proxy_left();
        assert_eq!(node.set_foreign(backed(), true, |_| true), Ok(Vec::new()));
    }
    let count = given.len();
    given.sort_unstable();
    given.dedup();
    assert_eq!(given.len(), count);
}

#[test]
fn a_place_whose_former_address_is_unknown_gives_none_of_the_home() {
    let mut node = with_backed();
    for former in [Some(7), None, Some(8)] {
        let former = former.map(|generation| Address::new(generation, 30).0);
        assert!(node.place((0, 30), SlotPlace::Here(former)).is_ok());
        let given: Vec<i32> = (0..3)
            .map(|_| {
                let address = bind(&mut node, 30, 1).expect("the place is here");
                assert!(node.unbind(at(address)).is_ok());
                address.generation()
            })
            .skip(usize::from(former.is_some()))
            .collect();
        assert!(given.iter().all(|it| *it > GENERATION_MAX / 2), "{given:?}");
        assert!(node.place((0, 30), SlotPlace::Back("beta".to_owned())).is_ok());
    }
}

#[test]
fn a_home_counts_on_from_its_own_address_and_not_from_that_of_its_backup() {
    let mut node = with_backed();
    let home = bind(&mut node, 35, 1).expect("a slot without a backup");
    assert!(node.unbind(at(home)).is_ok());
    let slots = OtherSlots {
        foreign: vec![range(0, 10, 19)],
        backed: vec![BackedSlot { vm: 0, slot: 35 }],
    };
    assert_eq!(node.set_foreign(slots, true, |_| true), Ok(Vec::new()));
    let mut latest = home;
    for far in [0, 1, 2] {
        let own = bind(&mut node, 35, 1).expect("a slot of this node");
        assert_eq!(own, Address::next_life(35, Some(latest)));
        assert_eq!(node.place((0, 35), there()), Ok((Some(at(own)), Vec::new())));
        assert!(node.unbind(at(own)).is_ok());
        let backup = Address::new(GENERATION_MAX / 2 + far, 35);
        assert_eq!(stand_in(&mut node, backup), Ok(backup));
        assert!(node.unbind(at(backup)).is_ok());
        assert!(node.place((0, 35), SlotPlace::Here(None)).is_ok());
        latest = own;
    }
}

#[test]
fn a_wait_for_a_place_fails_at_once_for_one_that_could_not_bind_it() {
    let mut node = with_backed();
    assert!(bind(&mut node, 6, 1).is_ok());
    for slot in [30, 5] {
        assert_eq!(wait(&mut node, slot, 1, TicketId(1)), Err(Code::SlotUsed), "bound already");
    }
    let waits = node.wait_place((0, 30), (member(2), &cred(FELLOW, 2), PROCESS), true, TicketId(1));
    assert_eq!(waits.map_err(|error| error.code()), Err(Code::Privileges));
    assert_eq!(wait(&mut node, 30, 2, TicketId(1)), Ok(Wait::Registered));
}

#[test]
fn a_home_that_was_replaced_ends_its_endpoint_and_may_bind_again_later() {
    let mut node = with_backed();
    let home = bind(&mut node, 5, 1).expect("a slot of this node");
    assert_eq!(node.place((0, 5), there()), Ok((Some(at(home)), Vec::new())));
    assert!(node.unbind(at(home)).is_ok());
    assert_eq!(bind(&mut node, 5, 1), Err(Code::RmtProc));
    assert_eq!(stand_in(&mut node, home), Ok(home));
    assert_eq!(wait(&mut node, 5, 1, TicketId(1)), Ok(Wait::Registered));
    assert!(node.unbind(at(home)).is_ok());
    let here = node.place((0, 5), SlotPlace::Here(None));
    assert_eq!(here, Ok((None, vec![TicketId(1)])));
    assert!(bind(&mut node, 5, 1).is_ok());
}

#[test]
fn a_proxy_cannot_place_what_has_no_backup() {
    let mut node = with_backed();
    for (slot, place) in [
        (31, SlotPlace::Here(None)),
        (6, there()),
        (30, SlotPlace::Here(Some(Address::new(7, 31).0))),
        (30, SlotPlace::Here(Some(m3ipc_abi::ANY.0))),
    ] {
        let refused = node.place((0, slot), place).map_err(|error| error.code());
        assert_eq!(refused, Err(Code::BadValue), "{slot}");
    }
    assert_eq!(wait(&mut node, 31, 1, TicketId(1)), Err(Code::RmtProc));
    assert_eq!(wait(&mut node, 6, 1, TicketId(1)), Ok(Wait::Already(Address(6))));
    assert_eq!(wait(&mut node, 400, 1, TicketId(1)), Err(Code::Range));
}

#[test]
fn a_new_proxy_knows_the_backups_that_live() {
    let mut node = with_backed();
    assert!(node.place((0, 30), SlotPlace::Here(None)).is_ok());
    assert!(node.place((0, 5), there()).is_ok());
    let backup = bind(&mut node, 30, 1).expect("the place is here");
    // The same proxy registers again, as slots were claimed: all stays.
    assert_eq!(node.set_foreign(backed(), false, |_| true), Ok(Vec::new()));
    assert_eq!(node.node_of(0, Address(5)), Some("beta"));
    // A new one learns the rest from the other nodes.
    assert_eq!(node.set_foreign(backed(), true, |_| true), Ok(Vec::new()));
    assert_eq!((node.node_of(0, Address(5)), node.node_of(0, Address(30))), (None, None));
    assert!(node.unbind(at(backup)).is_ok());
    assert_eq!(node.set_foreign(backed(), true, |_| true), Ok(Vec::new()));
    assert_eq!(node.node_of(0, Address(30)), Some("beta"));
}

#[test]
fn a_backup_that_a_former_daemon_had_ends() {
    let mut node = with_backed();
    assert!(node.place((0, 30), SlotPlace::Here(None)).is_ok());
    let backup = bind(&mut node, 30, 1).expect("the place is here");
    let records = node.drain_records();
    let mut replayed = Node::replay(&records, node.quota()).expect("the records agree");
    // Nobody knows whether the home is back, and without a proxy nobody waits in vain.
    assert_eq!(
        replayed.wait_place((0, 5), (member(2), &cred(OWNER, 2), PROCESS), false, TicketId(1)),
        Ok(Wait::Registered)
    );
    assert_eq!(replayed.set_foreign(backed(), true, |_| true), Ok(vec![at(backup)]));
    assert_eq!(replayed.places_are_known(), [(at(Address(5)), vec![TicketId(1)])]);
}

/// Slot 35 of this node has a backup at beta.
fn with_home() -> Node {
    let mut node = with_vm();
    let backed = vec![BackedSlot { vm: 0, slot: 35 }];
    let slots = OtherSlots { foreign: vec![range(0, 10, 19)], backed };
    assert_eq!(node.set_foreign(slots, true, |_| true), Ok(Vec::new()));
    node
}

#[test]
fn an_endpoint_moves_away_and_back_with_its_address() {
    let mut node = with_home();
    let own = bind(&mut node, 35, 1).expect("a slot of this node");
    let moves = |address: Address| SlotPlace::Moved { address: address.0, node: "beta".to_owned() };
    // One that has ended does not move, nor does its successor in its place.
    let other = Address::new(own.generation() + 1, 35);
    let refused = node.place((0, 35), moves(other)).map_err(|error| error.code());
    assert_eq!(refused, Err(Code::NotBind));
    assert_eq!(node.place((0, 35), moves(own)), Ok((Some(at(own)), Vec::new())));
    assert!(node.unbind(at(own)).is_ok());
    assert!(node.is_arriving(at(own)) && !node.is_arriving(at(other)));
    assert_eq!(bind(&mut node, 35, 1), Err(Code::RmtProc));
    assert_eq!(stand_in(&mut node, own), Ok(own));
    assert!(!node.is_arriving(at(own)));
    // The way back.
    let here = SlotPlace::Here(Some(own.0));
    assert_eq!(node.place((0, 35), here), Ok((Some(at(own)), Vec::new())));
    assert!(node.unbind(at(own)).is_ok());
    assert!(node.is_arriving(at(own)));
    assert_eq!(bind(&mut node, 35, 1), Ok(own));
    assert!(!node.is_arriving(at(own)) && node.unbind(at(own)).is_ok());
    assert_eq!(bind(&mut node, 35, 1), Ok(other));
}

#[test]
fn nobody_arrives_at_a_slot_that_was_not_claimed() {
    let mut node = with_home();
    let own = bind(&mut node, 35, 1).expect("a slot of this node");
    let place = SlotPlace::Moved { address: own.0, node: "beta".to_owned() };
    assert!(node.place((0, 35), place).is_ok() && node.unbind(at(own)).is_ok());
    assert!(node.place((0, 35), SlotPlace::Here(None)).is_ok());
    assert!(!node.is_arriving(at(own)));
    assert_eq!(bind(&mut node, 35, 1), Ok(Address::new(own.generation() + 1, 35)));
}

/// A user in the owner's group binds slot 35.
fn binds_arriving(node: &mut Node, uid: u32) -> Result<Address, Code> {
    let cred = cred(uid, 1);
    let bound = node.bind(0, 35, member(1), &cred, MemberKind::Process, None);
    bound.map(|bound| bound.address).map_err(|error| error.code())
}

#[test]
fn an_endpoint_comes_back_to_its_user_root_and_the_privileged_alone() {
    const OTHER: u32 = 1003;
    for taker in [FELLOW, OWNER, 0] {
        let mut node = with_home();
        let own = bind_as(&mut node, 35, 1, FELLOW).expect("a slot of this node");
        let place = SlotPlace::Moved { address: own.0, node: "beta".to_owned() };
        assert!(node.place((0, 35), place).is_ok() && node.unbind(at(own)).is_ok());
        assert_eq!(stand_in(&mut node, own), Ok(own));
        assert!(node.place((0, 35), SlotPlace::Here(Some(own.0))).is_ok());
        assert!(node.unbind(at(own)).is_ok());
        assert_eq!(binds_arriving(&mut node, OTHER), Err(Code::Privileges));
        let other = Credentials::new(OTHER, 100, 2);
        let waits = node.wait_place((0, 35), (member(2), &other, PROCESS), true, TicketId(1));
        assert_eq!(waits.map_err(|error| error.code()), Err(Code::Privileges));
        assert_eq!(binds_arriving(&mut node, taker), Ok(own));
        // Its successors are as those of any slot.
        assert!(node.unbind(at(own)).is_ok());
        assert!(binds_arriving(&mut node, OTHER).is_ok());
    }
}

#[test]
fn a_successor_that_the_backup_made_is_no_endpoint_of_the_former_user() {
    let mut node = with_home();
    let own = bind_as(&mut node, 35, 1, FELLOW).expect("a slot of this node");
    assert!(node.place((0, 35), there()).is_ok() && node.unbind(at(own)).is_ok());
    let other = Address::new(own.generation() + GENERATION_MAX / 2, 35);
    assert!(node.place((0, 35), SlotPlace::Here(Some(other.0))).is_ok());
    assert_eq!(binds_arriving(&mut node, FELLOW), Err(Code::Privileges));
    assert_eq!(binds_arriving(&mut node, OWNER), Ok(other));
}

#[test]
fn a_home_takes_back_none_of_its_former_endpoints() {
    for ahead in [-1, 1] {
        let mut node = with_home();
        for pid in [1, 2] {
            let former = bind(&mut node, 35, pid).expect("a slot of this node");
            assert!(node.unbind(at(former)).is_ok());
        }
        let own = bind(&mut node, 35, 3).expect("a slot of this node");
        assert!(node.place((0, 35), there()).is_ok() && node.unbind(at(own)).is_ok());
        let other = Address::new(own.generation() + ahead, 35);
        assert!(node.place((0, 35), SlotPlace::Here(Some(other.0))).is_ok());
        assert!(!node.is_arriving(at(other)));
        assert_eq!(bind(&mut node, 35, 3), Ok(Address::new(own.generation() + 1, 35)));
    }
}

#[test]
fn a_refused_place_forgets_no_endpoint_that_comes() {
    let mut node = with_home();
    let own = bind(&mut node, 35, 1).expect("a slot of this node");
    let place = SlotPlace::Moved { address: own.0, node: "beta".to_owned() };
    assert!(node.place((0, 35), place.clone()).is_ok() && node.unbind(at(own)).is_ok());
    assert!(node.place((0, 35), place).is_err());
    assert!(node.place((0, 35), SlotPlace::Here(Some(Address::new(7, 31).0))).is_err());
    assert!(node.is_arriving(at(own)));
}

#[test]
fn a_wait_for_an_endpoint_that_moves_ends_with_its_bind_or_with_none() {
    for is_claimed in [true, false] {
        let mut node = with_home();
        let own = bind(&mut node, 35, 1).expect("a slot of this node");
        let place = SlotPlace::Moved { address: own.0, node: "beta".to_owned() };
        assert!(node.place((0, 35), place).is_ok() && node.unbind(at(own)).is_ok());
        let wait = |node: &mut Node| node.wait_bind_ep(None, at(own), TicketId(1));
        assert_eq!(wait(&mut node), Ok(Wait::Registered));
        assert!(node.take_missed().is_empty());
        if is_claimed {
            let bound = node.bind_stand_in(at(own), member(50), &cred(OWNER, 50));
            assert_eq!(bound.map(|bound| bound.tickets), Ok(vec![TicketId(1)]));
            assert_eq!(wait(&mut node), Ok(Wait::Already(own)));
            assert!(node.take_missed().is_empty());
        } else {
            assert!(node.place((0, 35), SlotPlace::Here(None)).is_ok());
            assert_eq!(node.take_missed(), [TicketId(1)]);
            assert_eq!(wait(&mut node).map_err(|error| error.code()), Err(Code::Endpoint));
        }
    }
}
