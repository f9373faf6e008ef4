//! Text and JSON of things that several subcommands show.

pub mod area;
pub mod message;
pub mod wait_chain;
