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
    let words = passed_on(command, std::env::args_os());
    let words = std::iter::once(OsString::from(subcommand)).chain(words);
    other_program::execute("m3-supervise", "m3ipc-supervise", words)
}

/// The words after the command. `m3 --json services` has one before it.
fn passed_on(
    command: &str,
    words: impl Iterator<Item = OsString>,
) -> impl Iterator<Item = OsString> {
    let words: Vec<OsString> = words.skip(1).collect();
    let at = words.iter().position(|word| word == command).unwrap_or(words.len());
    let json = words[..at].iter().any(|word| word == "--json").then(|| "--json".into());
    let after: Vec<OsString> = words.into_iter().skip(at + 1).collect();
    after.into_iter().chain(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_is_passed_on_also_one_named_as_the_command() {
        for (words, passed) in [
            (&["m3", "services", "services", "--json"][..], &["services", "--json"][..]),
            (&["m3", "--json", "services", "shop"], &["shop", "--json"]),
            (&["m3", "services", "shop", "stop", "a"], &["shop", "stop", "a"]),
        ] {
            let words = words.iter().map(OsString::from);
            assert!(passed_on("services", words).eq(passed.iter().map(OsString::from)));
        }
    }
}
