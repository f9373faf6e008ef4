//! The commands of the project for building, checking and installing: `cargo xtask COMMAND`.
//!
//! | command | does | file |
//! |---|---|---|
//! | `ci` | all checks and tests, side by side where possible | `ci.rs` |
//! | `check` | the rules of the project that other tools do not check | `check.rs` |
//! | `fuzz` | runs the fuzz targets with AddressSanitizer | `fuzz.rs` |
//! | `package` | builds each package from its archive | `package.rs` |
//! | `site` | builds the book of `docs/` | `site.rs` |
//! | `tools` | installs the tools that CI needs | `tools.rs` |
//! | `install` | puts programs, libraries, pages and units into a prefix | `install.rs` |
//! | `forwards` | writes a folder of the C headers, with those under old paths | `install/headers.rs` |
//!
//! xtask depends on no crate of the project, so that it builds when they do not.

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
    /// Run all checks and tests; the test command of the project
    Ci(ci::Args),
    /// Check the rules of the project that other tools do not check
    Check(check::Args),
    /// Run the fuzz targets with AddressSanitizer
    Fuzz(fuzz::Args),
    /// Build each published package from its archive
    Package,
    /// Build the book of docs/
    Site,
    /// Install the tools that CI needs and that are missing
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
        Command::Ci(args) => ci::run(&workspace, args),
        Command::Check(args) => check::run(workspace, args),
        Command::Fuzz(args) => fuzz::run(&workspace, args),
        Command::Package => package::run(&workspace),
        Command::Site => site::run(&workspace),
        Command::Tools(args) => tools::run(args),
        Command::Install(args) => install::run(&workspace, args),
        Command::Forwards { dir } => install::forwards(&workspace, dir),
    }
}
