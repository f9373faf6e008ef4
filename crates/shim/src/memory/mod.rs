//! The shared memory: its layout, its files, their mappings, and locks in it.

pub mod layout;
pub mod lock;
pub mod user_directory;
pub mod window;
