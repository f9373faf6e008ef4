//! Areas between processes: hand-over, sharing, large payloads, rights.

mod absent;
mod handover;
mod rights;
