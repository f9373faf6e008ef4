//! `m3 man`: writes a man page for each command.

use crate::cli::Cli;
use crate::fail::{Fail, Result};
use clap::{Args, CommandFactory};
use std::path::PathBuf;

/// Write the man pages.
#[derive(Args, Debug)]
pub struct Man {
    /// The directory, which must exist.
    directory: PathBuf,
}

/// Writes them.
pub fn run(args: &Man) -> Result<()> {
    let written = clap_mangen::generate_to(Cli::command(), &args.directory);
    written.map_err(|cause| {
        Fail::system(format!("cannot write to {}", args.directory.display()), cause)
    })
}
