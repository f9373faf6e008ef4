//! `m3 node` and `m3 cluster`: execute the proxy, the program `m3-proxy`.

use crate::error::{CliError, Result};
use crate::other_program;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};

/// Connect this node with others: join, leave, ls, keys.
///
/// All arguments go to `m3-proxy`: `m3 node --help` shows its commands.
///
/// Example: m3 node ls
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub struct Node {
    /// Arguments of m3-proxy.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// Show three nodes on this machine: calls, the death of a node, its return, in ten seconds.
///
/// All arguments go to `m3-proxy`: `m3 cluster demo --help` shows the options.
///
/// Example: m3 cluster demo
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub struct Cluster {
    /// Arguments of m3-proxy.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

const PROGRAM: &str = "m3-proxy";
const PACKAGE: &str = "m3ipc-proxy";

/// Replaces this process by the proxy; returns only if that fails.
pub fn run(_args: &Node) -> Result<ExitCode> {
    other_program::execute(PROGRAM, PACKAGE, passed_on("node"))
}

/// Replaces this process by the proxy; returns only if that fails.
pub fn run_cluster(_args: &Cluster) -> Result<ExitCode> {
    other_program::execute(PROGRAM, PACKAGE, passed_on("cluster"))
}

fn passed_on(command: &str) -> impl Iterator<Item = OsString> {
    other_program::passed_on(command, std::env::args_os())
}

/// Nodes that share the slots of a VM.
#[derive(Args, Debug)]
pub struct Shares {
    /// Share the slots with other nodes: writes the VM to the registry, whose id it then has.
    #[arg(long, value_name = "NODE,NODE", value_delimiter = ',')]
    nodes: Vec<String>,
    /// The registry of the nodes [default: m3-keys/nodes.toml].
    #[arg(long, value_name = "FILE", requires = "nodes")]
    registry: Option<PathBuf>,
}

/// Gives the nodes their slots. The id of the VM, if there are nodes.
pub fn share(
    shares: &Shares,
    name: &str,
    id: Option<i32>,
    [procs, tasks]: [Option<i32>; 2],
) -> Result<Option<i32>> {
    if shares.nodes.is_empty() {
        return Ok(None);
    }
    let mut command = other_program::command(PROGRAM, PACKAGE)?;
    command.arg("share").arg(format!("--nodes={}", shares.nodes.join(",")));
    for (option, value) in [("id", id), ("procs", procs), ("tasks", tasks)] {
        command.args(value.map(|value| format!("--{option}={value}")));
    }
    if let Some(registry) = &shares.registry {
        command.arg("--registry").arg(registry);
    }
    command.arg("--").arg(name);
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output =
        command.output().map_err(|cause| CliError::system("cannot run m3-proxy", cause))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().strip_prefix("m3-proxy: ").unwrap_or(said.trim());
    if !output.status.success() {
        let what = "the slots cannot be shared";
        let (why, next) = said.rsplit_once("; ").unwrap_or((said, "see `m3-proxy share --help`"));
        return Err(CliError::failure(format!("{what}: {why}")).advice(next));
    }
    if !said.is_empty() {
        m3ipc_sys::tell!("{said}");
    }
    let written = String::from_utf8_lossy(&output.stdout);
    let id =
        written.trim().parse().map_err(|cause| CliError::system("m3-proxy tells no id", cause));
    id.map(Some)
}
