//! `m3 supervise` and `m3 services`: execute the supervisor, the program `m3-supervise`.

use crate::error::Result;
use crate::other_program;
use clap::Args;
use std::ffi::OsString;
use std::process::ExitCode;

/// Start the services of a file, and restart those that crash or hang.
///
/// All arguments go to `m3-supervise run`: `m3 supervise --help` shows its options.
///
/// Example: m3 supervise services.toml
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub struct Supervise {
    /// Arguments of m3-supervise run.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// List the services of a supervisor, or start, stop and restart one.
///
/// All arguments go to `m3-supervise services`: `m3 services --help` shows its options.
///
/// Example: m3 services shop
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub struct Services {
    /// Arguments of m3-supervise services.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// Replaces this process by the supervisor; returns only if that fails.
pub fn run(_args: &Supervise) -> Result<ExitCode> {
    execute("supervise", "run")
}

/// Replaces this process by the client of a supervisor; returns only if that fails.
pub fn run_services(_args: &Services) -> Result<ExitCode> {
    execute("services", "services")
}

fn execute(command: &str, subcommand: &str) -> Result<ExitCode> {
    let words = other_program::passed_on(command, std::env::args_os());
    let words = std::iter::once(OsString::from(subcommand)).chain(words);
    other_program::execute("m3-supervise", "m3ipc-supervise", words)
}
