//! The roles of the demonstration's processes, and the command line of each.

use crate::error::{CliError, Result};
use clap::ValueEnum;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The role of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DemoRole {
    /// The node daemon.
    Daemon,
    /// The server.
    Server,
    /// The client, which takes its commands from standard input.
    Client,
    /// Copies standard input to standard output.
    Echo,
    /// Reads blocks from standard input and acknowledges each on standard output.
    Sink,
}

/// The CPUs of a process and of its partner; `None` lets the kernel choose.
#[derive(Clone, Copy, Debug, Default)]
pub struct Placement {
    pub cpu: Option<usize>,
    pub partner_cpu: Option<usize>,
}

impl DemoRole {
    /// The name, as the command line has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Daemon => "daemon",
            Self::Server => "server",
            Self::Client => "client",
            Self::Echo => "echo",
            Self::Sink => "sink",
        }
    }

    /// The command that starts a process of this role, without standard input and output.
    pub fn command(self, directory: &Path, placement: Placement) -> Result<Command> {
        let program = std::env::current_exe()
            .map_err(|cause| CliError::system("cannot find the program m3", cause))?;
        let mut command = Command::new(program);
        command
            .arg("__demo")
            .arg(self.name())
            .arg(directory)
            .arg("--parent")
            .arg(std::process::id().to_string())
            .env("M3_RUNTIME_DIR", node_directory(directory));
        let cpus = [("--cpu", placement.cpu), ("--partner-cpu", placement.partner_cpu)];
        for (flag, cpu) in cpus {
            if let Some(cpu) = cpu {
                command.arg(flag).arg(cpu.to_string());
            }
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Ok(command)
    }

    /// Starts the process.
    pub fn spawn(self, command: &mut Command) -> Result<Child> {
        command
            .spawn()
            .map_err(|cause| CliError::system(format!("cannot start the {}", self.name()), cause))
    }
}

/// The runtime directory of the demonstration's node.
pub fn node_directory(directory: &Path) -> PathBuf {
    directory.join("node")
}
