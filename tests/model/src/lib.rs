//! The oracle of the tests: the rendezvous rules of the contract as one deterministic machine.
//!
//! The oracle is pure: no I/O, no clock, no system call. A test passes in each step and compares
//! the result with real links. The oracle shares no code with the product but the types of
//! `m3ipc-abi`: a rule that both had in common could be wrong in both.
//!
//! | module | content |
//! |---|---|
//! | [`rendezvous`] | all verbs of one VM as one deterministic machine |
//! | [`destination`] | the check of a destination |
//! | [`cycle`] | the check for deadlock |
#![forbid(unsafe_code)]

pub mod cycle;
pub mod destination;
pub mod rendezvous;
