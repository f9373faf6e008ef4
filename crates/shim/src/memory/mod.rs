//! The shared memory of a user's processes: its layout, its file, and locks in it.

pub mod layout;
pub mod lock;
pub mod ring_file;
