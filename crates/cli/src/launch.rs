//! Starts a daemon in the background: this program, as `m3 daemon --detach`.

use crate::error::{CliError, Result};
use m3ipc::Node;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts `m3 daemon` with `arguments`, which serves `directory` when this returns.
pub fn daemon(directory: &Path, arguments: &[OsString]) -> Result<Node> {
    if let Some(rights) = m3ipc_sys::extra_rights() {
        let what = format!("m3 has more rights than its user ({rights}), and starts no daemon");
        return Err(CliError::failure(what).advice(
            "start the node of the system as root: `systemctl start m3d`, or `m3d --system`",
        ));
    }
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
