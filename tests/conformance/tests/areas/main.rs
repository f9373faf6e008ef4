//! Areas between processes: hand-over, sharing, large payloads, rights.

mod handover;
mod rights;
