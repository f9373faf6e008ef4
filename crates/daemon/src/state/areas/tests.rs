use super::*;
use crate::tables::AreaMembership;
use m3ipc_abi::Address;
use m3ipc_area::{CLAIM, Claim, ClaimState, RECORD_WORDS, is_in_use};
use m3ipc_shm::Shared;
use m3ipc_wire::{AreaAudience, AreaParams};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering;

/// Block numbers of the largest area.
const NUMBERS: u32 = 262_144;

/// An area with a dead allocator member and two living members.
fn area() -> (Area, AreaMemory) {
    let member = |address, state| AreaMembership { address: Address(address), state, uid: 0 };
    let params = AreaParams {
        limit_bytes: 256 << 20,
        audience: AreaAudience::Vm,
        owner_writes: false,
        huge: false,
        low: false,
    };
    let area = Area {
        id: 1,
        base: 0,
        params,
        numbers: NUMBERS,
        owner: Address(1),
        owner_uid: 0,
        members: vec![
            member(1, AreaMemberState::Gone),
            member(2, AreaMemberState::In),
            member(3, AreaMemberState::In),
        ],
        extents: Vec::new(),
        grants: 0,
        closed: false,
    };
    let memory = m3ipc_sys::create_sparse("m3-test", 4096, false).unwrap();
    let ledgers = (0..3).map(|index| (index, Ledger::create(NUMBERS, Vec::new()).unwrap()));
    let memory = AreaMemory {
        memory: Rc::new(MemberFd::from(memory)),
        ledgers: ledgers.collect(),
        searches: BTreeMap::new(),
    };
    (area, memory)
}

/// Blocks of 512 bytes that the ledgers have.
fn blocks(memory: &AreaMemory) -> u64 {
    let blocks = |ledger: &Ledger| {
        let file = std::fs::File::from(
            std::os::fd::AsFd::as_fd(&*ledger.fd).try_clone_to_owned().unwrap(),
        );
        file.metadata().unwrap().blocks()
    };
    memory.ledgers.values().map(blocks).sum()
}

#[test]
fn a_scan_takes_no_memory_for_ledgers_that_nobody_wrote() {
    let (area, memory) = area();
    let ledgers = Ledgers::new(&memory, &area);
    assert!(!is_in_use(&ledgers, 0, 0..NUMBERS));
    assert_eq!(blocks(&memory), 0);
}

#[test]
fn a_scan_finds_each_claim_in_a_sparse_ledger() {
    for number in [0, 127, 128, 200_000, NUMBERS - 1] {
        let (area, memory) = area();
        let bytes = ledger_bytes(NUMBERS);
        let words = Shared::map_sparse(&*memory.ledgers[&2].fd, bytes).unwrap();
        let claim = Claim { state: ClaimState::Held, other: 0, hop: 1, generation: 0 };
        let at = 8 * (number as usize * RECORD_WORDS + CLAIM);
        words.word64(at).store(claim.encode(), Ordering::SeqCst);
        let taken = blocks(&memory);
        let ledgers = Ledgers::new(&memory, &area);
        assert!(!is_in_use(&ledgers, 0, 0..number), "{number}");
        assert!(is_in_use(&ledgers, 0, number..number + 1), "{number}");
        assert!(!is_in_use(&ledgers, 0, number + 1..NUMBERS), "{number}");
        assert_eq!(blocks(&memory), taken);
    }
}
