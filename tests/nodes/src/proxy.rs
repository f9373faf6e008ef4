//! The program `m3-proxy`, built with the tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    m3ipc_proxy::program::main(std::env::args_os())
}
