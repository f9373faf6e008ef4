//! `m3d`: the node daemon.

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    m3d::run(&m3d::Args::parse())
}
