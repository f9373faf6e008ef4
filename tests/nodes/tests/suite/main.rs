//! Calls between nodes, one file for each subject.
//!
//! One program for all of them: each program of tests costs seconds to build.

mod backups;
mod block_ends;
mod blocks;
mod budgets;
mod copies;
mod drvs;
mod failures;
mod held;
mod kills;
mod long;
mod moves;
mod moving;
mod names;
mod pulses;
mod registry;
mod relays;
mod shares;
mod silent;
mod stand_ins;
mod stopped;
mod tools;
mod two_nodes;
mod wakeups;
