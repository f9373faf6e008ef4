//! Starts a daemon in the background: this program, as `m3 daemon`.

use crate::error::{CliError, Result, is_final};
use m3ipc::Node;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The longest time until a new daemon answers.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// Starts `m3 daemon` with `arguments` and waits until it serves `directory`.
pub fn daemon(directory: &Path, arguments: &[OsString]) -> Result<Node> {
    let program = std::env::current_exe()
        .map_err(|cause| CliError::system("cannot find the program m3", cause))?;
    let mut child = Command::new(program)
        .arg("daemon")
        .args(arguments)
        // The daemon then leaves the session of this terminal, as with `--detach`.
        .env("M3_DETACHED", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|cause| CliError::system("cannot start the daemon", cause))?;
    let start = Instant::now();
    loop {
        match Node::find(directory) {
            Ok(node) => return Ok(node),
            Err(error) if is_final(error.code()) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(error.into());
            }
            Err(_) => {}
        }
        let status = child
            .try_wait()
            .map_err(|cause| CliError::system("cannot wait for the daemon", cause))?;
        if status.is_some() || start.elapsed() > START_TIMEOUT {
            // A daemon that another process started at the same time serves as well.
            if let Ok(node) = Node::find(directory) {
                return Ok(node);
            }
            let cause = status.map_or("it does not answer".to_owned(), |status| status.to_string());
            let what = format!("the daemon for {} did not start", directory.display());
            return Err(CliError::system(what, cause).advice(format!(
                "see its messages with `m3 daemon --runtime-dir {}`",
                directory.display()
            )));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
