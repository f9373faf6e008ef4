//! `m3 man`: writes a man page for each command. The installer runs it.

use crate::error::{CliError, Result};
use clap::Args;
use std::path::PathBuf;

/// Write the man pages into a directory.
#[derive(Args, Debug)]
pub struct Man {
    /// The directory, which must exist.
    directory: PathBuf,
}

/// Writes the pages of `command` and of its subcommands.
pub fn run(args: &Man, command: clap::Command) -> Result<()> {
    clap_mangen::generate_to(command, &args.directory).map_err(|cause| {
        let what = format!("cannot write man pages to {}", args.directory.display());
        CliError::system(what, cause).advice("name a directory that exists and that you may write")
    })
}
