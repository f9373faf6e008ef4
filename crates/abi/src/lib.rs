//! What every part of m3ipc agrees on: ids, codes, limits and records.
//!
//! No system call, no allocation, no policy; the numbers are those of the
//! contract (Minix 3, M3-IPC and its later releases) and never change.
#![no_std]

mod code;
mod endpoint;
mod limits;
mod message;

pub use code::Code;
pub use endpoint::{ANY, Address, CLOCK, HARDWARE, NONE, SELF, SYSTEM, Slot};
pub use limits::{
    BLOCK_NAME_BYTES, FIRST_USER_SLOT, GENERATION_MAX, GENERATION_SIZE, LARGE_MAX_BYTES,
    LONG_MAX_BYTES, NAME_MAX_BYTES, NodeLimits, SYSTEM_SLOTS, VM_NAME_MAX_BYTES, VmLimits,
};
pub use message::{MESSAGE_BYTES, Message, NOTIFY_MESSAGE, PAYLOAD_BYTES};
