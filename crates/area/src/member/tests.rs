use super::*;
use crate::name::ClaimedBlockName;
use core::sync::atomic::{AtomicU64, Ordering, fence};
use proptest::prelude::*;
use std::sync::Arc;

const NUMBERS: u32 = 64;
const EXTENT: u64 = 64 * 1024;

/// A ledger in private memory, seen by all.
#[derive(Clone, Debug)]
struct Paper(Arc<Vec<AtomicU64>>);

impl Paper {
    fn new() -> Self {
        Self(Arc::new((0..NUMBERS as usize * RECORD_WORDS).map(|_| AtomicU64::new(0)).collect()))
    }
}

impl LedgerWords for Paper {
    fn load(&self, at: usize) -> u64 {
        self.0[at].load(Ordering::Acquire)
    }
}

impl OwnLedgerWords for Paper {
    fn store(&self, at: usize, value: u64) {
        self.0[at].store(value, Ordering::Release);
    }
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }
}

type Member = AreaMember<Paper, Paper>;

fn extent(home: u16) -> Extent {
    Extent {
        home,
        offset: u64::from(home) * EXTENT,
        bytes: EXTENT,
        first_number: u32::from(home) * 16,
        numbers: 16,
        generation: u32::from(home) * 1000,
    }
}

/// So many members, each the home of one extent, and their ledgers.
fn members(count: u16) -> (Vec<Member>, Vec<Paper>) {
    let papers: Vec<Paper> = (0..count).map(|_| Paper::new()).collect();
    let sides = (0..count).map(|me| {
        let mut side = AreaMember::new(7, me, NUMBERS, papers[usize::from(me)].clone());
        for other in 0..count {
            side.learn_member(other, Address(i32::from(other)), papers[usize::from(other)].clone());
            side.learn_extent(extent(other));
        }
        side
    });
    (sides.collect(), papers)
}

/// What is over is found in one turn, and free in the next.
fn turn(side: &mut Member) {
    side.sweep_all();
    side.mark_events_received();
    side.sweep_all();
}

fn claimed(name: &BlockName) -> ClaimedBlockName {
    ClaimedBlockName::decode(&name.encode()).unwrap()
}

#[test]
fn a_block_goes_from_hand_to_hand_and_home() {
    let (mut sides, _) = members(3);
    let held = sides[0].allocate(1000, 64, BlockLifetime::Short).unwrap();
    let (offset, number) = (held.offset(), held.number());
    let name = sides[0].give(held, 1).unwrap();
    let held = sides[1].accept(0, &claimed(&name)).unwrap();
    assert_eq!((held.offset(), held.bytes(), held.hop()), (offset, 1000, 1));
    let name = sides[1].give(held, 2).unwrap();
    let held = sides[2].accept(1, &claimed(&name)).unwrap();
    let name = sides[2].give(held, 0).unwrap();
    let held = sides[0].accept(2, &claimed(&name)).unwrap();
    assert_eq!((held.number(), held.hop()), (number, 0));
    sides[0].release(held);
    assert_eq!(sides[0].room(), (EXTENT, EXTENT));
    // The name of the way is of no use any more.
    assert_eq!(sides[1].accept(0, &claimed(&name)).unwrap_err(), AcceptError::NotGiven(number));
}

#[test]
fn what_a_holder_releases_its_home_finds() {
    let (mut sides, _) = members(2);
    let held = sides[0].allocate(EXTENT, 64, BlockLifetime::Long).unwrap();
    let name = sides[0].give(held, 1).unwrap();
    let held = sides[1].accept(0, &claimed(&name)).unwrap();
    assert!(sides[0].allocate(64, 64, BlockLifetime::Short).is_err());
    sides[1].release(held);
    turn(&mut sides[0]);
    let again = sides[0].allocate(EXTENT, 64, BlockLifetime::Short).unwrap();
    assert_eq!(again.offset(), 0);
    sides[0].release(again);
}

#[test]
fn nobody_gives_twice_or_what_is_not_his() {
    let (mut sides, papers) = members(4);
    let held = sides[0].allocate(64, 64, BlockLifetime::Short).unwrap();
    let name = sides[0].give(held, 1).unwrap();
    // Whoever saw the name cannot use it, nor can it come from another.
    assert_eq!(
        sides[2].accept(0, &claimed(&name)).unwrap_err(),
        AcceptError::NotGiven(name.number)
    );
    assert_eq!(
        sides[1].accept(2, &claimed(&name)).unwrap_err(),
        AcceptError::NotGiven(name.number)
    );
    let held = sides[1].accept(0, &claimed(&name)).unwrap();
    assert_eq!(
        sides[1].accept(0, &claimed(&name)).unwrap_err(),
        AcceptError::NotGiven(name.number)
    );
    let name = sides[1].give(held, 2).unwrap();
    let held = sides[2].accept(1, &claimed(&name)).unwrap();
    // The one before gives it once more, in its own ledger: the holder's claim stands.
    let again = Claim { state: ClaimState::Given, other: 3, hop: 1, generation: name.generation };
    papers[1].store(word_of(name.number, CLAIM), again.encode());
    let found = sides[3].accept(1, &claimed(&name)).unwrap_err();
    assert_eq!(found, AcceptError::Elsewhere { number: name.number, by: Address(2) });
    sides[2].release(held);
}

#[test]
fn a_name_that_lies_about_place_or_length_is_refused() {
    let (mut sides, papers) = members(2);
    let held = sides[0].allocate(64, 64, BlockLifetime::Short).unwrap();
    let name = sides[0].give(held, 1).unwrap();
    let longer = BlockName { bytes: 65, ..name };
    assert!(matches!(
        sides[1].accept(0, &claimed(&longer)),
        Err(AcceptError::TooLong { bytes: 65, .. })
    ));
    let beyond = BlockName { number: NUMBERS, ..name };
    assert_eq!(sides[1].accept(0, &claimed(&beyond)).unwrap_err(), AcceptError::Outside(NUMBERS));
    // Its home says that it lies where another allocates, or beyond the end.
    for offset in [u32::try_from(EXTENT / UNIT_BYTES).unwrap(), u32::MAX] {
        papers[0].store(word_of(name.number, SPAN), Span { offset, units: 1 }.encode());
        assert_eq!(
            sides[1].accept(0, &claimed(&name)).unwrap_err(),
            AcceptError::Outside(name.number)
        );
    }
}

#[test]
fn a_withdrawn_message_leaves_the_block_with_its_giver() {
    let (mut sides, _) = members(2);
    let held = sides[0].allocate(64, 64, BlockLifetime::Short).unwrap();
    let name = sides[0].give(held, 1).unwrap();
    let held = sides[0].take_back(&name).unwrap();
    assert!(sides[1].accept(0, &claimed(&name)).is_err());
    sides[0].release(held);
    assert_eq!(sides[0].room().0, EXTENT);
    assert_eq!(sides[0].take_back(&name), None);
}

#[test]
fn the_blocks_of_the_dead_are_their_homes_again() {
    let (mut sides, _) = members(3);
    let held = sides[0].allocate(64, 64, BlockLifetime::Short).unwrap();
    let name = sides[0].give(held, 1).unwrap();
    let held = sides[1].accept(0, &claimed(&name)).unwrap();
    let _lost = sides[1].give(held, 2).unwrap();
    sides[0].sweep_all();
    assert_eq!(sides[0].out(), 1);
    sides[0].member_left(2);
    turn(&mut sides[0]);
    assert_eq!((sides[0].out(), sides[0].room().0), (0, EXTENT));
}

#[test]
fn a_shared_block_comes_back_when_all_have_read_it() {
    let (mut sides, _) = members(3);
    let held = sides[0].allocate(64, 64, BlockLifetime::Short).unwrap();
    let name = sides[0].share(&held);
    let one = sides[1].accept_shared(0, &claimed(&name)).unwrap();
    let two = sides[2].accept_shared(0, &claimed(&name)).unwrap();
    assert_eq!(
        sides[1].accept(0, &claimed(&name)).unwrap_err(),
        AcceptError::WrongKind(name.number)
    );
    assert!(!sides[0].unshare(&held));
    sides[1].finish(one);
    assert_eq!(sides[0].readers_left(&held, &[1, 2]), 1);
    sides[2].finish(two);
    assert_eq!(sides[0].readers_left(&held, &[1, 2]), 0);
    assert!(sides[0].unshare(&held));
    sides[0].release(held);
    turn(&mut sides[0]);
    assert_eq!(sides[0].room().0, EXTENT);
    assert!(sides[1].accept_shared(0, &claimed(&name)).is_err());
}

#[test]
fn a_home_that_frees_what_others_read_waits_for_them() {
    let (mut sides, _) = members(2);
    let held = sides[0].allocate(EXTENT, 64, BlockLifetime::Short).unwrap();
    let name = sides[0].share(&held);
    let reading = sides[1].accept_shared(0, &claimed(&name)).unwrap();
    sides[0].release(held);
    assert!(sides[0].allocate(64, 64, BlockLifetime::Short).is_err());
    sides[1].finish(reading);
    turn(&mut sides[0]);
    let held = sides[0].allocate(64, 64, BlockLifetime::Short).unwrap();
    sides[0].release(held);
}

/// What is on its way.
struct Message {
    from: u16,
    to: u16,
    name: BlockName,
}

/// Random lives of four members; the variable asks for more.
fn cases() -> u32 {
    std::env::var("M3_AREA_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]
    /// Blocks go from hand to hand, messages are withdrawn, members die: no two hold the same
    /// bytes, and in the end nothing is lost.
    #[test]
    fn no_block_is_in_two_hands_and_none_is_lost(
        steps in prop::collection::vec((0_u8..20, 0_u16..4, 0_u16..4, 1_u64..9000), 1..250)
    ) {
        let (mut sides, _) = members(4);
        let mut alive = [true; 4];
        let mut hands: Vec<Vec<HeldBlock>> = (0..4).map(|_| Vec::new()).collect();
        let mut mail: Vec<Message> = Vec::new();
        for (step, one, other, bytes) in steps {
            let (at, to) = (usize::from(one), usize::from(other));
            if !alive[at] {
                continue;
            }
            match step {
                0..=5 => {
                    sides[at].mark_events_received();
                    let kind = if bytes % 3 == 0 { BlockLifetime::Long } else { BlockLifetime::Short };
                    if let Ok(held) = sides[at].allocate(bytes, 64, kind) {
                        hands[at].push(held);
                    }
                }
                6..=10 if at != to && alive[to] && !hands[at].is_empty() => {
                    let which = usize::try_from(bytes).unwrap() % hands[at].len();
                    let held = hands[at].swap_remove(which);
                    let name = sides[at].give(held, other).unwrap();
                    mail.push(Message { from: one, to: other, name });
                }
                11..=15 => {
                    if let Some(which) = mail.iter().position(|message| message.to == one) {
                        let message = mail.swap_remove(which);
                        // The sender's home may have died, and with it the block.
                        let held = sides[at].accept(message.from, &claimed(&message.name));
                        hands[at].push(held.unwrap());
                    }
                }
                16 => {
                    if let Some(which) = mail.iter().position(|message| message.from == one) {
                        let message = mail.swap_remove(which);
                        hands[at].push(sides[at].take_back(&message.name).unwrap());
                    }
                }
                17..=18 if !hands[at].is_empty() => {
                    let held = hands[at].pop().unwrap();
                    sides[at].release(held);
                }
                // Number 0 lives on, so that somebody does.
                19 if one != 0 && bytes % 5 == 0 => {
                    alive[at] = false;
                    hands[at].clear();
                    // Nobody takes a message of a dead one.
                    mail.retain(|message| message.to != one && message.from != one);
                    sides.iter_mut().for_each(|side| side.member_left(one));
                }
                _ => {}
            }
            let mut taken: Vec<(u64, u64)> =
                hands.iter().flatten().map(|held| (held.offset(), held.capacity())).collect();
            taken.sort_unstable();
            prop_assert!(taken.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
        }
        // What is still on its way arrives, everybody lets go, and homes look.
        for message in mail {
            let to = usize::from(message.to);
            let held = sides[to].accept(message.from, &claimed(&message.name)).unwrap();
            sides[to].release(held);
        }
        for (side, hand) in sides.iter_mut().zip(hands) {
            hand.into_iter().for_each(|held| side.release(held));
        }
        for (side, alive) in sides.iter_mut().zip(alive) {
            if alive {
                turn(side);
                prop_assert_eq!(side.room(), (EXTENT, EXTENT));
                prop_assert_eq!(side.largest_free(), EXTENT);
            }
        }
    }

    /// Whatever stands in another's ledger and in a name: an answer, no panic, and nothing outside.
    #[test]
    fn garbage_in_ledgers_and_names_is_bounded(
        words in prop::collection::vec(any::<u64>(), NUMBERS as usize * RECORD_WORDS),
        names in prop::collection::vec(any::<[u8; 24]>(), 1..50),
        near in prop::collection::vec((0_u32..70, 0_u32..5, 0_u32..5, 0_u64..70_000), 1..50),
    ) {
        let (mut sides, papers) = members(2);
        for (at, word) in words.iter().enumerate() {
            papers[1].store(at, *word);
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
            if let Ok(held) = sides[0].accept(1, &claimed(&name)) {
                prop_assert!(held.bytes() <= held.capacity());
                prop_assert!(held.offset() >= EXTENT && held.offset() + held.capacity() <= 2 * EXTENT);
                sides[0].release(held);
            }
            if let Ok(reading) = sides[0].accept_shared(1, &claimed(&BlockName { shared: true, ..name })) {
                prop_assert!(reading.offset() + reading.capacity() <= 2 * EXTENT);
                sides[0].finish(reading);
            }
        }
    }
}
