//! Chores of the project, as one program: `cargo xtask <chore>`.
//!
//! | chore | does | file |
//! |---|---|---|
//! | `deps` | arrows between crates, lifted lints, long files, named dependencies | `deps.rs` |
//! | `ci` | every check and test in order, with a table at the end | `ci.rs` |
//! | `install` | puts programs, libraries, pages and units into a prefix | `install.rs` |
//!
//! It depends on no crate of ours, so it still builds when they do not.

mod ci;
mod deps;
mod error;
mod install;
mod tree;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::Error;
use crate::workspace::Workspace;

/// Chores of the m3ipc workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version, about)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Check the arrows between crates, lifted lints, file lengths and named dependencies
    Deps,
    /// Run every check and test in order; the test command of the project
    Ci(ci::Args),
    /// Build for release and install into a prefix
    Install(install::Args),
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        // The chore has already printed what is wrong.
        Err(Error::Reported) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<(), Error> {
    let workspace = Workspace::load()?;
    match &cli.chore {
        Chore::Deps => deps::run(&workspace),
        Chore::Ci(args) => ci::run(&workspace, args),
        Chore::Install(args) => install::run(&workspace, args),
    }
}
