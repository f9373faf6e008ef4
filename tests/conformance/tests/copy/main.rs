//! vcopy: bytes between memories, by every way there is, and what each failure tells.

#![allow(clippy::unwrap_used)]

mod areas;
mod codes;
mod faults;
mod fixture;
mod processes;
mod slow_file;
mod ways;
