//! The report of a check.

use std::fmt;

/// A broken rule: where, how, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    /// A file with its line, or a crate.
    pub location: String,
    /// What is wrong there.
    pub problem: String,
    /// What to do about it.
    pub next: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n    {}", self.location, self.problem, self.next)
    }
}

/// The result of a check.
pub struct Report {
    /// The broken rules.
    pub findings: Vec<Finding>,
    /// The figure to show where there are none.
    pub figure: String,
}
