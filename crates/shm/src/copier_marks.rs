//! The marks of copiers: how a change of a region's table ends what copiers know of it.
//!
//! The order of the steps is in [`crate::region_copier`].

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Looks at a mark before the first sleep.
const LOOKS: u32 = 200;
/// The sleep between later looks.
const SLEEP: Duration = Duration::from_micros(50);

/// Counts the changes of a table that end what copiers know.
#[derive(Debug, Default)]
pub(crate) struct Changes(AtomicU64);

/// The mark of one copier: whether a copy is in progress.
#[derive(Debug, Default)]
pub(crate) struct Mark(AtomicBool);

/// The marks of all copiers of a region. The lock of its table guards the list.
#[derive(Debug, Default)]
pub(crate) struct Marks(Vec<Weak<Mark>>);

impl Changes {
    /// The present count.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Counts a change, and waits until no copy is in progress: steps T1 to T3. The caller holds
    /// the lock of the table.
    pub(crate) fn begin(&self, marks: &Marks) {
        self.0.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst); // pairs with the fence of `RegionCopier::begin`
        for mark in marks.0.iter().filter_map(Weak::upgrade) {
            let mut looks = 0;
            while mark.is_set() {
                looks += 1;
                if looks < LOOKS { m3ipc_sys::relax() } else { std::thread::sleep(SLEEP) }
            }
        }
    }
}

impl Mark {
    /// A copy may begin. A full fence follows, or an unlock of the table.
    #[inline]
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// The copy has ended.
    #[inline]
    pub(crate) fn clear(&self) {
        self.0.store(false, Ordering::Release); // pairs with the load of `is_set`
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Marks {
    /// A mark for a new copier.
    pub(crate) fn add(&mut self) -> Arc<Mark> {
        let mark = Arc::default();
        self.0.retain(|known| known.strong_count() > 0);
        self.0.push(Arc::downgrade(&mark));
        mark
    }
}
