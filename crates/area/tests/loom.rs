//! Hand-over under loom: two who accept the same block, and a home that takes it back at
//! the same time, in every interleaving and with every value that a weak memory may show.
//!
//! The steps are m3ipc-area's own, on the checker's words. Each model is run once more with its
//! fence left out: it must fail then, or it proves nothing.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p m3ipc-area --release --test loom
//! ```
#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use m3ipc_abi::Address;
use m3ipc_area::{
    AreaMember, BlockLifetime, BlockName, CLAIM, Claim, ClaimState, ClaimedBlockName, Extent,
    LedgerWords, OwnLedgerWords, RECORD_WORDS,
};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// One record: the models are about one block.
const NUMBERS: u32 = 1;

#[derive(Clone)]
struct Paper {
    words: Arc<[AtomicU64; RECORD_WORDS]>,
    fenced: bool,
}

impl Paper {
    fn new(fenced: bool) -> Self {
        Self { words: Arc::new([(); RECORD_WORDS].map(|()| AtomicU64::new(0))), fenced }
    }
}

impl LedgerWords for Paper {
    fn load(&self, at: usize) -> u64 {
        self.words[at].load(Ordering::Acquire)
    }
}

impl OwnLedgerWords for Paper {
    fn store(&self, at: usize, value: u64) {
        self.words[at].store(value, Ordering::Release);
    }
    fn fence(&self) {
        if self.fenced {
            fence(Ordering::SeqCst);
        }
    }
}

type Member = AreaMember<Paper, Paper>;

fn member(me: u16, papers: &[Paper]) -> Member {
    let mut side = AreaMember::new(1, me, NUMBERS, papers[usize::from(me)].clone());
    for (other, paper) in (0..).zip(papers) {
        side.learn_member(other, Address(i32::from(other)), paper.clone());
    }
    side.learn_extent(Extent {
        home: 0,
        offset: 0,
        bytes: 64,
        first_number: 0,
        numbers: 1,
        generation: 0,
    });
    side
}

fn claimed(name: BlockName) -> ClaimedBlockName {
    ClaimedBlockName::decode(&name.encode()).unwrap()
}

/// A home gives the same block to two, one after the other: at most one keeps it.
fn given_twice(fenced: bool) {
    loom::model(move || {
        let papers: Vec<Paper> = (0..3).map(|_| Paper::new(fenced)).collect();
        let mut home = member(0, &papers);
        let held = home.allocate(64, 64, BlockLifetime::Short).unwrap();
        let name = home.give(held, 1).unwrap();
        let mut two = member(2, &papers);
        let mut one = member(1, &papers);
        let taker = loom::thread::spawn(move || one.accept(0, &claimed(name)).is_ok());
        let giver = papers[0].clone();
        // Against the rules: the one ledger that the giver can write says another thing now.
        let again =
            Claim { state: ClaimState::Given, other: 2, hop: 0, generation: name.generation };
        giver.store(CLAIM, again.encode());
        let second = two.accept(0, &claimed(name)).is_ok();
        let first = taker.join().unwrap();
        assert!(!(first && second), "one block in two hands");
    });
}

/// A giver takes back what a receiver is just accepting: it is with one of them, or with none.
fn taken_back(fenced: bool) {
    loom::model(move || {
        let papers: Vec<Paper> = (0..2).map(|_| Paper::new(fenced)).collect();
        let mut home = member(0, &papers);
        let held = home.allocate(64, 64, BlockLifetime::Short).unwrap();
        let name = home.give(held, 1).unwrap();
        let mut one = member(1, &papers);
        let taker = loom::thread::spawn(move || one.accept(0, &claimed(name)).is_ok());
        let back = home.take_back(&name).is_some();
        assert!(!(taker.join().unwrap() && back), "one block in two hands");
    });
}

/// A home ends the sharing of a block that a reader begins to read just now.
fn unshared(fenced: bool) {
    loom::model(move || {
        let papers: Vec<Paper> = (0..2).map(|_| Paper::new(fenced)).collect();
        let mut home = member(0, &papers);
        let held = home.allocate(64, 64, BlockLifetime::Short).unwrap();
        let name = home.share(&held);
        let mut one = member(1, &papers);
        let reader = loom::thread::spawn(move || one.accept_shared(0, &claimed(name)).is_ok());
        let alone = home.unshare(&held);
        assert!(
            !(reader.join().unwrap() && alone),
            "a block is read that its holder has for itself"
        );
    });
}

/// A home that frees a shared block allocates it anew only where nobody reads it.
fn freed(fenced: bool) {
    loom::model(move || {
        let papers: Vec<Paper> = (0..2).map(|_| Paper::new(fenced)).collect();
        let mut home = member(0, &papers);
        let held = home.allocate(64, 64, BlockLifetime::Short).unwrap();
        let name = home.share(&held);
        let mut one = member(1, &papers);
        let reader = loom::thread::spawn(move || one.accept_shared(0, &claimed(name)).is_ok());
        home.release(held);
        home.mark_events_received();
        let again = home.allocate(64, 64, BlockLifetime::Short).is_ok();
        assert!(!(reader.join().unwrap() && again), "a block is allocated that another reads");
    });
}

fn fails(model: impl Fn()) -> bool {
    catch_unwind(AssertUnwindSafe(model)).is_err()
}

#[test]
fn of_two_at_most_one_has_the_block() {
    given_twice(true);
    taken_back(true);
    unshared(true);
    freed(true);
}

#[test]
fn without_its_fence_each_model_fails() {
    assert!(fails(|| given_twice(false)), "given twice");
    assert!(fails(|| taken_back(false)), "taken back");
    assert!(fails(|| unshared(false)), "unshared");
    assert!(fails(|| freed(false)), "freed");
}
