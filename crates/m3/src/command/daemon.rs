//! `m3 daemon`: the node daemon itself.

use std::process::ExitCode;

/// Serves until it is told to leave.
pub fn run(args: &m3d::Args) -> ExitCode {
    m3d::run(args)
}
