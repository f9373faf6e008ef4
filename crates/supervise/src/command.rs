//! The command line of `m3-supervise`.

use crate::config;
use crate::failure::Failure;
use crate::launcher::{self, Launch};
use crate::log::say;
use crate::services::{self, Services};
use crate::supervisor::Supervisor;
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Starts services under names, and restarts them.
///
/// `m3 supervise` executes `m3-supervise run`, and `m3 services` executes `m3-supervise services`.
#[derive(Parser, Debug)]
#[command(name = "m3-supervise", version, max_term_width = 100, after_help = EXIT_CODES)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 success; 1 the operation failed; 2 wrong usage or a wrong file.";

#[derive(Subcommand, Debug)]
enum Command {
    Run(Run),
    Services(Services),
    #[command(hide = true)]
    StartService(Launch),
}

/// Supervise the services of a file until SIGTERM. SIGHUP reads the file again.
///
/// Example: m3 supervise services.toml
#[derive(Args, Debug)]
struct Run {
    /// The file of services: man 5 services.toml.
    file: PathBuf,
    /// Check the file, and start nothing.
    #[arg(long)]
    check: bool,
    /// Runtime directory of the node.
    #[arg(long, value_name = "DIR")]
    runtime_dir: Option<PathBuf>,
}

/// Runs the program with these arguments, of which the first one is its name.
pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.collect();
    let is_json = words.iter().take_while(|word| *word != "--").any(|word| word == "--json");
    let command = match CommandLine::try_parse_from(words) {
        Ok(line) => line.command,
        Err(refused) if is_json && refused.use_stderr() => {
            return report(&Failure::usage(first_paragraph(&refused.to_string())), is_json);
        }
        Err(refused) => {
            // A closed output leaves no other channel.
            let _ = refused.print();
            return ExitCode::from(u8::try_from(refused.exit_code()).unwrap_or(2));
        }
    };
    let done = match command {
        Command::StartService(launch) => return launcher::run(&launch),
        Command::Run(args) => supervise(args),
        Command::Services(args) => services::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure, is_json),
    }
}

fn report(failure: &Failure, is_json: bool) -> ExitCode {
    if is_json {
        m3ipc_sys::tell!("{}", failure.json());
    } else {
        say(failure.text());
    }
    ExitCode::from(failure.exit_code())
}

/// What clap found wrong, without the usage that follows.
fn first_paragraph(text: &str) -> String {
    let lines = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
    lines.collect::<Vec<_>>().join(" ").trim_start_matches("error: ").to_owned()
}

fn supervise(args: Run) -> Result<(), Failure> {
    let config = config::read(&args.file)?;
    if args.check {
        say(&format!("{}: {} services, no errors", args.file.display(), config.services.len()));
        return Ok(());
    }
    let supervisor = Supervisor::open(&args.file, config, args.runtime_dir);
    supervisor.and_then(Supervisor::run).map_err(Failure::failed)
}
