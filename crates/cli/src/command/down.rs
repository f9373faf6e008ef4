//! `m3 down`: ends all VMs of the node, then its daemon.

use crate::cli::Common;
use crate::fail::{Fail, Result};
use crate::out::Out;
use crate::reach;
use clap::Args;
use std::time::{Duration, Instant};

/// How long the daemon may take to clear up.
const LIMIT: Duration = Duration::from_secs(5);

/// End the node.
#[derive(Args, Debug)]
pub struct Down {
    #[command(flatten)]
    pub common: Common,
}

/// Ends it; returns when its daemon has left.
pub fn run(args: &Down, out: Out) -> Result<()> {
    let mut node = reach::node(&args.common)?;
    let directory = node.directory().to_owned();
    let (vms, pid) = (node.vms()?.len(), node.info()?.daemon_pid);
    let watch = m3ipc_sys::open_process(pid);
    node.end()?;
    if let Ok(watch) = watch {
        let left = m3ipc_sys::wait_readable(&[rustix::fd::AsFd::as_fd(&watch)], 5_000_000_000);
        if left != Ok(true) {
            let what = format!("the daemon (pid {pid}) has ended its VMs");
            return Err(Fail::system(what, "but it does not leave")
                .next(format!("look at it: ls /proc/{pid}")));
        }
    }
    let begun = Instant::now();
    while m3ipc::runtime::socket(&directory).exists() && begun.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(1));
    }
    let value = serde_json::json!({ "directory": directory, "ended_vms": vms, "daemon_pid": pid });
    out.either(
        &value,
        format!("node at {} is down: {vms} VMs ended, daemon {pid} has left", directory.display()),
    )
}
