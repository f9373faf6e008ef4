//! The hidden subcommand `__demo`: a process of the demonstration.

use super::role::{DemoRole, node_directory};
use super::{baseline, client, server};
use crate::error::{CliError, Result};
use clap::Args;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// The pause after a failed removal of the directory.
const REMOVAL_INTERVAL: Duration = Duration::from_millis(1);

/// A process of the demonstration.
#[derive(Args, Debug)]
pub struct DemoProcess {
    /// The role.
    #[arg(value_enum)]
    role: DemoRole,
    /// The directory of the demonstration.
    directory: PathBuf,
    /// The process that started this one.
    #[arg(long)]
    parent: Option<u32>,
    /// The CPU of this process.
    #[arg(long)]
    cpu: Option<usize>,
    /// The CPU of the partner.
    #[arg(long)]
    partner_cpu: Option<usize>,
}

/// Runs the role until its end.
pub fn run(process: &DemoProcess) -> Result<ExitCode> {
    if process.role == DemoRole::Daemon {
        return Ok(daemon(&process.directory));
    }
    m3ipc_sys::die_with_parent()
        .map_err(|errno| CliError::system("cannot follow the death of the parent", errno))?;
    // A parent that died before that call sent no signal.
    if process.parent.is_some_and(|parent| parent != std::os::unix::process::parent_id()) {
        return Ok(ExitCode::FAILURE);
    }
    if let Some(cpu) = process.cpu {
        m3ipc_sys::pin_to(cpu)
            .map_err(|errno| CliError::system(format!("cannot run on CPU {cpu}"), errno))?;
    }
    let node = node_directory(&process.directory);
    match process.role {
        DemoRole::Daemon => {}
        DemoRole::Server => server::run(&node)?,
        DemoRole::Client => client::run(&node, &process.directory, process.partner_cpu)?,
        DemoRole::Echo => baseline::echo()?,
        DemoRole::Sink => baseline::sink()?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Serves the node until standard input ends, which any end of the parent causes.
fn daemon(directory: &Path) -> ExitCode {
    let to_remove = directory.to_owned();
    std::thread::spawn(move || {
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        // The node may create or remove files meanwhile, which makes a removal fail.
        while std::fs::remove_dir_all(&to_remove).is_err() && to_remove.exists() {
            std::thread::sleep(REMOVAL_INTERVAL);
        }
        std::process::exit(0);
    });
    m3ipc_daemon::run(&m3ipc_daemon::Args {
        runtime_dir: Some(node_directory(directory)),
        log_level: Some(m3ipc_daemon::LogLevel::Error),
        ..m3ipc_daemon::Args::default()
    })
}
