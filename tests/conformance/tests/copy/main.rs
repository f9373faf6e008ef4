//! vcopy: bytes between memories by each method, and the code of each failure.

#![allow(clippy::unwrap_used)]

mod areas;
mod codes;
mod faults;
mod fixture;
mod processes;
mod slow_file;
mod ways;
