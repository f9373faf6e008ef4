//! The oracle and the daemon's tables have separate checks. Both must agree on every input.

use m3ipc_abi::{Address, Code, SYSTEM_SLOTS, VmLimits};
use m3ipc_daemon::tables::deadlock::{Blocked, BlockedIn, cycle_through};
use m3ipc_daemon::tables::{Holder, check_destination, slot_in_range};
use m3ipc_model::cycle::{Waiter, deadlock_of};
use m3ipc_model::destination;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Slots around the limits, and the numbers of ANY, NONE and SELF.
fn slot() -> impl Strategy<Value = i32> {
    prop_oneof![-6..3_i32, 27..43_i32, 31_436..31_440_i32, 27_340..27_345_i32, 35_532..35_536_i32]
}

fn address() -> impl Strategy<Value = Address> {
    (0..3_i32, slot()).prop_map(|(generation, slot)| Address::new(generation, slot))
}

fn limits() -> impl Strategy<Value = VmLimits> {
    (1..40_000_i32, 0..7_i32).prop_map(|(procs, tasks)| VmLimits { procs, tasks })
}

/// For each waiting endpoint, its peer and whether it sends.
fn waits() -> impl Strategy<Value = BTreeMap<i32, (i32, bool)>> {
    prop::collection::btree_map(0..7_i32, (0..7_i32, any::<bool>()), 0..7)
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, cases: 4_000, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn both_name_the_same_deadlock(waits in waits(), start in 0..7_i32) {
        let mut waiters = Vec::new();
        let mut records = Vec::new();
        for (since, (endpoint, (peer, sends))) in (0..).zip(waits) {
            let (endpoint, peer) = (Address(endpoint), Address(peer));
            let call = if sends { BlockedIn::Send } else { BlockedIn::Receive };
            waiters.push(Waiter { endpoint, peer, sends });
            records.push(Blocked { endpoint, peer, call, since });
        }
        let cycle = cycle_through(Address(start), &records);
        prop_assert_eq!(deadlock_of(Address(start), &waiters), cycle.map(|cycle| cycle.members));
    }

    #[test]
    fn both_give_the_same_code_for_a_destination(
        limits in limits(),
        caller in address(),
        address in address(),
        generation in 1..4_i32,
        holder in 0..3,
    ) {
        let slot = address.slot();
        let generation = if slot < SYSTEM_SLOTS { 0 } else { generation };
        let held = Address::new(generation, slot);
        let (holder, living_and_latest) = match holder {
            0 => (Holder::Living(held), (Some(held), Some(held))),
            1 => (Holder::Last(held), (None, Some(held))),
            _ => (Holder::Never, (None, None)),
        };
        let tables = check_destination(&limits, Some(caller), address, |_| holder)
            .map_err(|error| error.code(Code::DstDied));
        let oracle =
            destination::check(&limits, caller, address, living_and_latest, Code::DstDied);
        prop_assert_eq!(oracle, tables);
        prop_assert_eq!(destination::has_slot(&limits, slot), slot_in_range(&limits, slot));
    }
}
