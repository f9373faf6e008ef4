//! Several users of one machine, one file for each subject.
//!
//! One program for all of them: each program of tests costs seconds to build.

mod capabilities;
mod more_rights;
mod own_node;
mod privileged;
mod seals;
mod signals;
mod trust;
mod vms;
