//! Starts a daemon in the background: this program, as `m3 daemon`.

use crate::error::{CliError, Result};
use m3ipc::Node;
use m3ipc::runtime::{BackgroundError, serve_in_background};
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The longest time until a daemon serves.
const START_LIMIT_NS: u64 = 5_000_000_000;

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
    let words: Vec<&OsStr> = [OsStr::new("daemon")]
        .into_iter()
        .chain(arguments.iter().map(OsString::as_os_str))
        .collect();
    let deadline_ns = m3ipc_sys::monotonic_ns().saturating_add(START_LIMIT_NS);
    let started = serve_in_background(&program, &words, deadline_ns);
    match Node::find(directory) {
        // A daemon that another process started at the same time serves as well.
        Ok(node) => Ok(node),
        Err(error) => {
            let cause = match started {
                Ok(_warnings) => return Err(error.into()),
                Err(BackgroundError::Ended { said, .. }) if !said.trim().is_empty() => {
                    said.trim().trim_start_matches("m3d: ").to_owned()
                }
                Err(other) => other.to_string(),
            };
            let what = format!("the daemon for {} did not start", directory.display());
            Err(CliError::system(what, cause)
                .advice(format!("see its messages with `{}`", in_foreground(arguments))))
        }
    }
}

/// The command that starts the same daemon in the foreground, for a shell.
fn in_foreground(arguments: &[OsString]) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_./=,:".contains(letter);
    let mut command = "m3 daemon".to_owned();
    for word in arguments.iter().map(|word| word.to_string_lossy()) {
        match word.chars().all(is_plain) && !word.is_empty() {
            true => command.push_str(&format!(" {word}")),
            false => command.push_str(&format!(" '{}'", word.replace('\'', r"'\''"))),
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_keeps_all_arguments() {
        let words = ["--system", "--runtime-dir", "/tmp/a node"].map(OsString::from);
        assert_eq!(in_foreground(&words), "m3 daemon --system --runtime-dir '/tmp/a node'");
    }
}
