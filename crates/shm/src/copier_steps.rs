//! The steps by which copies without a lock and changes of a region's table exclude each other.
//!
//! ```text
//! copier                                        change of the table, under its lock
//! C1. mark: a copy is in progress               T1. count the change
//! C2. a locked update of another word           T2. full fence
//! C3. read the count: as at the last look?      T3. wait until no mark is set
//!     no: look at the table, under its lock     T4. change the table
//! C4. copy; clear the mark
//! ```
//!
//! C2 is a full fence between C1 and C3. So a copier sees the changed count, or the change waits
//! for the copy. The update of C2 is one that a copy needs in any case: that of its party's copy
//! gate.
//!
//! A change waits while a copy is in progress, as it would at the lock of the table. It sleeps
//! between its looks: the copier may have a lower priority, on the same CPU.
//!
//! The steps are generic over their words: `region_copier` runs them on those of the
//! processor, `tests/loom.rs` on those of a model checker.

use core::fmt::Debug;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::Arc;
use std::time::Duration;

/// Looks at a mark before the first sleep.
const LOOKS: u32 = 200;
/// The sleep between later looks.
const SLEEP: Duration = Duration::from_micros(50);

/// The word of a mark.
pub trait Flag: Debug + Default {
    /// Loads the value.
    fn load(&self, order: Ordering) -> bool;
    /// Stores a value.
    fn store(&self, value: bool, order: Ordering);
    /// A full fence between the store before a sequentially consistent exchange of another word and
    /// the loads after it.
    fn fence_after_exchange();
    /// A pause of a change that has looked so often at a set mark.
    fn pause(looks: u32);
}

/// The word of a count.
pub trait Count: Debug + Default {
    /// Loads the value.
    fn load(&self, order: Ordering) -> u64;
    /// Adds one.
    fn increment(&self, order: Ordering);
    /// A full fence.
    fn fence();
}

impl Flag for AtomicBool {
    #[inline(always)]
    fn load(&self, order: Ordering) -> bool {
        Self::load(self, order)
    }
    #[inline(always)]
    fn store(&self, value: bool, order: Ordering) {
        Self::store(self, value, order);
    }
    #[inline(always)]
    fn fence_after_exchange() {
        fence_after_exchange();
    }
    fn pause(looks: u32) {
        if looks < LOOKS { m3ipc_sys::relax() } else { std::thread::sleep(SLEEP) }
    }
}

impl Count for AtomicU64 {
    #[inline(always)]
    fn load(&self, order: Ordering) -> u64 {
        Self::load(self, order)
    }
    fn increment(&self, order: Ordering) {
        self.fetch_add(1, order);
    }
    fn fence() {
        fence(Ordering::SeqCst);
    }
}

/// On x86-64 the exchange is a full fence, also if it fails.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn fence_after_exchange() {
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
fn fence_after_exchange() {
    fence(Ordering::SeqCst);
}

/// Counts the changes of a table that end what copiers know.
#[derive(Debug, Default)]
pub struct Changes<C = AtomicU64>(C);

/// The mark of one copier.
#[derive(Debug, Default)]
struct Mark<F> {
    /// Whether a copy is in progress.
    is_copying: F,
    /// Whether the copier has ended.
    has_ended: F,
}

/// The marks of all copiers of a region. The lock of its table guards the list.
///
/// A change looks at the mark of a copier that has ended, too: its last copy must come before the
/// change. The list forgets a mark only after a look that shows all copies of its copier.
#[derive(Debug)]
pub struct Marks<F = AtomicBool>(Vec<Arc<Mark<F>>>);

/// A range of which no part is used, by the table as it was at this count of changes.
#[derive(Clone, Copy, Debug)]
struct Unused {
    changes: u64,
    from: usize,
    end: usize,
    /// Whether the range may be written too.
    write: bool,
}

/// One copier: its mark, and what it knows of the table.
#[derive(Debug)]
pub struct CopierSteps<F: Flag = AtomicBool> {
    mark: Arc<Mark<F>>,
    unused: Option<Unused>,
}

impl<C: Count> Changes<C> {
    /// The present count.
    #[inline(always)]
    fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Counts a change, and waits until no copy is in progress: steps T1 to T3. The caller holds
    /// the lock of the table.
    pub fn begin<F: Flag>(&self, marks: &Marks<F>) {
        self.0.increment(Ordering::SeqCst);
        C::fence(); // pairs with the fence of `CopierSteps::begin`
        for mark in &marks.0 {
            let mut looks = 0;
            while mark.is_set() {
                looks += 1;
                F::pause(looks);
            }
        }
    }

    /// Whether there was a change.
    #[cfg(test)]
    pub(crate) fn has_begun(&self) -> bool {
        self.count() != 0
    }
}

impl<F: Flag> Mark<F> {
    /// A copy may begin. A full fence follows, or an unlock of the table.
    #[inline(always)]
    fn set(&self) {
        self.is_copying.store(true, Ordering::Relaxed);
    }

    /// The copy has ended.
    #[inline(always)]
    fn clear(&self) {
        self.is_copying.store(false, Ordering::Release); // pairs with the load of `is_set`
    }

    fn is_set(&self) -> bool {
        self.is_copying.load(Ordering::Acquire)
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire) // pairs with the store of `drop`
    }
}

impl<F> Default for Marks<F> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<F: Flag> Marks<F> {
    /// A new copier.
    pub fn add(&mut self) -> CopierSteps<F> {
        let mark = Arc::default();
        self.0.retain(|known| !known.has_ended());
        self.0.push(Arc::clone(&mark));
        CopierSteps { mark, unused: None }
    }
}

impl<F: Flag> CopierSteps<F> {
    /// Begins a copy, by a sequentially consistent exchange of another word: steps C1 and C2.
    #[inline(always)]
    pub fn begin<R>(&mut self, exchange: impl FnOnce() -> R) -> R {
        self.mark.set();
        let result = exchange();
        F::fence_after_exchange(); // pairs with the fence of `Changes::begin`
        result
    }

    /// Step C3: whether this range is one of which no part is used, at the present count of
    /// changes.
    #[inline(always)]
    pub fn knows<C: Count>(
        &self,
        changes: &Changes<C>,
        (at, end): (usize, usize),
        write: bool,
    ) -> bool {
        self.unused.as_ref().is_some_and(|unused| {
            unused.from <= at
                && end <= unused.end
                && (unused.write || !write)
                && changes.count() == unused.changes
        })
    }

    /// Looks at the table for a range of which no part is used. `false` if the table has none; the
    /// copier knows nothing then.
    pub fn look<C: Count, T>(
        &mut self,
        changes: &Changes<C>,
        lock: impl FnOnce() -> T,
        unused: impl FnOnce(&T) -> Option<(usize, usize)>,
        write: bool,
    ) -> bool {
        self.unused = None;
        // A change of the table waits for the mark, under the lock.
        self.mark.clear();
        let table = lock();
        self.mark.set();
        let Some((from, end)) = unused(&table) else { return false };
        self.unused = Some(Unused { changes: changes.count(), from, end, write });
        // The next change of the table comes after the unlock, and finds the mark.
        drop(table);
        true
    }

    /// Ends the copy: step C4.
    #[inline(always)]
    pub fn end(&mut self) {
        self.mark.clear();
    }
}

impl<F: Flag> Drop for CopierSteps<F> {
    fn drop(&mut self) {
        self.mark.has_ended.store(true, Ordering::Release); // pairs with the load of `has_ended`
    }
}
