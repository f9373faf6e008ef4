//! `m3 up`: starts the node daemon in the background.

use crate::error::{CliError, Result};
use crate::launch;
use crate::output::Output;
use clap::Args;
use m3ipc::{Node, NodeError};
use std::ffi::OsString;
use std::path::Path;

/// Start the node daemon in the background; returns when it serves.
///
/// `m3 vm create` starts a daemon too, which ends soon after its last VM.
///
/// Example: m3 up --runtime-dir /tmp/node
#[derive(Args, Debug)]
pub struct Up {
    #[command(flatten)]
    daemon: m3ipc_daemon::Args,
}

/// Starts the daemon; an error if the directory has one.
pub fn run(args: &Up, out: Output) -> Result<()> {
    let settings = m3ipc_daemon::Settings::resolve(&args.daemon, &m3ipc_sys::text_variable);
    let directory = settings.map_err(|error| CliError::usage(error.to_string()))?.runtime_dir;
    match Node::find(&directory) {
        Ok(mut node) => {
            let pid = node.info()?.daemon_pid;
            let what = format!("a daemon (pid {pid}) serves {} already", directory.display());
            return Err(CliError::busy(what).advice("use that node, or end it with `m3 down`"));
        }
        Err(NodeError::NotRunning(_)) => {}
        Err(other) => return Err(other.into()),
    }
    let mut arguments = passed_on(std::env::args_os());
    if args.daemon.runtime_dir.is_none() {
        arguments.extend(["--runtime-dir".into(), directory.clone().into_os_string()]);
    }
    let info = launch::daemon(&directory, &arguments)?.info()?;
    let text = format!(
        "node {} is up: daemon {} serves {}\n    VMs: m3 vm create NAME    end: m3 down{}",
        info.nodeid,
        info.daemon_pid,
        directory.display(),
        export_hint(&directory),
    );
    let value = serde_json::json!({ "directory": directory, "node": info });
    out.either(&value, text)
}

/// The daemon's flags as written: the words after `up`.
fn passed_on(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let after = words.skip_while(|word| word != "up").skip(1);
    after.filter(|word| word != "--json" && word != "--detach").collect()
}

/// The variable that makes other commands find a node outside the default directory.
fn export_hint(directory: &Path) -> String {
    if directory == m3ipc::runtime::directory() {
        return String::new();
    }
    let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    format!("\n    other commands find it with: export M3_RUNTIME_DIR={}", directory.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_after_up_are_passed_to_the_daemon() {
        let words = ["m3", "--json", "up", "--nodeid", "3", "--detach"].map(OsString::from);
        assert_eq!(passed_on(words.into_iter()), ["--nodeid", "3"]);
    }
}
