//! The parts of `m3 sock run`: the library, the program, the policy, the counters.

pub mod counters;
pub mod executable;
pub mod library;
pub mod policy;
