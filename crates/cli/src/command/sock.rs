//! `m3 sock`: com-sockets of VMs, and unmodified programs whose sockets use shared memory.

pub mod check;
mod connections;
mod explain;
mod obstacle;
mod programs;
pub mod run;
pub mod stat;

use crate::error::Result;
use crate::output::Output;
use clap::Subcommand;

/// Com-sockets of VMs, and sockets of unmodified programs over shared memory.
#[derive(Subcommand, Debug)]
pub enum Sock {
    Run(run::Run),
    Check(check::Check),
    Stat(stat::Stat),
}

/// Runs the subcommand.
pub fn run(args: &Sock, out: Output) -> Result<()> {
    match args {
        Sock::Run(args) => run::run(args, out),
        Sock::Check(args) => check::run(args, out),
        Sock::Stat(args) => stat::run(args, out),
    }
}
