//! `m3 daemon`: the node daemon itself.

use std::process::ExitCode;

/// Serves until it is told to leave.
pub fn run(args: &m3ipc_daemon::Args) -> ExitCode {
    m3ipc_daemon::run(args)
}
