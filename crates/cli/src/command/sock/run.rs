//! `m3 sock run`: runs an unmodified program with `libm3sock.so` in front of the C library.
//!
//! This process names the library, the policy and the counter file in the environment, and then
//! executes the program. The program keeps the process number, the terminal and the exit code.

use super::explain;
use super::obstacle::Obstruction;
use crate::error::{CliError, Result};
use crate::lookup;
use crate::options::NodeOptions;
use crate::output::Output;
use crate::sock::executable::{self, PreloadSupport};
use crate::sock::policy::EffectivePolicy;
use crate::sock::{counters, library, policy};
use clap::Args;
use m3ipc_shim::policy as shim_policy;
use m3ipc_shim::policy::{DIRECTORY_VARIABLE, NO_DIRECTORY};
use m3ipc_shim::process::limits;
use rustix::fs::{FileType, Stat, fstat};
use rustix::process::{Resource, getrlimit};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf, absolute};
use std::process::Command;

/// The end of the help text: a policy with its defaults.
const POLICY_HELP: &str = "\
A policy with the default of every key; all keys are optional:
  on = true
  upgrade-after = 16     # data calls before a socket searches for its peer; 0 keeps each ring
  ring-bytes = 65536     # per direction; a power of two from 64 to 65536
  spin-us = 50           # the longest spin before a call sleeps; 0 does not spin
  io-uring = \"refuse\"    # or \"pass\": the program sends no socket data through io_uring
  children = []          # file names of executed programs that load the library, too; \"*\" is all
  [programs]             # file names; deny comes before allow, no allow means all
  deny = [\"sshd\"]
  [users]                # numbers
  allow = [0, 1000]
  [ports]                # of either end of a TCP connection
  allow = [6379, \"8000-8999\"]
  [paths]                # prefixes of Unix socket names, @ for abstract names
  deny = [\"/run/dbus/\"]

Environment: M3_SOCK_LIBRARY names libm3sock.so where the file lies neither beside m3 nor in
../lib/m3ipc. M3_RUNTIME_DIR names the directory of rings [default: /dev/shm]. The program gets
M3SOCK_POLICY and M3SOCK_COUNTS. docs/sockets.md lists what works and what keeps the kernel.";

/// Run an unmodified program whose local stream sockets use shared memory.
///
/// This concerns TCP connections on this machine and Unix stream connections, between two such
/// programs of one user. All other sockets stay as they are. `m3 sock stat` shows the traffic.
///
/// The library loads into the program and its forks. Programs that these execute run without it,
/// unless --children or the policy names them.
///
/// Example: m3 sock run -- redis-server --port 6379
#[derive(Args, Debug)]
#[command(after_long_help = POLICY_HELP)]
pub struct Run {
    #[command(flatten)]
    node: NodeOptions,
    /// The policy: a file in TOML, see m3-sock-run(1).
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Refuse a program that cannot load the library or gets no shared memory, instead of running
    /// it natively.
    #[arg(long)]
    strict: bool,
    /// Load the library also into programs of these file names that the program executes, and that
    /// those execute [without names: all].
    #[arg(
        long,
        value_name = "NAME,...",
        num_args = 0..=1,
        require_equals = true,
        value_delimiter = ',',
        default_missing_value = "*"
    )]
    children: Vec<String>,
    /// Show the policy in effect and its consequence for the program, without running it.
    #[arg(long)]
    explain: bool,
    /// Count in this file, which stays [default: counters end with the program].
    #[arg(long, value_name = "FILE")]
    counters: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Scripts of scripts at most, as in the kernel.
const SCRIPT_DEPTH_MAX: usize = 5;

/// Replaces this process by the program; returns if that fails, or after --explain.
pub fn run(args: &Run, out: Output) -> Result<()> {
    let (name, arguments) = args.program.split_first().ok_or_else(|| {
        CliError::usage("no program is named").advice("write it after `--`, as in: -- curl URL")
    })?;
    let policy = policy::choose(args.policy.as_deref(), &args.children)?;
    let mut path = executable::find(name)?;
    let mut command = Command::new(name);
    // The library would load into `env`, and not into the program that it executes.
    let mut before = Vec::new();
    while let Some(interpreter) = executable::started_by_env(&path)
        && before.len() < SCRIPT_DEPTH_MAX
    {
        before.insert(0, path.into_os_string());
        path = executable::find(&interpreter)?;
        command = Command::new(&path);
        command.arg0(interpreter);
    }
    command.args(before).args(arguments);
    if let Some(directory) = &args.node.runtime_dir {
        command.env("M3_RUNTIME_DIR", directory);
    }
    let directory = args.node.runtime_dir.clone();
    let named = directory.or_else(|| std::env::var_os("M3_RUNTIME_DIR").map(PathBuf::from));
    let around = named.as_deref().filter(|named| !named.as_os_str().is_empty());
    m3ipc_shim::remove_ended(around);
    let obstruction = Obstruction::find(around.unwrap_or(Path::new("/dev/shm")));
    if args.explain {
        return explain::show(&policy, &path, obstruction.as_ref(), out);
    }
    match executable::inspect(&path)? {
        // The library stays out of a program that the policy excludes.
        PreloadSupport::Supported if !explain::allows(&policy, &path)? => {}
        PreloadSupport::Supported => {
            if let (Some(found), true) = (&obstruction, args.strict) {
                let what = format!("{} is not run: {}", path.display(), found.why);
                return Err(CliError::failure(what).advice(found.advice.clone()));
            }
            preload(&mut command, args, policy)?;
            command.env(DIRECTORY_VARIABLE, fixed_directory(named.as_deref()));
            if let Some(found) = obstruction {
                say(&format!(
                    "{} runs with the kernel's sockets: {}",
                    path.display(),
                    found.line()
                ));
            }
        }
        PreloadSupport::Unsupported(why) if args.strict => {
            return Err(CliError::failure(format!("{} is not run: {why}", path.display()))
                .advice("without --strict it runs natively, with the kernel's sockets"));
        }
        PreloadSupport::Unsupported(why) => {
            say(&format!("{} runs with the kernel's sockets: {why}", path.display()));
        }
    }
    m3ipc_sys::keep_ignored_pipe(&mut command);
    let cause = command.exec();
    Err(CliError::system(format!("cannot run {}", name.display()), cause)
        .advice("check that the program is executable"))
}

/// Says something on the standard error, if that is possible: the program runs in any case. A limit
/// on the size of files that the line would pass ends the process by a signal.
fn say(what: &str) {
    let line = format!("m3: {what}\n");
    let stderr = std::io::stderr();
    let limit = getrlimit(Resource::Fsize).current;
    let is_file = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let passes = |bytes: u64| {
        fstat(&stderr).is_ok_and(|stat| {
            let end = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
            is_file(&stat) && end.saturating_add(line.len() as u64) > bytes
        })
    };
    if !limit.is_some_and(passes) {
        let _ = stderr.lock().write_all(line.as_bytes());
    }
}

/// The directory of the shared memory for the program and all its children, whatever they do with
/// their environment and their working directory.
fn fixed_directory(named: Option<&Path>) -> PathBuf {
    let named = named.filter(|named| !named.as_os_str().is_empty());
    named.map_or_else(|| NO_DIRECTORY.into(), |named| absolute(named).unwrap_or(named.into()))
}

/// The line of a policy, and the filters on system calls that this process itself works under. A
/// program that adds one keeps the kernel's sockets.
fn with_filters(line: String, filters: u32) -> String {
    match (line.as_str(), filters) {
        (_, 0) => line,
        ("", _) => format!("filters={filters}"),
        (_, _) => format!("{line} filters={filters}"),
    }
}

/// Names library, policy and counters in the environment of the program.
fn preload(command: &mut Command, args: &Run, policy: EffectivePolicy) -> Result<()> {
    let library = library::find()?;
    command.env("LD_PRELOAD", library::appended(m3ipc_sys::variable("LD_PRELOAD"), &library));
    command.env(shim_policy::VARIABLE, with_filters(policy.line, limits::filters()));
    let counters = match &args.counters {
        Some(path) => counters::create(path).map(|()| path.clone()),
        None => counters::create_own(&lookup::directory(&args.node)),
    };
    // Children may have another working directory.
    match counters.and_then(absolute) {
        Ok(path) => command.env(shim_policy::COUNTERS_VARIABLE, path),
        Err(cause) if args.counters.is_some() => {
            return Err(CliError::system("cannot create the counter file", cause)
                .advice("name a file that you may write with --counters"));
        }
        // Without counters the program runs.
        Err(cause) => {
            say(&format!("`m3 sock stat` will not show the program: no counters: {cause}"));
            command.env_remove(shim_policy::COUNTERS_VARIABLE)
        }
    };
    Ok(())
}
