use super::*;
use crate::accept_error::AcceptError;
use crate::block::HeldBlock;
use crate::name::ClaimedBlockName;
use crate::words::RECORD_WORDS;
use core::sync::atomic::{AtomicU64, Ordering, fence};
use proptest::prelude::*;
use std::sync::Arc;

const NUMBERS: u32 = 64;
const EXTENT: u64 = 64 * 1024;

/// A ledger in private memory, which all members of a test see.
#[derive(Clone, Debug)]
struct PrivateLedger(Arc<Vec<AtomicU64>>);

impl PrivateLedger {
    fn new() -> Self {
        Self(Arc::new((0..NUMBERS as usize * RECORD_WORDS).map(|_| AtomicU64::new(0)).collect()))
    }
}

impl LedgerWords for PrivateLedger {
    fn load(&self, at: usize) -> u64 {
        self.0[at].load(Ordering::Acquire)
    }
}

impl OwnLedgerWords for PrivateLedger {
    fn store(&self, at: usize, value: u64) {
        self.0[at].store(value, Ordering::Release);
    }
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }
}

type Member = AreaMember<PrivateLedger, PrivateLedger>;

fn extent(allocator: u16) -> Extent {
    Extent {
        allocator,
        offset: u64::from(allocator) * EXTENT,
        bytes: EXTENT,
        first_number: u32::from(allocator) * 16,
        numbers: 16,
        generation: u32::from(allocator) * 1000,
    }
}

/// Members with one extent each, and their ledgers.
fn members(count: u16) -> (Vec<Member>, Vec<PrivateLedger>) {
    let ledgers: Vec<PrivateLedger> = (0..count).map(|_| PrivateLedger::new()).collect();
    let members = (0..count).map(|index| {
        let mut member = AreaMember::new(7, index, NUMBERS, ledgers[usize::from(index)].clone());
        for other in 0..count {
            member.learn_member(
                other,
                Address(i32::from(other)),
                ledgers[usize::from(other)].clone(),
            );
            member.learn_extent(extent(other));
        }
        member
    });
    (members.collect(), ledgers)
}

/// Two rounds: a sweep finds an unused block in the first and frees it in the second.
fn two_rounds(member: &mut Member) {
    member.sweep_all();
    member.mark_events_received();
    member.sweep_all();
}

fn claimed(name: &BlockName) -> ClaimedBlockName {
    ClaimedBlockName::decode(&name.encode()).unwrap()
}

#[test]
fn a_block_is_handed_on_and_returns_to_its_allocator() {
    let (mut members, _) = members(3);
    let held = members[0].allocate(1000, 64, BlockLifetime::Short).unwrap();
    let (offset, number) = (held.offset(), held.number());
    let name = members[0].give(held, 1).unwrap();
    let held = members[1].accept(0, &claimed(&name)).unwrap();
    assert_eq!((held.offset(), held.bytes(), held.hop()), (offset, 1000, 1));
    let name = members[1].give(held, 2).unwrap();
    let held = members[2].accept(1, &claimed(&name)).unwrap();
    let name = members[2].give(held, 0).unwrap();
    let held = members[0].accept(2, &claimed(&name)).unwrap();
    assert_eq!((held.number(), held.hop()), (number, 0));
    members[0].release(held);
    assert_eq!(members[0].free_and_total_bytes(), (EXTENT, EXTENT));
    // The earlier name is void now.
    assert_eq!(members[1].accept(0, &claimed(&name)).unwrap_err(), AcceptError::NotGiven(number));
}

#[test]
fn the_allocator_finds_a_released_block() {
    let (mut members, _) = members(2);
    let held = members[0].allocate(EXTENT, 64, BlockLifetime::Long).unwrap();
    let name = members[0].give(held, 1).unwrap();
    let held = members[1].accept(0, &claimed(&name)).unwrap();
    assert!(members[0].allocate(64, 64, BlockLifetime::Short).is_err());
    members[1].release(held);
    two_rounds(&mut members[0]);
    let again = members[0].allocate(EXTENT, 64, BlockLifetime::Short).unwrap();
    assert_eq!(again.offset(), 0);
    members[0].release(again);
}

#[test]
fn a_member_gives_only_its_own_block_and_only_once() {
    let (mut members, ledgers) = members(4);
    let held = members[0].allocate(64, 64, BlockLifetime::Short).unwrap();
    let name = members[0].give(held, 1).unwrap();
    // A third member cannot use the name, and the name counts only from its giver.
    assert_eq!(
        members[2].accept(0, &claimed(&name)).unwrap_err(),
        AcceptError::NotGiven(name.number)
    );
    assert_eq!(
        members[1].accept(2, &claimed(&name)).unwrap_err(),
        AcceptError::NotGiven(name.number)
    );
    let held = members[1].accept(0, &claimed(&name)).unwrap();
    assert_eq!(
        members[1].accept(0, &claimed(&name)).unwrap_err(),
        AcceptError::NotGiven(name.number)
    );
    let name = members[1].give(held, 2).unwrap();
    let held = members[2].accept(1, &claimed(&name)).unwrap();
    // The former holder gives it again in its own ledger. The claim of the present holder stands.
    let again = Claim { state: ClaimState::Given, other: 3, hop: 1, generation: name.generation };
    ledgers[1].store(word_index(name.number, CLAIM), again.encode());
    let found = members[3].accept(1, &claimed(&name)).unwrap_err();
    assert_eq!(found, AcceptError::Elsewhere { number: name.number, by: Address(2) });
    members[2].release(held);
}

#[test]
fn the_latest_member_of_an_address_counts() {
    let (mut members, ledgers) = members(2);
    let again = Address(1);
    members[0].expect_member(2, again);
    assert_eq!(members[0].find(again), Some(2));
    assert!(!members[0].has_joined(again));
    members[0].learn_member(2, again, ledgers[1].clone());
    assert!(members[0].has_joined(again));
    members[0].member_left(2);
    assert_eq!(members[0].find(again), Some(1));
}

#[test]
fn a_name_with_a_false_span_or_length_is_refused() {
    let (mut members, ledgers) = members(2);
    let held = members[0].allocate(64, 64, BlockLifetime::Short).unwrap();
    let name = members[0].give(held, 1).unwrap();
    let longer = BlockName { bytes: 65, ..name };
    assert!(matches!(
        members[1].accept(0, &claimed(&longer)),
        Err(AcceptError::TooLong { bytes: 65, .. })
    ));
    let beyond = BlockName { number: NUMBERS, ..name };
    assert_eq!(members[1].accept(0, &claimed(&beyond)).unwrap_err(), AcceptError::Outside(NUMBERS));
    // The allocator member claims a span in the extent of another member, or beyond the end.
    for offset in [u32::try_from(EXTENT / UNIT_BYTES).unwrap(), u32::MAX] {
        ledgers[0].store(word_index(name.number, SPAN), Span { offset, units: 1 }.encode());
        assert_eq!(
            members[1].accept(0, &claimed(&name)).unwrap_err(),
            AcceptError::Outside(name.number)
        );
    }
}

#[test]
fn a_giver_takes_the_block_of_a_withdrawn_message_back() {
    let (mut members, _) = members(2);
    let held = members[0].allocate(64, 64, BlockLifetime::Short).unwrap();
    let name = members[0].give(held, 1).unwrap();
    let held = members[0].take_back(&name).unwrap().into_held();
    assert!(members[1].accept(0, &claimed(&name)).is_err());
    members[0].release(held);
    assert_eq!(members[0].free_and_total_bytes().0, EXTENT);
    assert_eq!(members[0].take_back(&name), None);
}

/// A long call to an address that passes to another endpoint outlives the receiver.
#[test]
fn a_sweep_leaves_the_block_of_a_call_to_its_giver_whose_receiver_died() {
    let (mut members, _) = members(2);
    let held = members[0].allocate(64, 64, BlockLifetime::Short).unwrap();
    let name = members[0].give_in_call(held, 1).unwrap();
    members[0].member_left(1);
    two_rounds(&mut members[0]);
    let held = members[0].take_back(&name).expect("the call goes on").into_held();
    // The message of the next call is taken, and its receiver dies before it accepts.
    let name = members[0].give_in_call(held, 1).unwrap();
    two_rounds(&mut members[0]);
    members[0].end_call(&name);
    two_rounds(&mut members[0]);
    assert_eq!(members[0].take_back(&name), None);
    assert_eq!(members[0].free_and_total_bytes().0, EXTENT);
}

#[test]
fn an_abandoned_block_of_a_call_is_free_when_nobody_claims_it() {
    let (mut members, _) = members(2);
    let held = members[0].allocate(64, 64, BlockLifetime::Short).unwrap();
    let name = members[0].give_in_call(held, 1).unwrap();
    members[0].abandon(&name);
    two_rounds(&mut members[0]);
    assert_eq!(members[0].free_and_total_bytes().0, EXTENT);
}

/// An orphan scan may have freed such a block before its giver claims it.
#[test]
fn a_giver_does_not_take_back_from_the_dead_what_the_dead_allocated() {
    let (mut members, _) = members(3);
    let give_on = |members: &mut Vec<Member>| {
        let held = members[0].allocate(64, 64, BlockLifetime::Short).unwrap();
        let name = members[0].give(held, 1).unwrap();
        let held = members[1].accept(0, &claimed(&name)).unwrap();
        members[1].give(held, 2).unwrap()
    };
    let (first, second, third) =
        (give_on(&mut members), give_on(&mut members), give_on(&mut members));
    members[1].member_left(2);
    let first = members[1].take_back(&first).expect("the allocator member lives");
    let second = members[1].take_back(&second).expect("the allocator member lives");
    assert!(members[1].is_returned(&first));
    members[1].release(first.into_held());
    members[1].member_left(0);
    assert!(!members[1].is_returned(&second));
    assert_eq!(members[1].take_back(&third), None);
}

#[test]
fn a_block_that_is_read_twice_is_read_until_both_readings_end() {
    let (mut members, _) = members(2);
    let held = members[0].allocate(64, 64, BlockLifetime::Short).unwrap();
    let name = members[0].share(&held);
    let first = members[1].accept_shared(0, &claimed(&name)).unwrap();
    let second = members[1].accept_shared(0, &claimed(&name)).unwrap();
    members[1].finish(first);
    assert_eq!(members[0].readers_left(&held, &[1]), 1);
    assert!(!members[0].unshare(&held));
    members[1].finish(second);
    assert!(members[0].unshare(&held));
}

/// Another member may have accepted the block under its former generation.
#[test]
fn an_allocator_member_rejects_its_own_block_if_a_newcomer_claims_it() {
    let (mut members, ledgers) = members(3);
    let held = members[0].allocate(64, 64, BlockLifetime::Short).unwrap();
    let name = members[0].give(held, 1).unwrap();
    let held = members[1].accept(0, &claimed(&name)).unwrap();
    let back = members[1].give(held, 0).unwrap();
    let accepted = members[0].accept(1, &claimed(&back)).unwrap();
    assert!(members[0].is_mine_alone(&accepted));
    let false_claim =
        Claim { state: ClaimState::Held, other: 0, hop: 2, generation: name.generation };
    let at = word_index(accepted.number, CLAIM);
    ledgers[2].store(at, false_claim.encode());
    assert!(!members[0].is_mine_alone(&accepted));
    members[0].reject(accepted);
    two_rounds(&mut members[0]);
    assert_ne!(members[0].free_and_total_bytes().0, EXTENT, "the claim still counts");
    ledgers[2].store(at, 0);
    two_rounds(&mut members[0]);
    assert_eq!(members[0].free_and_total_bytes().0, EXTENT);
}

#[test]
fn a_complete_list_of_extents_removes_those_that_it_lacks() {
    let (mut members, _) = members(3);
    members[0].begin_extent_list();
    members[0].learn_extent(extent(1));
    members[0].end_extent_list();
    assert_eq!(members[0].span(2 * EXTENT), None, "the extent of member 2 is gone");
    assert!(members[0].span(0).is_some() && members[0].span(EXTENT).is_some());
}

#[test]
fn blocks_of_dead_members_return_to_their_allocator() {
    let (mut members, _) = members(3);
    let held = members[0].allocate(64, 64, BlockLifetime::Short).unwrap();
    let name = members[0].give(held, 1).unwrap();
    let held = members[1].accept(0, &claimed(&name)).unwrap();
    let _lost = members[1].give(held, 2).unwrap();
    members[0].sweep_all();
    assert_eq!(members[0].blocks_away(), 1);
    members[0].member_left(2);
    two_rounds(&mut members[0]);
    assert_eq!((members[0].blocks_away(), members[0].free_and_total_bytes().0), (0, EXTENT));
}

#[test]
fn a_shared_block_is_exclusive_again_after_all_readers_finish() {
    let (mut members, _) = members(3);
    let held = members[0].allocate(64, 64, BlockLifetime::Short).unwrap();
    let name = members[0].share(&held);
    let one = members[1].accept_shared(0, &claimed(&name)).unwrap();
    let two = members[2].accept_shared(0, &claimed(&name)).unwrap();
    assert_eq!(
        members[1].accept(0, &claimed(&name)).unwrap_err(),
        AcceptError::WrongKind(name.number)
    );
    assert!(!members[0].unshare(&held));
    members[1].finish(one);
    assert_eq!(members[0].readers_left(&held, &[1, 2]), 1);
    members[2].finish(two);
    assert_eq!(members[0].readers_left(&held, &[1, 2]), 0);
    assert!(members[0].unshare(&held));
    members[0].release(held);
    two_rounds(&mut members[0]);
    assert_eq!(members[0].free_and_total_bytes().0, EXTENT);
    assert!(members[1].accept_shared(0, &claimed(&name)).is_err());
}

#[test]
fn a_freed_block_is_reused_after_its_readers_finish() {
    let (mut members, _) = members(2);
    let held = members[0].allocate(EXTENT, 64, BlockLifetime::Short).unwrap();
    let name = members[0].share(&held);
    let reading = members[1].accept_shared(0, &claimed(&name)).unwrap();
    members[0].release(held);
    assert!(members[0].allocate(64, 64, BlockLifetime::Short).is_err());
    members[1].finish(reading);
    two_rounds(&mut members[0]);
    let held = members[0].allocate(64, 64, BlockLifetime::Short).unwrap();
    members[0].release(held);
}

/// A message that was sent and not yet taken.
struct Message {
    from: u16,
    to: u16,
    name: BlockName,
}

/// Cases of the random runs; `M3_AREA_CASES` sets another number.
fn cases() -> u32 {
    std::env::var("M3_AREA_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]
    /// Four members hand blocks on, withdraw messages and die. No two members hold the same bytes,
    /// and no byte is lost at the end.
    #[test]
    #[cfg_attr(miri, ignore = "too slow")]
    fn no_block_has_two_holders_and_none_is_lost(
        steps in prop::collection::vec((0_u8..20, 0_u16..4, 0_u16..4, 1_u64..9000), 1..250)
    ) {
        let (mut members, _) = members(4);
        let mut lives = [true; 4];
        let mut held_by: Vec<Vec<HeldBlock>> = (0..4).map(|_| Vec::new()).collect();
        let mut messages: Vec<Message> = Vec::new();
        for (step, one, other, bytes) in steps {
            let (at, to) = (usize::from(one), usize::from(other));
            if !lives[at] {
                continue;
            }
            match step {
                0..=5 => {
                    members[at].mark_events_received();
                    let long = bytes % 3 == 0;
                    let kind = if long { BlockLifetime::Long } else { BlockLifetime::Short };
                    if let Ok(held) = members[at].allocate(bytes, 64, kind) {
                        held_by[at].push(held);
                    }
                }
                6..=10 if at != to && lives[to] && !held_by[at].is_empty() => {
                    let which = usize::try_from(bytes).unwrap() % held_by[at].len();
                    let held = held_by[at].swap_remove(which);
                    let name = members[at].give(held, other).unwrap();
                    messages.push(Message { from: one, to: other, name });
                }
                11..=15 => {
                    if let Some(which) = messages.iter().position(|message| message.to == one) {
                        let message = messages.swap_remove(which);
                        let held = members[at].accept(message.from, &claimed(&message.name));
                        held_by[at].push(held.unwrap());
                    }
                }
                16 => {
                    if let Some(which) = messages.iter().position(|message| message.from == one) {
                        let message = messages.swap_remove(which);
                        let returned = members[at].take_back(&message.name).unwrap();
                        held_by[at].push(returned.into_held());
                    }
                }
                17..=18 if !held_by[at].is_empty() => {
                    let held = held_by[at].pop().unwrap();
                    members[at].release(held);
                }
                // Member 0 stays alive.
                19 if one != 0 && bytes % 5 == 0 => {
                    lives[at] = false;
                    held_by[at].clear();
                    // A message from or to a dead member is never taken.
                    messages.retain(|message| message.to != one && message.from != one);
                    members.iter_mut().for_each(|member| member.member_left(one));
                }
                _ => {}
            }
            let mut taken: Vec<(u64, u64)> =
                held_by.iter().flatten().map(|held| (held.offset(), held.capacity())).collect();
            taken.sort_unstable();
            prop_assert!(taken.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
        }
        // The open messages arrive, all holders release, and the allocator members sweep.
        for message in messages {
            let to = usize::from(message.to);
            let held = members[to].accept(message.from, &claimed(&message.name)).unwrap();
            members[to].release(held);
        }
        for (member, held) in members.iter_mut().zip(held_by) {
            held.into_iter().for_each(|held| member.release(held));
        }
        for (member, lives) in members.iter_mut().zip(lives) {
            if lives {
                two_rounds(member);
                prop_assert_eq!(member.free_and_total_bytes(), (EXTENT, EXTENT));
                prop_assert_eq!(member.largest_free(), EXTENT);
            }
        }
    }

    /// Any words in a ledger and any name: a result within the extents, and no panic.
    #[test]
    #[cfg_attr(miri, ignore = "too slow")]
    fn garbage_in_ledgers_and_names_is_bounded(
        words in prop::collection::vec(any::<u64>(), NUMBERS as usize * RECORD_WORDS),
        names in prop::collection::vec(any::<[u8; 24]>(), 1..50),
        near in prop::collection::vec((0_u32..70, 0_u32..5, 0_u32..5, 0_u64..70_000), 1..50),
    ) {
        let (mut members, ledgers) = members(2);
        for (at, word) in words.iter().enumerate() {
            ledgers[1].store(at, *word);
        }
        let mut all: Vec<BlockName> = near
            .iter()
            .map(|(number, generation, hop, bytes)| BlockName {
                area: 7, number: *number, generation: *generation, hop: *hop, bytes: *bytes,
                shared: false, payload: false,
            })
            .collect();
        for bytes in names {
            let mut name = [0; crate::NAME_BYTES];
            name[..24].copy_from_slice(&bytes);
            all.extend(ClaimedBlockName::decode(&name).map(|claimed| claimed.0));
        }
        for name in all {
            if let Ok(held) = members[0].accept(1, &claimed(&name)) {
                prop_assert!(held.bytes() <= held.capacity());
                prop_assert!(held.offset() >= EXTENT);
                prop_assert!(held.offset() + held.capacity() <= 2 * EXTENT);
                members[0].release(held);
            }
            let shared = claimed(&BlockName { shared: true, ..name });
            if let Ok(reading) = members[0].accept_shared(1, &shared) {
                prop_assert!(reading.offset() + reading.capacity() <= 2 * EXTENT);
                members[0].finish(reading);
            }
        }
    }
}
