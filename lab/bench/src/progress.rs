//! Progress on standard error: a bar on a terminal, one line per test elsewhere.
//!
//! It is drawn between two measurements, never during one.

use std::io::{IsTerminal, Write};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The progress of a run.
pub struct Progress {
    bar: ProgressBar,
    is_terminal: bool,
    done: usize,
    total: usize,
    test: String,
    begun: Instant,
}

impl Progress {
    /// A run with this number of measurements.
    pub fn new(total: usize) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let target =
            if is_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(u64::try_from(total).ok(), target);
        if let Ok(style) = ProgressStyle::with_template(
            "{bar:24} {pos}/{len}  {elapsed} of about {duration}  {wide_msg}",
        ) {
            bar.set_style(style);
        }
        Self { bar, is_terminal, done: 0, total, test: String::new(), begun: Instant::now() }
    }

    /// Announces the next measurement.
    pub fn next(&mut self, test: &str, what: &str, round: u32, rounds: u32) {
        self.done += 1;
        self.bar.set_message(format!("{test}: {what}, round {} of {rounds}", round + 1));
        self.bar.inc(1);
        if !self.is_terminal && self.test != test {
            let (done, total, seconds) = (self.done, self.total, self.begun.elapsed().as_secs());
            let _ = writeln!(
                std::io::stderr(),
                "[{done}/{total}, {seconds} s] {test}, {rounds} rounds"
            );
            test.clone_into(&mut self.test);
        }
    }

    /// Removes measurements from the total.
    pub fn skip(&mut self, number: usize) {
        self.total -= number.min(self.total);
        self.bar.set_length(u64::try_from(self.total).unwrap_or(0));
    }

    /// Prints a line above the bar.
    pub fn note(&self, text: &str) {
        self.bar.suspend(|| {
            let _ = writeln!(std::io::stderr(), "{text}");
        });
    }

    /// Removes the bar until the next measurement.
    pub fn clear(&self) {
        self.bar.suspend(|| ());
        if self.is_terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
