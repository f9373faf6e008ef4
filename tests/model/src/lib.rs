//! The pure rules of m3ipc: tables, rendezvous order, death, deadlock.
//!
//! No I/O, no clock, no system call: who asks, what time it is and who died
//! are told from outside, so that every rule can be tested by itself and the
//! same rules serve twice.
//!
//! | module | what it is | who uses it |
//! |---|---|---|
//! | [`tables`] | VMs, slots, names, waits, privileges, links | the node daemon, as its only state |
//! | [`deadlock`] | who closes a circle of waiting endpoints | the daemon and [`rendezvous`] |
//! | [`rendezvous`] | all verbs of one VM as one deterministic machine | the tests, as their oracle |
#![forbid(unsafe_code)]

pub mod deadlock;
pub mod rendezvous;
pub mod tables;
