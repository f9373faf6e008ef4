//! `m3-supervise`: starts services under names, and restarts them.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    m3ipc_supervise::command::run(std::env::args_os())
}
