//! Children that have the memory of this process, but not its descriptors: those of a vfork, and of
//! a clone like it.
//!
//! Such a child writes nothing of what the library keeps for descriptors. Its thread-local storage
//! may be a block of any content that the program chose. So a child is known by the word of its
//! storage, and reads no thread-local variable. The word is the child's alone, since the thread
//! that called vfork sleeps.

use crate::kernel::thread::storage_word;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Children at one time that are known.
const CHILDREN_MAX: usize = 64;
/// Set in the word of each child, so that no word is 0.
const IS_CHILD: usize = 1;
/// Set where the child has limited its own system calls.
const IS_LIMITED: usize = 2;

static COUNT: AtomicU32 = AtomicU32::new(0);
/// The words of the children; 0 is none. A word of storage is an address, whose low bits are free.
static CHILDREN: [AtomicUsize; CHILDREN_MAX] = [const { AtomicUsize::new(0) }; CHILDREN_MAX];

fn key(word: usize) -> usize {
    word & !IS_LIMITED | IS_CHILD
}

/// The entry of the calling child.
#[inline]
fn own() -> Option<&'static AtomicUsize> {
    if COUNT.load(Ordering::Relaxed) == 0 { None } else { find(key(storage_word())) }
}

#[cold]
fn find(key: usize) -> Option<&'static AtomicUsize> {
    CHILDREN.iter().find(|child| child.load(Ordering::Relaxed) & !IS_LIMITED == key)
}

/// Whether this is such a child.
#[inline]
#[must_use]
pub fn in_child() -> bool {
    own().is_some()
}

/// Whether this is a child that has limited its own system calls. Its parent has no such limit.
#[must_use]
pub fn is_limited_child() -> bool {
    own().is_some_and(|child| child.load(Ordering::Relaxed) & IS_LIMITED != 0)
}

/// Says whether this child has limited its system calls.
pub fn set_limited(on: bool) {
    if let Some(child) = own() {
        let word = child.load(Ordering::Relaxed);
        child.store(if on { word | IS_LIMITED } else { word & !IS_LIMITED }, Ordering::Relaxed);
    }
}

/// A child is about to begin, whose storage has this word.
pub fn enter(word: usize) {
    for child in &CHILDREN {
        if child.compare_exchange(0, key(word), Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            COUNT.fetch_add(1, Ordering::Relaxed);
            return;
        }
    }
}

/// The child with this word has ended, or executed another program.
pub fn leave(word: usize) {
    if let Some(child) = find(key(word))
        && child.swap(0, Ordering::Relaxed) != 0
    {
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// In a child by fork, which has memory of its own.
pub fn forget_all() {
    if COUNT.swap(0, Ordering::Relaxed) != 0 {
        CHILDREN.iter().for_each(|child| child.store(0, Ordering::Relaxed));
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Runs a test as such a child.
    pub(crate) fn as_child(act: impl FnOnce()) {
        enter(storage_word());
        act();
        leave(storage_word());
    }

    #[test]
    fn the_parent_is_itself_again_afterwards() {
        as_child(|| {
            assert!(in_child() && !is_limited_child());
            set_limited(true);
            assert!(in_child() && is_limited_child());
            std::thread::scope(|scope| {
                scope.spawn(|| assert!(!in_child(), "another thread"));
            });
            // A child of the child.
            as_child(|| assert!(in_child()));
            assert!(in_child());
        });
        assert!(!in_child() && !is_limited_child());
        set_limited(true);
        assert!(!in_child());
    }
}
