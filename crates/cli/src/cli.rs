//! The arguments of `m3`, and the dispatch to its subcommands.

use crate::command;
use crate::demo::process::DemoProcess;
use crate::error::{EXIT_CODES, Result};
use crate::options::OutputOptions;
use crate::output::Output;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;

/// Microkernel-style IPC in user space: nodes, VMs and endpoints from the shell.
///
/// A node is one daemon with its VMs. A VM is a set of endpoints that may exchange messages.
/// A TARGET is VM/ENDPOINT: the VM by name or id, the endpoint by name, slot or address.
///
/// First steps:
///   m3 demo                                calls, a killed server, and clean-up in five seconds
///   m3 vm create shop                      create a VM; starts the node daemon
///   m3 echo shop --as server &             a server that answers each request
///   m3 call shop/server str:hello --wait   send a request and print the answer
///   m3 down                                end the node
#[derive(Parser, Debug)]
#[command(
    name = "m3", version, after_help = EXIT_CODES, max_term_width = 100, verbatim_doc_comment
)]
pub struct Cli {
    #[command(flatten)]
    pub output: OutputOptions,
    #[command(subcommand)]
    pub command: Command,
}

// The documentation of each type is the help text of its command.
#[derive(Subcommand, Debug)]
pub enum Command {
    Demo(command::demo::Demo),
    Up(command::up::Up),
    Down(command::down::Down),
    #[command(subcommand)]
    Vm(command::vm::Vm),
    Ps(command::ps::Ps),
    Trace(command::trace::Trace),
    Send(command::send::Send),
    Call(command::call::Call),
    Copy(command::copy::Copy),
    Notify(command::notify::Notify),
    Listen(command::listen::Listen),
    Echo(command::echo::Echo),
    #[command(subcommand)]
    Sock(command::sock::Sock),
    Run(command::run::Run),
    Node(command::nodes::Node),
    Cluster(command::nodes::Cluster),
    Supervise(command::supervise::Supervise),
    Services(command::supervise::Services),
    Ldap(command::ldap::Ldap),
    Doctor(command::doctor::Doctor),
    Bench(command::bench::Bench),
    /// Run the node daemon in the foreground.
    ///
    /// Example: m3 daemon --runtime-dir /tmp/node --log-level debug
    #[command(name = "daemon")]
    Daemon(m3ipc_daemon::Args),
    Completions(command::completions::Completions),
    #[command(hide = true)]
    Man(command::man::Man),
    /// A process of the demonstration.
    #[command(hide = true, name = "__demo")]
    DemoProcess(DemoProcess),
}

/// Reads the arguments of the program. A negative number is the value of its option, not an option.
pub fn parse(words: impl Iterator<Item = OsString>) -> std::result::Result<Cli, clap::Error> {
    fn with_numbers(command: clap::Command) -> clap::Command {
        command
            .mut_args(|arg| {
                let has_value = arg.get_action().takes_values();
                arg.allow_negative_numbers(has_value)
            })
            .mut_subcommands(with_numbers)
    }
    Cli::from_arg_matches(&with_numbers(Cli::command()).try_get_matches_from(words)?)
}

/// Runs the subcommand and returns the exit code.
pub fn run(cli: Cli) -> Result<ExitCode> {
    let out = Output::new(cli.output.json);
    // The programs that these two execute keep the dispositions of the caller.
    if !matches!(cli.command, Command::Run(_) | Command::Sock(_)) {
        m3ipc_sys::notice_children();
    }
    let done = match cli.command {
        Command::Demo(args) => return command::demo::run(&args, out),
        Command::Doctor(args) => return command::doctor::run(&args, out),
        Command::Bench(args) => return command::bench::run(&args),
        Command::Node(args) => return command::nodes::run(&args),
        Command::Cluster(args) => return command::nodes::run_cluster(&args),
        Command::Supervise(args) => return command::supervise::run(&args),
        Command::Services(args) => return command::supervise::run_services(&args),
        Command::Ldap(args) => return command::ldap::run(&args),
        Command::Daemon(args) => return Ok(m3ipc_daemon::run(&args)),
        Command::DemoProcess(process) => return crate::demo::process::run(&process),
        Command::Up(args) => command::up::run(&args, out),
        Command::Down(args) => command::down::run(&args, out),
        Command::Vm(args) => command::vm::run(&args, out),
        Command::Ps(args) => command::ps::run(&args, out),
        Command::Trace(args) => command::trace::run(&args, out),
        Command::Send(args) => command::send::run(&args, out),
        Command::Call(args) => command::call::run(&args, out),
        Command::Copy(args) => command::copy::run(&args, out),
        Command::Notify(args) => command::notify::run(&args, out),
        Command::Listen(args) => command::listen::run(&args, out),
        Command::Echo(args) => command::echo::run(&args, out),
        Command::Sock(args) => command::sock::run(&args, out),
        Command::Run(args) => command::run::run(&args),
        Command::Completions(args) => command::completions::run(&args, &mut Cli::command()),
        Command::Man(args) => command::man::run(&args, Cli::command()),
    };
    done.map(|()| ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn json_is_accepted_before_and_after_the_command() {
        for words in [["m3", "--json", "ps"], ["m3", "ps", "--json"]] {
            assert!(Cli::parse_from(words).output.json);
        }
    }
}
