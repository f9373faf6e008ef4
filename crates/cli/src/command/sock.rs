//! `m3 sock`: com-sockets, and programs whose sockets use shared memory, from the shell.

pub mod check;
mod explain;
pub mod run;
pub mod shim;
pub mod stat;
pub mod streams;

use crate::fail::Result;
use crate::out::Out;
use clap::Subcommand;

/// Com-sockets, and sockets of unmodified programs over shared memory.
#[derive(Subcommand, Debug)]
pub enum Sock {
    /// Run an unmodified program whose local stream sockets use shared memory.
    Run(run::Run),
    /// Compare installed programs with the kernel's sockets and under `m3 sock run`.
    Check(check::Check),
    /// Show the sockets of VMs, the programs under `m3 sock run` and their connections: which way their bytes go.
    Stat(stat::Stat),
}

/// Does what was asked.
pub fn run(args: &Sock, out: Out) -> Result<()> {
    match args {
        Sock::Run(args) => run::run(args, out),
        Sock::Check(args) => check::run(args, out),
        Sock::Stat(args) => stat::run(args, out),
    }
}
