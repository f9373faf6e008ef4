//! The registry as a program.

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    // As by SIGPIPE, and as for all that the system refuses.
    m3ipc_sys::end_without_output("m3-registry", 128 + 13, 4);
    match m3ipc_registry::execute(m3ipc_registry::CommandLine::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            m3ipc_sys::tell!("m3-registry: {error}");
            ExitCode::from(4)
        }
    }
}
