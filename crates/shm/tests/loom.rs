//! Copies without a lock under loom, in every interleaving and with every value that a weak memory
//! may show.
//!
//! The models run the steps of [`m3ipc_shm::copier_steps`] on the words of the checker. A range is
//! a cell whose accesses loom compares: a copy and a use of a leased range must come one after the
//! other. Each model runs again with one mistake planted in a word, or in the caller. It must fail
//! then; otherwise it proves nothing.
//!
//! Limit: loom treats a sequentially consistent exchange as an acquire and release one. So the
//! models have the fence behind it that other processors than x86-64 need.
#![cfg(not(miri))]

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, fence};
use loom::sync::{Arc, Mutex, MutexGuard};
use loom::thread;
use m3ipc_shm::copier_steps::{Changes, CopierSteps, Count, Flag, Marks};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

/// What is wrong in a run of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    /// C1 is missing.
    NoMark,
    /// C1 after C2.
    MarkAfterExchange,
    /// C2 is no full fence.
    NoFenceOfCopier,
    /// T1 is missing.
    NoCount,
    /// T2 is missing.
    NoFenceOfChange,
    /// T3 is missing.
    NoWait,
    /// T3 without its acquire order.
    RelaxedWait,
    /// C4 without its release order.
    RelaxedEnd,
    /// The mark is cleared before the copy.
    CopyAfterEnd,
    /// The copier looks at the table without its lock.
    LookWithoutLock,
    /// The change gives the lock back after it has begun.
    UnlockedChange,
}

thread_local! {
    /// All threads of a model run in one thread of the system.
    static MISTAKE: Cell<Mistake> = const { Cell::new(Mistake::None) };
}

fn is(mistake: Mistake) -> bool {
    MISTAKE.get() == mistake
}

#[derive(Debug, Default)]
struct ModelFlag(AtomicBool);

impl Flag for ModelFlag {
    fn load(&self, order: Ordering) -> bool {
        let order = if is(Mistake::RelaxedWait) { Ordering::Relaxed } else { order };
        self.0.load(order) && !is(Mistake::NoWait)
    }
    fn store(&self, value: bool, order: Ordering) {
        let order = if is(Mistake::RelaxedEnd) { Ordering::Relaxed } else { order };
        self.0.store(value && !is(Mistake::NoMark), order);
    }
    fn fence_after_exchange() {
        if !is(Mistake::NoFenceOfCopier) && !is(Mistake::MarkAfterExchange) {
            fence(Ordering::SeqCst);
        }
    }
    fn pause(_looks: u32) {
        thread::yield_now();
    }
}

#[derive(Debug, Default)]
struct ModelCount(AtomicU64);

impl Count for ModelCount {
    fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }
    fn increment(&self, order: Ordering) {
        if !is(Mistake::NoCount) {
            self.0.fetch_add(1, order);
        }
    }
    fn fence() {
        if !is(Mistake::NoFenceOfChange) {
            fence(Ordering::SeqCst);
        }
    }
}

#[derive(Default)]
struct Table {
    is_leased: bool,
    marks: Marks<ModelFlag>,
}

/// A region with one range.
struct Region {
    table: Mutex<Table>,
    changes: Changes<ModelCount>,
    /// The bytes of the range.
    bytes: UnsafeCell<()>,
}

const RANGE: (usize, usize) = (0, 64);
const PARKED: u32 = 1;
const COPYING: u32 = 2;

impl Region {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            table: Mutex::default(),
            changes: Changes::default(),
            bytes: UnsafeCell::new(()),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("no thread panics")
    }

    /// Writes the range, as a copier or as the holder of its lease.
    fn write(&self) {
        self.bytes.with_mut(|_bytes| ());
    }

    fn copier(&self) -> CopierSteps<ModelFlag> {
        self.lock().marks.add()
    }

    fn look(&self, copier: &mut CopierSteps<ModelFlag>) -> bool {
        let unused = |is_leased: bool| (!is_leased).then_some(RANGE);
        if is(Mistake::LookWithoutLock) {
            let seen = || self.lock().is_leased;
            return copier.look(&self.changes, seen, |is_leased| unused(*is_leased), true);
        }
        let unused = |table: &MutexGuard<'_, Table>| unused(table.is_leased);
        copier.look(&self.changes, || self.lock(), unused, true)
    }

    /// One copy through the gate of a party. Returns whether it was made.
    fn copy(&self, copier: &mut CopierSteps<ModelFlag>, gate: &AtomicU32) -> bool {
        let exchange =
            || gate.compare_exchange(PARKED, COPYING, Ordering::SeqCst, Ordering::SeqCst);
        let admitted = if is(Mistake::MarkAfterExchange) {
            let admitted = exchange();
            fence(Ordering::SeqCst);
            copier.begin(|| admitted)
        } else {
            copier.begin(exchange)
        };
        admitted.expect("one copier, and a parked party");
        let is_unused = copier.knows(&self.changes, RANGE, true) || self.look(copier);
        if is(Mistake::CopyAfterEnd) {
            copier.end();
        }
        if is_unused {
            self.write();
        }
        copier.end();
        gate.swap(PARKED, Ordering::AcqRel);
        is_unused
    }

    /// Leases the range, uses it, and ends the lease.
    fn use_leased(&self) {
        let mut table = self.lock();
        self.changes.begin(&table.marks);
        if is(Mistake::UnlockedChange) {
            drop(table);
            table = self.lock();
        }
        table.is_leased = true;
        drop(table);
        self.write();
        // The end of a lease is no change: what a copier knows stays true.
        self.lock().is_leased = false;
    }
}

/// A copier that knows the range, beside a lease of the range.
fn known() {
    copies_beside_leases(true, 1, 1);
}

/// A copier that has to look at the table first.
fn unknown() {
    copies_beside_leases(false, 1, 1);
}

/// A copier that copies again after a lease has ended what it knew.
fn again() {
    copies_beside_leases(true, 2, 1);
}

/// A copier that copies and ends, and another one that takes its place before the lease.
fn replaced() {
    let region = Region::new();
    let (mut copier, gate) = (region.copier(), AtomicU32::new(PARKED));
    let copied = Arc::clone(&region);
    let copying = thread::spawn(move || copied.copy(&mut copier, &gate));
    let _other = region.copier();
    region.use_leased();
    copying.join().expect("the copier ends");
}

/// A copier beside two leases, one after the other.
fn two_leases() {
    copies_beside_leases(true, 1, 2);
}

fn copies_beside_leases(is_known: bool, copies: u32, leases: u32) {
    let region = Region::new();
    let (mut copier, gate) = (region.copier(), AtomicU32::new(PARKED));
    if is_known {
        copier.begin(|| ());
        assert!(region.look(&mut copier), "nothing is leased");
        copier.end();
    }
    let copied = Arc::clone(&region);
    let copying = thread::spawn(move || {
        for _copy in 0..copies {
            copied.copy(&mut copier, &gate);
        }
    });
    for _lease in 0..leases {
        region.use_leased();
    }
    copying.join().expect("the copier ends");
}

/// Preemptions of each run; the environment can ask for more.
const PREEMPTIONS: usize = 3;

fn run(model: fn(), mistake: Mistake) -> Result<(), String> {
    // The mistake is a state of the thread.
    let exploring = std::thread::spawn(move || {
        MISTAKE.set(mistake);
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound.get_or_insert(PREEMPTIONS);
        let checked = catch_unwind(AssertUnwindSafe(|| builder.check(model)));
        checked.map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                .unwrap_or_default()
        })
    });
    exploring.join().expect("panics are caught inside")
}

macro_rules! models {
    ($($model:ident)*) => {
        mod holds {
            $(
                #[test]
                fn $model() {
                    assert_eq!(super::run(super::$model, super::Mistake::None), Ok(()));
                }
            )*
        }
    };
}

models! { known unknown again replaced two_leases }

macro_rules! mistakes {
    ($($test:ident: $mistake:ident, $model:ident;)*) => {
        /// Each mistake is found: a copy beside a use of the leased range.
        mod fails {
            $(
                #[test]
                fn $test() {
                    let found = super::run(super::$model, super::Mistake::$mistake);
                    let found = found.expect_err("the model does not notice the mistake");
                    println!("{found}");
                    assert!(found.contains("Causality violation"), "another failure: {found}");
                }
            )*
        }
    };
}

mistakes! {
    a_copy_without_a_mark: NoMark, known;
    a_mark_after_the_exchange: MarkAfterExchange, known;
    an_exchange_that_is_no_fence: NoFenceOfCopier, known;
    a_change_that_is_not_counted: NoCount, again;
    a_change_without_a_fence: NoFenceOfChange, known;
    a_change_that_does_not_wait: NoWait, known;
    a_wait_without_its_order: RelaxedWait, known;
    an_end_without_its_order: RelaxedEnd, known;
    an_end_before_the_copy: CopyAfterEnd, known;
    an_end_of_a_copier_without_its_order: RelaxedEnd, replaced;
    a_look_without_the_lock: LookWithoutLock, unknown;
    a_change_that_gives_the_lock_back: UnlockedChange, unknown;
}
