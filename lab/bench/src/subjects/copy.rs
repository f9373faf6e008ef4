//! Blocks of data from one process into another.
//!
//! ```text
//! copy1   requester ──block──> destination                            (M3-IPC's COPY1)
//! copy2   source ──block──> destination, requested by a third process  (its COPY2)
//! stream  requester ──block, block, block──> destination, none awaited
//! ```
//! The time of a copy ends with the requester's knowledge that the destination has the bytes, as
//! vcopy defines it. `stream` gives the byte streams of the kernel their best case. A mechanism
//! without that knowledge gets one small message as an answer. Each block of copy1 and stream has
//! the number of its trip at both ends, which every awake destination checks. The destination
//! checks the last block as a whole. No side touches the bytes in between: a reader pays for that
//! alike in every mechanism.

pub mod block;
mod carried;
mod memcpy;
mod process_vm;
mod vcopy;

use crate::subject::Subject;

/// The subjects, ours first.
pub fn all() -> Vec<&'static dyn Subject> {
    let mut all: Vec<&'static dyn Subject> = vec![];
    all.extend(vcopy::ALL.iter().map(|subject| subject as &dyn Subject));
    all.extend([&memcpy::Memcpy as &dyn Subject, &process_vm::ProcessVm]);
    all.extend(carried::ALL.iter().map(|subject| subject as &dyn Subject));
    all
}

/// The subject for tests, which no plan holds.
pub fn planted() -> &'static dyn Subject {
    &carried::PLANTED
}
