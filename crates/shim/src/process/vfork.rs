//! Whether this is the child of a vfork: its memory is its parent's, its descriptors are not.
//!
//! Such a child writes nothing of what the library keeps for descriptors.

use core::cell::Cell;

thread_local! {
    static IN_CHILD: Cell<bool> = const { Cell::new(false) };
    static IS_LIMITED: Cell<bool> = const { Cell::new(false) };
}

/// Whether the current thread is the child of a vfork.
#[must_use]
pub fn in_child() -> bool {
    IN_CHILD.get()
}

/// Whether the current thread is the child of a vfork that has limited its own system calls. Its
/// parent has no such limit.
#[must_use]
pub fn is_limited_child() -> bool {
    IS_LIMITED.get()
}

/// Says whether this child has limited its system calls.
pub fn set_limited(on: bool) {
    IS_LIMITED.set(on);
}

/// The parent is about to call vfork: the child comes back first.
pub fn enter() {
    IN_CHILD.set(true);
}

/// The parent has come back, or a child by fork has memory of its own.
pub fn leave() {
    IN_CHILD.set(false);
    IS_LIMITED.set(false);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_itself_again_afterwards() {
        enter();
        set_limited(true);
        assert!(in_child() && is_limited_child());
        leave();
        assert!(!in_child() && !is_limited_child());
    }
}
