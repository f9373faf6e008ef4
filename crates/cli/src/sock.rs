//! What `m3 sock run` needs to know of a machine: the library, the program, the policy, the counters.

pub mod counters;
pub mod known;
pub mod library;
pub mod policy;
pub mod target;
