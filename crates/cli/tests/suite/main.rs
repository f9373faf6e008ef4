//! The program `m3` as its users run it, one file for each subject.
//!
//! One program for all of them: each program of tests costs seconds to build.

mod cli;
mod fixture;
mod messages;
mod misuse;
mod nodes;
mod sock_check;
mod stopped;
mod trace;
mod trust;
