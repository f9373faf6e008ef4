//! `m3 sock run`: runs an unmodified program with `libm3sock.so` in front of the C library.
//!
//! This process says where the library, the policy and the counters are, in the environment, and becomes the
//! program: its number, its exit code, its terminal and its signals are the program's own.

use super::explain;
use crate::cli::Common;
use crate::fail::{Fail, Result};
use crate::out::Out;
use crate::reach;
use crate::sock::{counters, known, library, policy, target};
use clap::Args;
use m3ipc_shim::policy as words;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// A policy file, as the page shows it.
const POLICY: &str = "\
A policy, with what holds where nothing is said; any of it may be left out:
  on = true
  defaults = true        # what is known to lose stays in the kernel, unless it is allowed by name
  upgrade-after = 2      # data calls before a socket looks for its peer
  ring-bytes = 65536     # each way; a power of two from 64 to 65536
  spin-us = 50           # the longest look for bytes before a call sleeps; 0 is none
  io-uring = \"refuse\"    # or \"pass\": the program moves no socket's bytes through it
  [programs]             # names of files; deny comes before allow, no allow is all
  deny = [\"sshd\"]
  [users]                # numbers
  allow = [0, 1000]
  [ports]                # of either end of a TCP connection
  allow = [6379, \"8000-8999\"]
  [paths]                # beginnings of Unix sockets' names, @ for abstract ones
  deny = [\"/run/dbus/\"]

By default these stay in the kernel; --explain says what holds for a program, and why:
{KNOWN}

M3_SOCK_LIBRARY names libm3sock.so where it lies neither beside m3 nor in lib/m3ipc. Its policy and
counters are passed in M3SOCK_POLICY and M3SOCK_COUNTS; M3_RUNTIME_DIR says where rings lie (else /dev/shm).
What works and what stays in the kernel: docs/sockets.md.";

/// Run an unmodified program whose local stream sockets use shared memory.
///
/// TCP connections on this machine and Unix stream connections between two such programs of one user move their bytes
/// through shared memory; everything else stays as it is. `m3 sock stat` shows what happens.
#[derive(Args, Debug)]
#[command(after_long_help = page())]
pub struct Run {
    #[command(flatten)]
    pub common: Common,
    /// What may use shared memory, and how: a file in TOML, see m3-sock-run(1).
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Refuse to run a program that cannot have the library, instead of running it as it is.
    #[arg(long)]
    strict: bool,
    /// Move programs too that are known to lose by it.
    #[arg(long)]
    no_defaults: bool,
    /// Say which policy holds, and what it means for the program, instead of running it.
    #[arg(long)]
    explain: bool,
    /// Count into this file, which stays (by default the counters end with the program).
    #[arg(long, value_name = "FILE")]
    counters: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// The page's end, with the programs that stay in the kernel.
fn page() -> String {
    let lines: Vec<String> =
        known::ALL.iter().map(|known| format!("  {:<10} {}", known.program, known.why)).collect();
    POLICY.replace("{KNOWN}", &lines.join("\n"))
}

/// Becomes the program; comes back only where that fails, or where it is only explained.
pub fn run(args: &Run, out: Out) -> Result<()> {
    let (name, arguments) =
        args.program.split_first().ok_or_else(|| Fail::usage("no program is named"))?;
    let chosen = policy::choose(args.policy.as_deref(), !args.no_defaults)?;
    let path = target::find(name)?;
    if args.explain {
        return explain::show(&chosen, &path, out);
    }
    let mut command = Command::new(name);
    command.args(arguments);
    if let Some(directory) = &args.common.runtime_dir {
        command.env("M3_RUNTIME_DIR", directory);
    }
    match target::look(&path)? {
        target::Fit::Ours => {
            if let Some(known) = explain::known(&chosen, &path) {
                eprintln!(
                    "m3: {} keeps the kernel's sockets: {}; --no-defaults moves it",
                    known.program, known.why
                );
            }
            let library = library::find()?;
            command.env("LD_PRELOAD", library::appended(std::env::var_os("LD_PRELOAD"), &library));
            command.env(words::VARIABLE, chosen.line);
            let counters = match &args.counters {
                Some(path) => counters::begin(path).map(|()| path.clone()),
                None => counters::begin_own(&reach::directory(&args.common)),
            };
            match counters {
                Ok(path) => command.env(words::COUNTERS_VARIABLE, path),
                Err(cause) if args.counters.is_some() => {
                    return Err(Fail::system("cannot count", cause));
                }
                // Not to be seen is no reason not to run.
                Err(_) => command.env_remove(words::COUNTERS_VARIABLE),
            };
        }
        target::Fit::Not(why) if args.strict => {
            return Err(Fail::plain(format!("{} is not run: {why}", path.display()))
                .next("without --strict it runs as it is, with the kernel's sockets"));
        }
        target::Fit::Not(why) => {
            eprintln!("m3: {} runs with the kernel's sockets: {why}", path.display());
        }
    }
    let failed = command.exec();
    Err(Fail::system(format!("cannot run {}", name.display()), failed)
        .next("is the program executable?"))
}
