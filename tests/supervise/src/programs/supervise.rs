//! The supervisor of the tests: `m3-supervise`, built with them.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    m3ipc_supervise::command::run(std::env::args_os())
}
