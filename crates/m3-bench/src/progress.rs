//! What is being measured, on standard error: one line that changes on a
//! terminal, one line per test elsewhere.

use std::io::{IsTerminal, Write};

/// How far a run is.
pub struct Progress {
    terminal: bool,
    done: usize,
    total: usize,
    test: String,
}

impl Progress {
    /// A run of so many measurements.
    #[must_use]
    pub fn new(total: usize) -> Self {
        Self { terminal: std::io::stderr().is_terminal(), done: 0, total, test: String::new() }
    }

    /// This is measured next.
    pub fn next(&mut self, test: &str, what: &str, round: u32, rounds: u32) {
        self.done += 1;
        let (done, total) = (self.done, self.total);
        if self.terminal {
            let line = format!("[{done}/{total}] {test}: {what}, round {} of {rounds}", round + 1);
            // Progress that cannot be shown is no reason to end a measurement.
            let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
        } else if self.test != test {
            let _ = writeln!(std::io::stderr(), "[{done}/{total}] {test}, {rounds} rounds");
            test.clone_into(&mut self.test);
        }
    }

    /// So many measurements will not be made.
    pub fn skip(&mut self, number: usize) {
        self.total -= number.min(self.total);
    }

    /// Something for a person to read while the run goes on.
    pub fn note(&self, text: &str) {
        self.clear();
        let _ = writeln!(std::io::stderr(), "{text}");
    }

    /// Removes the line that changes.
    pub fn clear(&self) {
        if self.terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
