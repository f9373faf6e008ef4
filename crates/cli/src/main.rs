//! `m3`: the command line of m3ipc.
//!
//! ```text
//! main ── cli: what can be asked            reach: node, VM, endpoint by what a person writes
//!   │                                       content: messages as written and as shown
//!   └ command/* ─ one file a subcommand     out: lines or JSON;  fail: errors, exit codes
//!       ├ sock/* ─ programs whose sockets use shared memory
//!       ├ trace/* ─ what is seen of a VM's calls
//!       ├ doctor/* ─ what this machine gives
//!       └ demo/* ─ the show, in processes of its own
//! ```

mod cli;
mod command;
mod content;
mod cpus;
mod demo;
mod doctor;
mod fail;
mod out;
mod reach;
mod sock;
mod start;
mod trace;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    out::survive_closed_stdout();
    let cli = cli::Cli::parse();
    let json = cli.wants_json();
    match command::run(cli) {
        Ok(code) => code,
        Err(fail) => fail.report(json),
    }
}
