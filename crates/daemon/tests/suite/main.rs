//! The program `m3d` and its greeting, and a model of first contact.
//!
//! One program for all of them: each program of tests costs seconds to build.

mod background;
mod detach;
mod takeover;
mod version;
