//! The journal: replay and snapshot give an equal node, and replay refuses a contradiction.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Change {
    VmInit(i32),
    VmEnd(i32),
    VmFinish(i32),
    Bind(i32, i32, i32),
    BindFree(i32, i32),
    Tbind(i32, i32, i32),
    BindAdditional(i32, i32),
    Unbind(i32, i32),
    Exit(i32),
    Name(i32, u8),
    Priv(i32, i32),
    Link(i32, i32),
    Unlink(i32, i32),
}

fn change() -> impl Strategy<Value = Change> {
    let (vm, slot, pid) = (0..2_i32, 24..34_i32, 1..9_i32);
    prop_oneof![
        2 => vm.clone().prop_map(Change::VmInit),
        1 => vm.clone().prop_map(Change::VmEnd),
        1 => vm.clone().prop_map(Change::VmFinish),
        8 => (vm.clone(), slot.clone(), pid.clone())
            .prop_map(|(vm, slot, pid)| Change::Bind(vm, slot, pid)),
        8 => (vm.clone(), pid.clone()).prop_map(|(vm, pid)| Change::BindFree(vm, pid)),
        4 => (vm.clone(), pid.clone(), 0..3).prop_map(|(vm, pid, tid)| Change::Tbind(vm, pid, tid)),
        4 => (vm.clone(), pid.clone())
            .prop_map(|(vm, pid)| Change::BindAdditional(vm, pid)),
        2 => (vm, slot).prop_map(|(vm, slot)| Change::Unbind(vm, slot)),
        4 => pid.clone().prop_map(Change::Exit),
        4 => (pid.clone(), 0..6_u8).prop_map(|(pid, name)| Change::Name(pid, name)),
        2 => (pid.clone(), any::<i32>()).prop_map(|(pid, level)| Change::Priv(pid, level)),
        8 => (pid.clone(), pid.clone()).prop_map(|(pid, peer)| Change::Link(pid, peer)),
        2 => (pid.clone(), pid).prop_map(|(pid, peer)| Change::Unlink(pid, peer)),
    ]
}

fn endpoint_of(node: &Node, pid: i32) -> MemberId {
    node.endpoint_of_process(pid).unwrap_or(MemberId::new(0, Address::new(9, 40)))
}

/// Tries a change; the tables may refuse it.
fn apply(node: &mut Node, change: Change) {
    let owner = |pid| cred(OWNER, pid);
    match change {
        Change::VmInit(id) => {
            drop(node.vm_init(VmSpec { id: Some(id), ..spec(&format!("vm{id}")) }, &owner(1)));
        }
        Change::VmEnd(id) => drop(node.begin_end(id, &owner(1))),
        Change::VmFinish(id) => drop(node.finish_end(id)),
        Change::Bind(vm, slot, pid) => {
            drop(node.bind(vm, slot, member(pid), &owner(pid), MemberKind::Process, None))
        }
        Change::BindFree(vm, pid) => {
            drop(node.bind_free(vm, member(pid), &owner(pid), MemberKind::Process, None))
        }
        Change::Tbind(vm, pid, tid) => {
            drop(node.bind_free(vm, thread(pid, tid), &owner(pid), MemberKind::Thread, None));
        }
        Change::BindAdditional(vm, pid) => {
            drop(node.bind_free(vm, member(pid), &owner(pid), MemberKind::Additional, None));
        }
        Change::Unbind(vm, slot) => {
            let found =
                node.endpoints(vm).map(|endpoint| endpoint.address).find(|at| at.slot() == slot);
            drop(found.map(|address| node.unbind(MemberId::new(vm, address))));
        }
        Change::Exit(pid) => drop(node.exit(pid)),
        Change::Name(pid, name) => {
            drop(node.name_attach(endpoint_of(node, pid), &format!("name{name}"), None))
        }
        Change::Priv(pid, level) => {
            let privileges = Privileges { level, ..UNRESTRICTED };
            drop(node.set_priv(endpoint_of(node, pid), privileges, &owner(1)));
        }
        Change::Link(pid, peer) => {
            drop(node.link(endpoint_of(node, pid), endpoint_of(node, peer).address))
        }
        Change::Unlink(pid, peer) => {
            node.unlink(endpoint_of(node, pid), endpoint_of(node, peer).address);
        }
    }
}

/// Checks the invariants of the tables.
fn check(node: &Node) {
    for vm in 0..2 {
        for endpoint in node.endpoints(vm) {
            let id = MemberId::new(vm, endpoint.address);
            let process = node.endpoint_of_process(endpoint.member.pid).unwrap();
            assert_eq!(process.vm, vm, "a thread is in the VM of its process");
            assert_eq!(
                process == id,
                endpoint.kind.is_process(),
                "pid and endpoint are one-to-one"
            );
            for peer in node.peers(id) {
                let back = node.peers(MemberId::new(vm, peer.address));
                let own = LinkedPeer {
                    address: endpoint.address,
                    index: peer.peer_index,
                    peer_index: peer.index,
                };
                assert!(back.contains(&own), "a link is in both tables");
            }
            for name in &endpoint.names {
                assert_eq!(
                    node.name_locate(vm, name).unwrap_or(endpoint.address),
                    endpoint.address
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_replay_of_the_records_gives_an_equal_node(
        changes in prop::collection::vec(change(), 0..150)
    ) {
        let mut node = node();
        for vm in 0..2 {
            apply(&mut node, Change::VmInit(vm));
        }
        let mut journal = node.drain_records();
        for change in changes {
            let before = node.clone();
            apply(&mut node, change);
            check(&node);
            let records = node.drain_records();
            prop_assert!(!records.is_empty() || node == before, "a change without a record");
            journal.extend(records);
        }
        let bytes = postcard::to_allocvec(&journal).unwrap();
        let read: Vec<Record> = postcard::from_bytes(&bytes).unwrap();
        prop_assert_eq!(&read, &journal);
        prop_assert_eq!(&Node::replay(&read, Quota::default()).unwrap(), &node);
        prop_assert_eq!(&Node::replay(&node.snapshot(), Quota::default()).unwrap(), &node);
    }
}

#[test]
fn a_journal_that_lost_a_record_is_refused_or_gives_another_node() {
    let mut node = with_vm();
    let one = bind(&mut node, 29, 7).unwrap();
    node.name_attach(at(one), "fs", None).unwrap();
    node.exit(7);
    let journal = node.drain_records();
    assert_eq!(journal.len(), 5);
    for lost in 0..journal.len() {
        let mut rest = journal.clone();
        rest.remove(lost);
        let replayed = Node::replay(&rest, Quota::default());
        // The name ended with its endpoint, so only its record leaves no trace.
        assert_eq!(replayed.is_ok_and(|replayed| replayed == node), lost == 3);
    }
}
