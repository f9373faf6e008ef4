//! One case or more for each row of the contract, through the Rust API.
//!
//! The name of a case is the rule. Partners are threads, or processes if death, fork, exec or a
//! signal matters.

#![allow(clippy::unwrap_used)]

mod binding;
mod checks;
mod copies;
mod death;
mod fixture;
mod messages;
mod names;
mod node;
mod notices;
mod numbers;
mod peer;
mod requests;
mod rights;
mod unbinding;

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

static RUN: AtomicUsize = AtomicUsize::new(0);
static PASSED: AtomicUsize = AtomicUsize::new(0);

/// The cases of one family, each a test, and their number.
macro_rules! rows {
    ($(fn $name:ident() $body:block)*) => {
        pub const ROWS: usize = [$(stringify!($name)),*].len();
        $(#[test] fn $name() {
            let row = crate::Row::begin();
            $body
            row.passed();
        })*
    };
}
pub(crate) use rows;

const ROWS: usize = binding::ROWS
    + checks::ROWS
    + copies::ROWS
    + death::ROWS
    + messages::ROWS
    + names::ROWS
    + node::ROWS
    + notices::ROWS
    + numbers::ROWS
    + requests::ROWS
    + rights::ROWS
    + unbinding::ROWS;

/// One case while it runs. The last case prints how many passed.
struct Row;

impl Row {
    fn begin() -> Self {
        Self
    }

    fn passed(self) {
        PASSED.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        if RUN.fetch_add(1, Ordering::SeqCst) + 1 == ROWS {
            // Not captured by the test harness: a run that passes shows the figure as well.
            let line =
                format!("conformance: {ROWS} rows, {} passed\n", PASSED.load(Ordering::SeqCst));
            let _ = std::io::stdout().write_all(line.as_bytes());
        }
    }
}
