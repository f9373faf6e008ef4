//! The exported functions, by family.

mod data;
mod epoll;
mod files;
mod life;
mod list;
mod many;
mod option;
pub mod process;
mod ready;
pub mod signal;
mod spawn;
mod stdio;
mod syscall;
mod target;
mod uring;

use core::cell::Cell;
pub use stdio::Functions;

thread_local! {
    static VFORK: Cell<bool> = const { Cell::new(false) };
}

/// Whether this is the child of a vfork: its memory is its parent's, its descriptors are not.
pub fn in_vfork() -> bool {
    VFORK.get()
}

/// What the assembly needs, looked up before the program starts.
pub fn look_up() {
    stdio::look_up();
}
