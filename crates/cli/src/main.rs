//! `m3`: the command line of m3ipc.
//!
//! ```text
//! main ── cli: arguments, dispatch          options: flags of every command
//!   │                                       lookup: node, VM and endpoint by their written form
//!   └ command/* ─ one file per subcommand   payload: messages as arguments and as text
//!       ├ sock/*   programs whose sockets   output: lines or JSON;  error: messages, exit codes
//!       │          use shared memory        view/*: text of messages, areas and wait chains
//!       ├ trace/*  traced calls of a VM     launch: starts a daemon
//!       ├ doctor/* checks of this machine   other_program: executes m3-bench, m3-supervise
//!       │                                   cpus: CPUs of this process
//!       └ demo/*   the demonstration, in processes of its own
//! ```
//!
//! Imports point to the right and down: a command never imports `cli`.

#![forbid(unsafe_code)]

mod cli;
mod command;
mod cpus;
mod demo;
mod doctor;
mod error;
mod escape;
mod launch;
mod lookup;
mod options;
mod other_program;
mod output;
mod payload;
mod sock;
mod trace;
mod view;

use std::process::ExitCode;

fn main() -> ExitCode {
    options::begin();
    m3ipc_sys::end_without_output("m3", error::OUTPUT_CLOSED, 4);
    let cli = match cli::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(refused) => return error::report_usage(&refused),
    };
    let json = cli.output.json;
    match cli::run(cli) {
        Ok(code) => code,
        Err(error) => error.report(json),
    }
}
