//! Starts a daemon in the background: this program, as `m3 daemon --detach`.

use crate::error::{CliError, Result};
use m3ipc::Node;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts `m3 daemon` with `arguments`, which serves `directory` when this returns.
pub fn daemon(directory: &Path, arguments: &[OsString]) -> Result<Node> {
    let program = std::env::current_exe()
        .map_err(|cause| CliError::system("cannot find the program m3", cause))?;
    let started = Command::new(program)
        .arg("daemon")
        .args(arguments)
        .arg("--detach")
        .stdin(Stdio::null())
        .output()
        .map_err(|cause| CliError::system("cannot start the daemon", cause))?;
    match Node::find(directory) {
        // A daemon that another process started at the same time serves as well.
        Ok(node) => Ok(node),
        Err(error) if started.status.success() => Err(error.into()),
        Err(_) => {
            let said = String::from_utf8_lossy(&started.stderr);
            let cause = match said.trim() {
                "" => started.status.to_string(),
                said => said.trim_start_matches("m3d: ").to_owned(),
            };
            let what = format!("the daemon for {} did not start", directory.display());
            Err(CliError::system(what, cause).advice(format!(
                "see its messages with `m3 daemon --runtime-dir {}`",
                directory.display()
            )))
        }
    }
}
