//! `m3d`: the node daemon.

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    m3ipc_daemon::run(&m3ipc_daemon::Args::parse())
}
