//! Hand-over under loom, in every interleaving and with every value that a weak memory may show.
//!
//! The models run the steps of m3ipc-area itself, on the words of the checker. Each model runs once
//! more without its fence. It must fail then; otherwise it proves nothing.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use m3ipc_abi::{Address, Extent};
use m3ipc_area::{
    AreaMember, BlockLifetime, BlockName, CLAIM, Claim, ClaimState, ClaimedBlockName, LedgerWords,
    OwnLedgerWords, RECORD_WORDS, is_in_use,
};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// One record: each model is about one block.
const NUMBERS: u32 = 1;

#[derive(Clone)]
struct ModelLedger {
    words: Arc<[AtomicU64; RECORD_WORDS]>,
    fenced: bool,
}

impl ModelLedger {
    fn new(fenced: bool) -> Self {
        Self { words: Arc::new([(); RECORD_WORDS].map(|()| AtomicU64::new(0))), fenced }
    }
}

impl LedgerWords for ModelLedger {
    fn load(&self, at: usize) -> u64 {
        self.words[at].load(Ordering::Acquire)
    }
}

impl OwnLedgerWords for ModelLedger {
    fn store(&self, at: usize, value: u64) {
        self.words[at].store(value, Ordering::Release);
    }
    fn fence(&self) {
        if self.fenced {
            fence(Ordering::SeqCst);
        }
    }
}

type Member = AreaMember<ModelLedger, ModelLedger>;

fn ledgers(count: usize, fenced: bool) -> Vec<ModelLedger> {
    (0..count).map(|_| ModelLedger::new(fenced)).collect()
}

fn member(index: u16, ledgers: &[ModelLedger]) -> Member {
    let mut member = AreaMember::new(1, index, NUMBERS, ledgers[usize::from(index)].clone());
    for (other, ledger) in (0..).zip(ledgers) {
        member.learn_member(other, Address(i32::from(other)), ledger.clone());
    }
    member.learn_extent(Extent {
        allocator: 0,
        offset: 0,
        bytes: 64,
        first_number: 0,
        numbers: 1,
        generation: 0,
    });
    member
}

fn claimed(name: BlockName) -> ClaimedBlockName {
    ClaimedBlockName::decode(&name.encode()).expect("the name of a block")
}

/// An allocator member gives one block to two members in turn. At most one of them keeps it.
fn given_twice(fenced: bool) {
    let ledgers = ledgers(3, fenced);
    let mut allocator = member(0, &ledgers);
    let held = allocator.allocate(64, 64, BlockLifetime::Short).expect("an empty extent");
    let name = allocator.give(held, 1).expect("the first hop");
    let mut two = member(2, &ledgers);
    let mut one = member(1, &ledgers);
    let receiver = loom::thread::spawn(move || one.accept(0, &claimed(name)).is_ok());
    // Against the rules: the giver changes its claim in the ledger that it writes.
    let again = Claim { state: ClaimState::Given, other: 2, hop: 0, generation: name.generation };
    ledgers[0].store(CLAIM, again.encode());
    let second = two.accept(0, &claimed(name)).is_ok();
    let first = receiver.join().expect("the receiver ends");
    assert!(!(first && second), "one block has two holders");
}

/// A giver takes a block back while the receiver accepts it. At most one of them has it.
fn taken_back(fenced: bool) {
    let ledgers = ledgers(2, fenced);
    let mut allocator = member(0, &ledgers);
    let held = allocator.allocate(64, 64, BlockLifetime::Short).expect("an empty extent");
    let name = allocator.give(held, 1).expect("the first hop");
    let mut one = member(1, &ledgers);
    let receiver = loom::thread::spawn(move || one.accept(0, &claimed(name)).is_ok());
    let back = allocator.take_back(&name).is_some();
    let accepted = receiver.join().expect("the receiver ends");
    assert!(!(accepted && back), "one block has two holders");
}

/// The allocator member is dead. The receiver dies, and a giver takes the block back while the
/// daemon scans for orphans. The daemon frees no block that the giver keeps.
fn taken_back_from_the_dead(fenced: bool) {
    // The daemon reads as a further member that holds nothing.
    let ledgers = ledgers(4, fenced);
    let mut allocator = member(0, &ledgers);
    let held = allocator.allocate(64, 64, BlockLifetime::Short).expect("an empty extent");
    let name = allocator.give(held, 1).expect("the first hop");
    let mut giver = member(1, &ledgers);
    let held = giver.accept(0, &claimed(name)).expect("a block for this member");
    let name = giver.give(held, 2).expect("the second hop");
    giver.member_left(0);
    let deaths = Arc::new(AtomicU64::new(0));
    let announced = Arc::clone(&deaths);
    let daemon = loom::thread::spawn(move || {
        let mut scanner = member(3, &ledgers);
        scanner.member_left(0);
        scanner.member_left(2);
        announced.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        is_in_use(&scanner, 0, 0..NUMBERS)
    });
    let learn = |giver: &mut Member| {
        if deaths.load(Ordering::SeqCst) == 1 {
            giver.member_left(2);
        }
    };
    learn(&mut giver);
    let returned = giver.take_back(&name);
    learn(&mut giver);
    let is_kept = returned.is_some_and(|returned| giver.is_returned(&returned));
    let is_used = daemon.join().expect("the scan ends");
    assert!(is_used || !is_kept, "a freed block has a holder");
}

/// An allocator member frees a block, as the receiver is dead, while the giver takes it back.
fn taken_back_from_the_allocator(fenced: bool) {
    let ledgers = ledgers(3, fenced);
    let mut allocator = member(0, &ledgers);
    let held = allocator.allocate(64, 64, BlockLifetime::Short).expect("an empty extent");
    let name = allocator.give(held, 1).expect("the first hop");
    let mut giver = member(1, &ledgers);
    let held = giver.accept(0, &claimed(name)).expect("a block for this member");
    let name = giver.give(held, 2).expect("the second hop");
    allocator.member_left(2);
    let sweeper = loom::thread::spawn(move || {
        allocator.sweep_all();
        allocator.mark_events_received();
        allocator.sweep_all();
        allocator.blocks_away() == 0
    });
    let is_kept = giver.take_back(&name).is_some();
    let is_free = sweeper.join().expect("the sweep ends");
    assert!(!(is_free && is_kept), "a freed block has a holder");
}

/// A holder ends the sharing of a block while a reader begins to read it.
fn unshared(fenced: bool) {
    let ledgers = ledgers(2, fenced);
    let mut allocator = member(0, &ledgers);
    let held = allocator.allocate(64, 64, BlockLifetime::Short).expect("an empty extent");
    let name = allocator.share(&held);
    let mut one = member(1, &ledgers);
    let reader = loom::thread::spawn(move || one.accept_shared(0, &claimed(name)).is_ok());
    let exclusive = allocator.unshare(&held);
    let reads = reader.join().expect("the reader ends");
    assert!(!(reads && exclusive), "a member reads a block that its holder has exclusively");
}

/// An allocator member frees a shared block. It allocates the block anew only without a reader.
fn freed(fenced: bool) {
    let ledgers = ledgers(2, fenced);
    let mut allocator = member(0, &ledgers);
    let held = allocator.allocate(64, 64, BlockLifetime::Short).expect("an empty extent");
    let name = allocator.share(&held);
    let mut one = member(1, &ledgers);
    let reader = loom::thread::spawn(move || one.accept_shared(0, &claimed(name)).is_ok());
    allocator.release(held);
    allocator.mark_events_received();
    let again = allocator.allocate(64, 64, BlockLifetime::Short).is_ok();
    let reads = reader.join().expect("the reader ends");
    assert!(!(reads && again), "a block is allocated that another member reads");
}

fn holds(model: fn(bool)) {
    loom::model(move || model(true));
}

fn fails_without_its_fence(model: fn(bool)) {
    let run = AssertUnwindSafe(|| loom::model(move || model(false)));
    assert!(catch_unwind(run).is_err(), "the model does not notice the missing fence");
}

macro_rules! models {
    ($($model:ident)*) => {$(
        mod $model {
            #[test]
            #[cfg_attr(miri, ignore = "loom switches stacks by assembly")]
            fn holds() {
                super::holds(super::$model);
            }

            #[test]
            #[cfg_attr(miri, ignore = "loom switches stacks by assembly")]
            fn fails_without_its_fence() {
                super::fails_without_its_fence(super::$model);
            }
        }
    )*};
}

models! {
    given_twice taken_back taken_back_from_the_dead taken_back_from_the_allocator unshared freed
}
