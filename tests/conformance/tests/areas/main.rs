//! Areas between processes: hand-over, sharing, large payloads, rights.

mod absent;
mod forks;
mod handover;
mod rights;
