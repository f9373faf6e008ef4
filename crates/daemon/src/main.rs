//! `m3d`: the node daemon.
#![forbid(unsafe_code)]

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    m3ipc_daemon::run(&m3ipc_daemon::Args::parse())
}
