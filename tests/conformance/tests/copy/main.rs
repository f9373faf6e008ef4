//! vcopy: bytes between memories, by every way there is, and what each failure tells.

#![allow(clippy::unwrap_used)]

mod areas;
mod codes;
mod middle;
mod processes;
mod ways;
mod world;
