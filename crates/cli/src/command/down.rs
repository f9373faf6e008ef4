//! `m3 down`: ends all VMs of the node, then the daemon.

use crate::error::{CliError, Result};
use crate::lookup;
use crate::options::NodeOptions;
use crate::output::Output;
use clap::Args;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// The time limit for the end of the daemon, and for the removal of its socket.
const END_TIMEOUT: Duration = Duration::from_secs(5);
const END_TIMEOUT_NS: u64 = 5_000_000_000;

/// End all VMs of the node, then the daemon; returns when the daemon has ended.
///
/// Members get SIGPIPE, and SIGKILL after the grace time of their VM.
///
/// Example: m3 down
#[derive(Args, Debug)]
pub struct Down {
    #[command(flatten)]
    node: NodeOptions,
}

/// Ends the node.
pub fn run(args: &Down, out: Output) -> Result<()> {
    let mut node = lookup::node(&args.node)?;
    let directory = node.directory().to_owned();
    let (vms, pid) = (node.vms()?.len(), node.info()?.daemon_pid);
    let daemon = m3ipc_sys::open_process(pid);
    node.end()?;
    // The daemon removes its socket before it ends. The socket of a service manager stays.
    if let Ok(daemon) = daemon {
        let ended = m3ipc_sys::wait_readable(&[daemon.as_fd()], END_TIMEOUT_NS);
        if ended != Ok(true) {
            let what = format!("the daemon (pid {pid}) ended its VMs");
            return Err(CliError::system(what, "but the process does not exit")
                .advice(format!("see its state with `cat /proc/{pid}/status`")));
        }
    } else {
        let start = Instant::now();
        while m3ipc::runtime::socket(&directory).exists() && start.elapsed() < END_TIMEOUT {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let value = serde_json::json!({ "directory": directory, "ended_vms": vms, "daemon_pid": pid });
    let text = format!("node at {} is down: {vms} VMs and daemon {pid} ended", directory.display());
    out.either(&value, text)
}
