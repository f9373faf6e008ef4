//! The log: lines on standard error.

use std::io::Write;

/// Writes a line to standard error. A closed one leaves no other channel.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "m3-supervise: {line}");
}
