//! The ids, codes, limits and records on which all parts of m3ipc agree.
//!
//! This crate makes no system call, allocates nothing and has no policy. The numbers are those of
//! the contract (Minix 3, M3-IPC and its later releases) and never change.
#![no_std]
#![forbid(unsafe_code)]

mod code;
mod endpoint;
mod extent;
mod limits;
mod message;
mod verb;
mod wait_state;

pub use code::Code;
pub use endpoint::{ANY, Address, CLOCK, HARDWARE, NONE, SELF, SYSTEM, Slot};
pub use extent::Extent;
pub use limits::{
    BLOCK_NAME_BYTES, FIRST_USER_SLOT, FOREIGN_RANGES_MAX, GENERATION_MAX, GENERATION_SIZE,
    LARGE_MAX_BYTES, LONG_MAX_BYTES, NAME_MAX_BYTES, NodeLimits, RECEIVE_LIMIT_BYTES, SYSTEM_SLOTS,
    VM_NAME_MAX_BYTES, VmLimits,
};
pub use message::{MESSAGE_BYTES, Message, NOTIFY_MESSAGE, PAYLOAD_BYTES, PULSE_MESSAGE};
pub use verb::Verb;
pub use wait_state::WaitState;
