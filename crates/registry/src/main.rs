//! The registry as a program.

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match m3ipc_registry::execute(m3ipc_registry::CommandLine::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("m3-registry: {error}");
            ExitCode::from(4)
        }
    }
}
