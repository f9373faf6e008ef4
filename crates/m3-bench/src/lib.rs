//! Benchmarks.
pub mod clock;
pub mod error;
pub mod job;
pub mod mechanism;
pub mod ours;
pub mod payload;
pub mod peer;
pub mod place;
pub mod raw;
pub mod stats;
pub mod measure;
pub mod supervise;
