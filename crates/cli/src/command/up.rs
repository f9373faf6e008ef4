//! `m3 up`: starts the node daemon in the background.

use crate::cli::Format;
use crate::fail::{Fail, Result};
use crate::out::Out;
use crate::start;
use clap::Args;
use m3ipc::Node;
use std::ffi::OsString;

/// Start the node daemon.
#[derive(Args, Debug)]
pub struct Up {
    #[command(flatten)]
    pub format: Format,
    #[command(flatten)]
    daemon: m3ipc_daemon::Args,
}

/// Starts it, or says that one runs.
pub fn run(args: &Up, out: Out) -> Result<()> {
    let settings = m3ipc_daemon::Settings::resolve(&args.daemon, &|name| std::env::var(name).ok());
    let directory = settings.map_err(|error| Fail::usage(error.to_string()))?.runtime_dir;
    if let Ok(mut node) = Node::find(&directory) {
        let pid = node.info()?.daemon_pid;
        let what = format!("a node daemon (pid {pid}) serves {} already", directory.display());
        return Err(Fail::busy(what).next("use it, or end it with `m3 down`"));
    }
    let mut words = passed_on(std::env::args_os());
    if args.daemon.runtime_dir.is_none() {
        words.extend(["--runtime-dir".into(), directory.clone().into_os_string()]);
    }
    let info = start::daemon(&directory, &words)?.info()?;
    let text = format!(
        "node {} is up: daemon {} serves {}\n    VMs: m3 vm create NAME    end: m3 down{}",
        info.nodeid,
        info.daemon_pid,
        directory.display(),
        elsewhere(&directory),
    );
    let value = serde_json::json!({ "directory": directory, "node": info });
    out.either(&value, text)
}

/// The flags of the daemon, as they were written.
fn passed_on(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let after = words.skip_while(|word| word != "up").skip(1);
    after.filter(|word| word != "--json" && word != "--detach").collect()
}

/// What finds a node that is not where it is looked for.
fn elsewhere(directory: &std::path::Path) -> String {
    if directory == m3ipc::runtime::directory() {
        return String::new();
    }
    format!("\n    it is found with: export M3_RUNTIME_DIR={}", directory.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_after_up_are_the_daemons() {
        let words = ["m3", "--json", "up", "--nodeid", "3", "--detach"].map(OsString::from);
        assert_eq!(passed_on(words.into_iter()), ["--nodeid", "3"]);
    }
}
