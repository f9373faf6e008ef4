//! `m3 completions`: prints the completions of a shell.

use crate::cli::Cli;
use crate::fail::Result;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::io::Write;

/// Print the completions of a shell.
#[derive(Args, Debug)]
pub struct Completions {
    /// The shell.
    shell: Shell,
}

/// Prints them.
pub fn run(args: &Completions) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "m3", &mut text);
    Ok(std::io::stdout().lock().write_all(&text)?)
}
