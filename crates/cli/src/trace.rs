//! The output of `m3 trace`: a line per message, sums at the end, files for other tools.
//!
//! ```text
//! command/trace ── tracer ── event: the messages of one poll, in order of time
//!                    ├ line: text of a message       ├ statistics: histograms, slowest calls
//!                    ├ names: names of endpoints     └ file ── perfetto (JSON), pcapng
//!                    └ cost: the price of tracing
//! ```

mod cost;
mod event;
mod file;
mod line;
mod names;
mod pcapng;
mod perfetto;
mod statistics;
pub mod tracer;
