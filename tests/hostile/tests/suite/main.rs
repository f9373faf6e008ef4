//! Hostile members of one node, one file for each subject.
//!
//! One program for all of them: each program of tests costs seconds to build.

mod binds;
mod hostile;
mod memory;
mod modes;
mod permission;
mod poisoned;
mod quotas;
mod stand_ins;
mod versions;
mod victims;
