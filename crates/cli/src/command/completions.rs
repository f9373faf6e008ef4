//! `m3 completions`: prints the completion script of a shell.

use crate::error::Result;
use clap::Args;
use clap_complete::Shell;
use std::io::Write;

/// Print the completion script of a shell.
///
/// Example: m3 completions bash > ~/.local/share/bash-completion/completions/m3
#[derive(Args, Debug)]
pub struct Completions {
    /// The shell.
    shell: Shell,
}

/// Prints the script for `command`.
pub fn run(args: &Completions, command: &mut clap::Command) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, command, "m3", &mut text);
    Ok(std::io::stdout().lock().write_all(&text)?)
}
