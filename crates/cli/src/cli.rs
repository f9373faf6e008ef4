//! What can be asked, and how it is written.

use crate::command;
use crate::fail::EXIT_CODES;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Microkernel-style IPC in user space: nodes, VMs and endpoints from the shell.
///
/// A target is VM/ENDPOINT: the VM by name or id, the endpoint by name, slot or address.
/// `m3 demo` shows it all in five seconds.
#[derive(Parser, Debug)]
#[command(name = "m3", version, after_help = EXIT_CODES, max_term_width = 110)]
pub struct Cli {
    #[command(flatten)]
    pub format: Format,
    #[command(subcommand)]
    pub command: Command,
}

/// How results are shown.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Format {
    /// Results as JSON, one value a line (errors too, on standard error).
    #[arg(long)]
    pub json: bool,
}

/// What nearly every command takes.
#[derive(Args, Clone, Debug)]
pub struct Common {
    #[command(flatten)]
    pub format: Format,
    /// Runtime directory of the node [default: M3_RUNTIME_DIR, /run/m3 where a daemon serves it,
    /// $XDG_RUNTIME_DIR/m3 or /tmp/m3-UID].
    #[arg(long, value_name = "DIR")]
    pub runtime_dir: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// See all of it in five seconds: calls, their time, a killed server, nothing left behind.
    Demo(command::demo::Demo),
    /// Start the node daemon in the background.
    #[command(about = "Start the node daemon in the background", long_about = None)]
    Up(command::up::Up),
    /// End all VMs of the node, then its daemon.
    Down(command::down::Down),
    /// Create, end, list and show VMs.
    #[command(subcommand)]
    Vm(command::vm::Vm),
    /// Who is there, and who waits for whom, how long, in which call.
    Ps(command::ps::Ps),
    /// Watch the calls of a VM, phase by phase.
    #[command(about = "Watch the calls of a VM, phase by phase")]
    Trace(command::trace::Trace),
    /// Send a message; returns when it has been taken.
    Send(command::send::Send),
    /// Send a request and print the answer.
    Call(command::call::Call),
    /// Copy memory of an endpoint that waits: out, in, or to a second one.
    #[command(about = "Copy memory of an endpoint that waits: out, in, or to a second one")]
    Copy(command::copy::Copy),
    /// Notify an endpoint.
    Notify(command::notify::Notify),
    /// Print what arrives.
    Listen(command::listen::Listen),
    /// Answer each request with its own content.
    Echo(command::echo::Echo),
    /// Sockets over shared memory: those of VMs, and those of unmodified programs.
    #[command(subcommand)]
    Sock(command::sock::Sock),
    /// Run a program that is bound in a VM before it starts.
    Run(command::run::Run),
    /// What this machine gives, what is off, and which fallback serves.
    Doctor(command::doctor::Doctor),
    /// Measure m3ipc beside what the kernel offers.
    #[command(about = "Measure m3ipc beside what the kernel offers", long_about = None)]
    Bench(command::bench::Bench),
    /// Be the node daemon.
    #[command(about = "Be the node daemon, in the foreground", name = "daemon")]
    Daemon(m3ipc_daemon::Args),
    /// Print the completions of a shell.
    Completions(command::completions::Completions),
    /// Write the man pages into a directory.
    #[command(hide = true)]
    Man(command::man::Man),
    /// A part of the demo, in a process of its own.
    #[command(hide = true, name = "__demo")]
    DemoPart(crate::demo::part::Part),
}

impl Cli {
    /// Whether JSON is wanted, before or after the subcommand.
    pub fn wants_json(&self) -> bool {
        use command::vm::Vm;
        let of_command = match &self.command {
            Command::Demo(args) => args.format.json,
            Command::Up(args) => args.format.json,
            Command::Down(args) => args.common.format.json,
            Command::Vm(Vm::Create(args)) => args.common.format.json,
            Command::Vm(Vm::End(args) | Vm::Info(args)) => args.common.format.json,
            Command::Vm(Vm::Ls(common)) => common.format.json,
            Command::Ps(args) => args.common.format.json,
            Command::Trace(args) => args.common.format.json,
            Command::Send(args) => args.to.common.format.json,
            Command::Call(args) => args.to.common.format.json,
            Command::Copy(args) => args.to.common.format.json,
            Command::Notify(args) => args.to.common.format.json,
            Command::Listen(args) => args.common.format.json,
            Command::Echo(args) => args.common.format.json,
            Command::Sock(command::sock::Sock::Stat(args)) => args.common.format.json,
            Command::Sock(command::sock::Sock::Check(args)) => args.format.json,
            Command::Sock(command::sock::Sock::Run(args)) => args.common.format.json,
            Command::Run(args) => args.common.format.json,
            Command::Doctor(args) => args.common.format.json,
            Command::Bench(_)
            | Command::Daemon(_)
            | Command::Completions(_)
            | Command::Man(_)
            | Command::DemoPart(_) => false,
        };
        self.format.json || of_command
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn json_may_stand_before_and_after_the_command() {
        for words in [["m3", "--json", "ps"], ["m3", "ps", "--json"]] {
            assert!(Cli::parse_from(words).wants_json());
        }
    }
}
