//! Whether this is the child of a vfork: its memory is its parent's, its descriptors are not.
//!
//! Such a child writes nothing of what the library keeps for descriptors. It only remembers, in a
//! few cells of its thread, which sockets it duplicated before its exec.

use core::cell::Cell;

/// Sockets that the child may have duplicated.
const DUPLICATES_MAX: usize = 8;
const NO_FD: i32 = -1;

thread_local! {
    static IN_CHILD: Cell<bool> = const { Cell::new(false) };
    static DUPLICATES: [Cell<i32>; DUPLICATES_MAX] =
        const { [const { Cell::new(NO_FD) }; DUPLICATES_MAX] };
}

/// Whether the current thread is the child of a vfork.
#[must_use]
pub fn in_child() -> bool {
    IN_CHILD.get()
}

/// The parent is about to call vfork: the child comes back first.
pub fn enter() {
    DUPLICATES.with(|cells| cells.iter().for_each(|cell| cell.set(NO_FD)));
    IN_CHILD.set(true);
}

/// The parent has come back, or a child by fork has memory of its own.
pub fn leave() {
    IN_CHILD.set(false);
}

/// Remembers a socket that the child duplicated; `false` where all cells are taken.
#[must_use]
pub fn remember_duplicate(fd: i32) -> bool {
    DUPLICATES.with(|cells| {
        let free = cells.iter().find(|cell| cell.get() == NO_FD);
        free.map(|cell| cell.set(fd)).is_some()
    })
}

/// The sockets that the child duplicated.
#[must_use]
pub fn duplicates() -> [Option<i32>; DUPLICATES_MAX] {
    DUPLICATES
        .with(|cells| core::array::from_fn(|at| Some(cells[at].get()).filter(|fd| *fd != NO_FD)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_remembered_until_the_next_vfork() {
        enter();
        assert!(in_child());
        assert!((0..8).all(remember_duplicate) && !remember_duplicate(8));
        assert_eq!(duplicates()[7], Some(7));
        enter();
        assert!(duplicates().iter().all(Option::is_none));
        leave();
        assert!(!in_child());
    }
}
