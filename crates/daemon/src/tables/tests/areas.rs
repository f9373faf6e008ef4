//! Areas: audience, extents, addresses, journal.

use super::*;
use m3ipc_wire::{AreaAudience, AreaParams};

fn members() -> (Node, MemberId, MemberId, MemberId) {
    let mut node = Node::new(0, NodeLimits::DEFAULT, Quota::default());
    let cred = Credentials::new(7, 7, 100);
    let mut spec = VmSpec::new("a".to_owned(), VmLimits { procs: 221, tasks: 35 }, &cred);
    spec.mode = VmMode(0o777);
    let vm = node.vm_init(spec, &cred).unwrap();
    let mut ids = [100, 101, 102].map(|pid| {
        let member = Member { pid, tid: None, started: 0 };
        let bound = node
            .bind_free(vm, member, &Credentials::new(7, 7, pid), MemberKind::Process, None)
            .unwrap();
        MemberId::new(vm, bound.address)
    });
    ids.sort();
    (node, ids[0], ids[1], ids[2])
}

fn params(audience: AreaAudience) -> AreaParams {
    AreaParams { limit_bytes: 1 << 20, audience, owner_writes: false, huge: false, low: false }
}

#[test]
fn only_the_audience_joins_and_the_last_one_ends_the_area() {
    let (mut node, one, two, three) = members();
    let id = node.create_area(one, params(AreaAudience::Pair(two.address.0)), 1024).unwrap();
    assert_eq!(node.area_index(two, id, 7), Ok(1));
    assert_eq!(node.area_index(two, id, 7), Ok(1));
    assert_eq!(node.area_index(three, id, 7).unwrap_err().code(), Code::Privileges);
    node.set_area_member_state(two, id, AreaMemberState::In).unwrap();
    node.set_area_member_state(one, id, AreaMemberState::Gone).unwrap();
    assert_eq!(node.areas_of(two), [id]);
    node.set_area_member_state(two, id, AreaMemberState::Gone).unwrap();
    assert_eq!(node.area(one.vm, id).unwrap_err().code(), Code::NoNode);
    // An expected member has no memory, so it does not keep an area.
    let id = node.create_area(one, params(AreaAudience::Pair(two.address.0)), 1024).unwrap();
    assert_eq!(node.area_index(two, id, 7), Ok(1));
    node.set_area_member_state(one, id, AreaMemberState::Gone).unwrap();
    assert_eq!(node.area(one.vm, id).unwrap_err().code(), Code::NoNode);
}

#[test]
fn numbers_and_addresses_of_ended_areas_come_back_last() {
    let (mut node, one, two, _) = members();
    let pair = || params(AreaAudience::Pair(two.address.0));
    let mut last = (0, 0);
    for _ in 0..3 {
        let id = node.create_area(one, pair(), 1024).unwrap();
        let base = node.area(one.vm, id).unwrap().base;
        assert!(id > last.0 && base > last.1, "{id} {base:#x} after {last:x?}");
        last = (id, base);
        node.set_area_member_state(one, id, AreaMemberState::Gone).unwrap();
        node = Node::replay(&node.snapshot(), Quota::default()).unwrap();
    }
    // Behind the last area no range of this size is left.
    let large = AreaParams { limit_bytes: 256 << 30, ..pair() };
    let first = node.create_area(one, large.clone(), 1024).unwrap();
    node.set_area_member_state(one, first, AreaMemberState::Gone).unwrap();
    let second = node.create_area(one, large, 1024).unwrap();
    let wrapped = node.area(one.vm, second).unwrap();
    assert!(second > first && wrapped.base < last.1);
}

#[test]
fn extents_and_addresses_do_not_overlap_and_come_back() {
    let (mut node, one, two, _) = members();
    let id = node.create_area(one, params(AreaAudience::Vm), 1024).unwrap();
    let other = node.create_area(two, params(AreaAudience::Vm), 1024).unwrap();
    let (base, next) =
        (node.area(one.vm, id).unwrap().base, node.area(one.vm, other).unwrap().base);
    assert!(next >= base + (1 << 20));
    node.area_index(two, id, 7).unwrap();
    let front = node.give_extent(one, id, 4096, 1 << 18, false).unwrap();
    let back = node.give_extent(two, id, 5000, 5000, true).unwrap();
    assert_eq!((front.offset, front.bytes, front.allocator), (0, 1 << 18, 0));
    assert_eq!((back.offset + back.bytes, back.allocator), (1 << 20, 1));
    assert!(front.first_number + front.numbers <= back.first_number);
    assert_ne!(front.generation, back.generation);
    let full = node.give_extent(one, id, 1 << 20, 1 << 20, false).unwrap_err();
    assert_eq!(full.code(), Code::AllocMem);
    node.free_extents(one.vm, id, vec![front.offset]);
    assert_eq!(node.give_extent(two, id, 4096, 4096, false).unwrap().offset, 0);
}

/// Another user in the VM of [`members`].
fn stranger(node: &mut Node, vm: i32) -> MemberId {
    let member = Member { pid: 200, tid: None, started: 0 };
    let cred = Credentials::new(8, 8, 200);
    let bound = node.bind_free(vm, member, &cred, MemberKind::Process, None).unwrap();
    MemberId::new(vm, bound.address)
}

#[test]
fn another_user_gets_a_quarter_of_an_area_that_is_for_all() {
    for page in [4096, 16_384] {
        let (mut node, one, two, _) = members();
        node.page_bytes = page;
        let other = stranger(&mut node, one.vm);
        let id = node.create_area(one, params(AreaAudience::Vm), 1024).unwrap();
        node.area_index(two, id, 7).unwrap();
        node.area_index(other, id, 8).unwrap();
        let taken = node.give_extent(other, id, page, 1 << 20, false).unwrap();
        assert_eq!(taken.bytes, page, "not what it would like, but what it needs");
        let most = (256 << 10) - 2 * page;
        node.give_extent(other, id, most, most, false).unwrap();
        let refused = node.give_extent(other, id, 2 * page, 2 * page, false).unwrap_err();
        assert_eq!(refused, AreaError::Quota { uid: 8, name: "area room" });
        node = Node::replay(&node.snapshot(), Quota::default()).unwrap();
        node.page_bytes = page;
        assert!(node.give_extent(other, id, 2 * page, 2 * page, false).is_err());
        node.give_extent(two, id, 1 << 19, 1 << 19, false).unwrap();
        node.free_extents(one.vm, id, vec![taken.offset]);
        node.give_extent(other, id, page, page, false).unwrap();
    }
}

#[test]
fn another_user_gets_a_quarter_of_the_block_numbers() {
    let (mut node, one, _, _) = members();
    let other = stranger(&mut node, one.vm);
    let id = node.create_area(one, params(AreaAudience::Vm), 1024).unwrap();
    node.area_index(other, id, 8).unwrap();
    for _ in 0..4 {
        node.give_extent(other, id, 4096, 4096, false).unwrap();
    }
    let refused = node.give_extent(other, id, 4096, 4096, false).unwrap_err();
    assert_eq!(refused, AreaError::Quota { uid: 8, name: "block numbers" });
}

#[test]
fn a_member_that_the_creator_names_gets_the_whole_area() {
    let (mut node, one, _, _) = members();
    let other = stranger(&mut node, one.vm);
    let id = node.create_area(one, params(AreaAudience::Pair(other.address.0)), 1024).unwrap();
    node.area_index(other, id, 8).unwrap();
    node.give_extent(other, id, 1 << 20, 1 << 20, false).unwrap();
}

#[test]
fn an_owner_that_writes_alone_allocates_alone() {
    let (mut node, one, two, _) = members();
    let id = node
        .create_area(one, AreaParams { owner_writes: true, ..params(AreaAudience::Vm) }, 1024)
        .unwrap();
    node.area_index(two, id, 7).unwrap();
    assert_eq!(node.give_extent(two, id, 64, 64, false).unwrap_err().code(), Code::Privileges);
    assert!(node.close_area(two, id).is_err());
    node.close_area(one, id).unwrap();
}

#[test]
fn a_request_that_changes_nothing_has_no_record_and_no_record_repeats_the_extents() {
    let (mut node, one, two, _) = members();
    let page = node.page_bytes;
    let full = AreaParams { limit_bytes: 256 * page, ..params(AreaAudience::Vm) };
    let id = node.create_area(one, full, 16_384).unwrap();
    for _ in 0..256 {
        node.give_extent(one, id, page, page, false).unwrap();
    }
    let mut journal = node.drain_records();
    let change = |node: &mut Node| {
        node.area_index(two, id, 7).unwrap();
        node.set_area_member_state(two, id, AreaMemberState::In).unwrap();
        node.close_area(one, id).unwrap();
        node.drain_records()
    };
    let records = change(&mut node);
    assert_eq!(records.len(), 3);
    assert!(postcard::to_allocvec(&records).unwrap().len() < 64);
    assert_eq!(change(&mut node), []);
    journal.extend(records);
    node.set_area_member_state(one, id, AreaMemberState::Gone).unwrap();
    journal.extend(node.drain_records());
    let again = Node::replay(&journal, Quota::default()).unwrap();
    assert_eq!(again, node);
    assert_eq!(again.area(one.vm, id).unwrap().extents.len(), 256);
}

#[test]
fn a_journal_brings_areas_back() {
    let (mut node, one, two, _) = members();
    let id = node.create_area(one, params(AreaAudience::Set(vec![two.address.0])), 1024).unwrap();
    node.area_index(two, id, 7).unwrap();
    node.give_extent(one, id, 64, 64, false).unwrap();
    let again = Node::replay(&node.snapshot(), Quota::default()).unwrap();
    assert_eq!(again, node);
    assert_eq!(again.area(one.vm, id), node.area(one.vm, id));
}

#[test]
fn room_comes_in_whole_pages_of_each_size() {
    for page_bytes in [4096, 16384, 65536] {
        let (mut node, one, ..) = members();
        node.page_bytes = page_bytes;
        let id = node.create_area(one, params(AreaAudience::Vm), 1024).unwrap();
        let extent = node.give_extent(one, id, 5000, 5000, false).unwrap();
        let next = node.give_extent(one, id, 1, 1, false).unwrap();
        assert_eq!(extent.bytes, 5000_u64.next_multiple_of(page_bytes));
        assert_eq!((next.offset, next.bytes), (extent.bytes, page_bytes));
        let odd = AreaParams { limit_bytes: page_bytes / 2, ..params(AreaAudience::Vm) };
        assert_eq!(node.create_area(one, odd, 1024), Err(AreaError::Limit(page_bytes / 2)));
    }
}

#[test]
fn a_low_area_lies_below_the_memory_of_tools() {
    let (mut node, one, ..) = members();
    let low = AreaParams { low: true, ..params(AreaAudience::Vm) };
    let mut last = 64 << 30;
    for _ in 0..3 {
        let id = node.create_area(one, low.clone(), 1024).unwrap();
        let base = node.area(one.vm, id).unwrap().base;
        assert!(base >= last && base < 1 << 39, "{base:#x}");
        last = base + low.limit_bytes;
        node.set_area_member_state(one, id, AreaMemberState::Gone).unwrap();
        node = Node::replay(&node.snapshot(), Quota::default()).unwrap();
    }
    let ordinary = node.create_area(one, params(AreaAudience::Vm), 1024).unwrap();
    assert!(node.area(one.vm, ordinary).unwrap().base >= 1 << 45);
    // Without room below, it lies where all others do.
    let large = AreaParams { limit_bytes: 8 << 30, ..low };
    let id = node.create_area(one, large, 1024).unwrap();
    assert!(node.area(one.vm, id).unwrap().base >= 1 << 45);
}
