//! A peer in a process of its own, told what to do by its arguments.

mod roles_crash;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(ended) = roles_crash::run(&arguments) {
        return ended;
    }
    eprintln!("usage: m3-tests-peer ROLE DIRECTORY VM ...");
    ExitCode::from(2)
}
