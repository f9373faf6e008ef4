//! The commands of the project for building, checking and installing: `cargo xtask COMMAND`.
//!
//! | command | does | file |
//! |---|---|---|
//! | `test` | builds the product and runs its tests | `ci.rs` |
//! | `check` | all that reads the tree: rules, lints, pages, packages | `ci.rs`, `check.rs` |
//! | `cases` | the cases of the test programs in Rust, each in a process | `cases.rs` |
//! | `fuzz` | runs the fuzz targets with AddressSanitizer | `fuzz.rs` |
//! | `package` | builds each package from its archive | `package.rs` |
//! | `site` | builds the book of `docs/` | `site.rs` |
//! | `tools` | installs the tools that `check` needs | `tools.rs` |
//! | `install` | puts programs, libraries, pages and units into a prefix | `install.rs` |
//! | `forwards` | writes a folder of the C headers, with those under old paths | `install/headers.rs` |
//!
//! xtask depends on no crate of the project, so that it builds when they do not.

mod cases;
mod check;
mod ci;
mod error;
mod fuzz;
mod install;
mod package;
mod site;
mod tools;
mod tree;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::ci::Gate;
use crate::error::Error;
use crate::workspace::Workspace;

/// Builds, checks and installs m3ipc.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build the product and run every test of what it does
    Test(ci::Args),
    /// Check the tree: rules of the project, lints, documentation, packages, the oldest compiler
    Check(ci::Args),
    /// Run the cases of the test programs in Rust, each in a process of its own
    Cases(cases::Args),
    /// Run the fuzz targets with AddressSanitizer
    Fuzz(fuzz::Args),
    /// Build each published package from its archive
    Package,
    /// Build the book of docs/
    Site,
    /// Install the tools that `check` needs and that are missing
    Tools(tools::Args),
    /// Build with the profile `dist` and install into a prefix
    Install(install::Args),
    /// Write the C headers and those under old paths into a folder
    Forwards {
        /// The folder; it is made where it is missing
        dir: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        // The command has already printed the faults.
        Err(Error::Reported) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<(), Error> {
    let workspace = Workspace::load()?;
    match &cli.command {
        Command::Test(args) => ci::run(&workspace, Gate::Test, args),
        Command::Check(args) if check::are_rules(&args.steps) => check::run(workspace, &args.steps),
        Command::Check(args) => ci::run(&workspace, Gate::Check, args),
        Command::Cases(args) => cases::run(&workspace, args),
        Command::Fuzz(args) => fuzz::run(&workspace, args),
        Command::Package => package::run(&workspace),
        Command::Site => site::run(&workspace),
        Command::Tools(args) => tools::run(&workspace, args),
        Command::Install(args) => install::run(&workspace, args),
        Command::Forwards { dir } => install::forwards(&workspace, dir),
    }
}
