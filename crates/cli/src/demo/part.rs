//! The parts that run in processes of their own, by the hidden subcommand `__demo`.

use super::{client, raw, server};
use crate::fail::{Fail, Result};
use clap::{Args, ValueEnum};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A part of the demo.
#[derive(Args, Debug)]
pub struct Part {
    /// Which.
    #[arg(value_enum)]
    role: Role,
    /// The directory of the demo; the node's lies in it.
    directory: PathBuf,
    /// The process that starts it, and without which it is nothing.
    #[arg(long)]
    parent: Option<u32>,
    /// The CPU to stay on.
    #[arg(long)]
    cpu: Option<usize>,
    /// The CPU of the other side.
    #[arg(long)]
    other_cpu: Option<usize>,
}

/// The roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// The node.
    Daemon,
    /// Answers.
    Server,
    /// Asks, as told on standard input.
    Client,
    /// Gives back on standard output what comes on standard input.
    Echo,
    /// Takes blocks on standard input, and says so.
    Sink,
}

impl Role {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Daemon => "daemon",
            Self::Server => "server",
            Self::Client => "client",
            Self::Echo => "echo",
            Self::Sink => "sink",
        }
    }
}

/// Where the node of the demo lives.
pub fn node_directory(directory: &Path) -> PathBuf {
    directory.join("node")
}

/// Plays the part.
pub fn run(part: &Part) -> Result<ExitCode> {
    if part.role == Role::Daemon {
        return Ok(daemon(&part.directory));
    }
    m3ipc_sys::die_with_parent()
        .map_err(|errno| Fail::system("cannot die with the parent", errno))?;
    // One that died before is not noticed by that.
    if part.parent.is_some_and(|parent| parent != std::os::unix::process::parent_id()) {
        return Ok(ExitCode::FAILURE);
    }
    if let Some(cpu) = part.cpu {
        m3ipc_sys::pin_to(cpu)
            .map_err(|errno| Fail::system(format!("cannot run on CPU {cpu}"), errno))?;
    }
    let node = node_directory(&part.directory);
    match part.role {
        Role::Daemon => {}
        Role::Server => server::run(&node)?,
        Role::Client => client::run(&node, &part.directory, part.other_cpu)?,
        Role::Echo => raw::echo()?,
        Role::Sink => raw::sink()?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The node; standard input ends when the one who tells has gone, however that came.
fn daemon(directory: &Path) -> ExitCode {
    let orphaned = directory.to_owned();
    std::thread::spawn(move || {
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        let _ = std::fs::remove_dir_all(orphaned);
        std::process::exit(0);
    });
    m3ipc_daemon::run(&m3ipc_daemon::Args {
        runtime_dir: Some(node_directory(directory)),
        log_level: Some("error".to_owned()),
        ..m3ipc_daemon::Args::default()
    })
}
