//! Starting a daemon in the background: this very program, as `m3 daemon`.

use crate::fail::{Fail, Result};
use m3ipc::Node;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a daemon may take until it answers.
const LIMIT: Duration = Duration::from_secs(5);

/// Starts `m3 daemon` with these arguments and waits until it serves `directory`.
pub fn daemon(directory: &Path, arguments: &[OsString]) -> Result<Node> {
    let program =
        std::env::current_exe().map_err(|cause| Fail::system("cannot find m3 itself", cause))?;
    let mut child = Command::new(program)
        .arg("daemon")
        .args(arguments)
        // It leaves this terminal's session, as after `--detach`.
        .env("M3_DETACHED", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|cause| Fail::system("cannot start the daemon", cause))?;
    let begun = Instant::now();
    loop {
        if let Ok(node) = Node::find(directory) {
            return Ok(node);
        }
        let ended =
            child.try_wait().map_err(|cause| Fail::system("cannot watch the daemon", cause))?;
        if ended.is_some() || begun.elapsed() > LIMIT {
            // Another may have been quicker: then that one serves.
            if let Ok(node) = Node::find(directory) {
                return Ok(node);
            }
            let how = ended.map_or("it does not answer".to_owned(), |status| status.to_string());
            let fail =
                Fail::system(format!("the daemon for {} did not start", directory.display()), how);
            return Err(fail.next(format!(
                "run it by hand to see why: m3 daemon --runtime-dir {}",
                directory.display()
            )));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
