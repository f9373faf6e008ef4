//! The subcommands, one a file.

pub mod areas;
pub mod bench;
pub mod call;
pub mod chain;
pub mod completions;
pub mod copy;
pub mod daemon;
pub mod demo;
pub mod doctor;
pub mod down;
pub mod echo;
pub mod listen;
pub mod man;
pub mod notify;
pub mod ps;
pub mod run;
pub mod send;
pub mod shown;
pub mod sock;
pub mod trace;
pub mod up;
pub mod vm;

use crate::cli::{Cli, Command};
use crate::fail::Result;
use crate::out::Out;
use std::process::ExitCode;

/// Does what was asked.
pub fn run(cli: Cli) -> Result<ExitCode> {
    let out = Out::new(cli.wants_json());
    let done = match cli.command {
        Command::Demo(args) => return demo::run(&args, out),
        Command::Doctor(args) => return doctor::run(&args, out),
        Command::Bench(args) => return bench::run(&args, out),
        Command::Daemon(args) => return Ok(daemon::run(&args)),
        Command::DemoPart(part) => return crate::demo::part::run(&part),
        Command::Up(args) => up::run(&args, out),
        Command::Down(args) => down::run(&args, out),
        Command::Vm(args) => vm::run(&args, out),
        Command::Ps(args) => ps::run(&args, out),
        Command::Trace(args) => trace::run(&args, out),
        Command::Send(args) => send::run(&args, out),
        Command::Call(args) => call::run(&args, out),
        Command::Copy(args) => copy::run(&args, out),
        Command::Notify(args) => notify::run(&args, out),
        Command::Listen(args) => listen::run(&args, out),
        Command::Echo(args) => echo::run(&args, out),
        Command::Sock(args) => sock::run(&args, out),
        Command::Run(args) => run::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    };
    done.map(|()| ExitCode::SUCCESS)
}
