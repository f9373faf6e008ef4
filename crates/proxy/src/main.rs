//! The proxy of a node as a program.

use std::process::ExitCode;

fn main() -> ExitCode {
    m3ipc_proxy::program::main(std::env::args_os())
}
