//! Runtime directories, and the daemons that serve them.

use super::Finding;
use m3ipc::{Node, runtime};
use m3ipc_abi::Code;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub fn examine(directory: &Path) -> Vec<Finding> {
    let mut findings = vec![look("runtime directory", directory)];
    let others = [PathBuf::from(runtime::SYSTEM_DIRECTORY), runtime::user_directory()];
    for other in others.iter().filter(|other| *other != directory && other.exists()) {
        findings.push(look("another node", other));
    }
    findings
}

fn look(name: &'static str, directory: &Path) -> Finding {
    let path = directory.display();
    let Ok(found) = std::fs::symlink_metadata(directory) else {
        return Finding::note(name, format!("{path} is not there: no node runs; `m3 up` makes it"));
    };
    let (uid, mode) = (found.uid(), found.mode() & 0o7777);
    if !found.is_dir() || found.mode() & 0o022 != 0 {
        let is = format!(
            "{path} is no directory that only its owner writes (owner {uid}, mode {mode:o})"
        );
        return Finding::missing(name, is, "remove it, or name another one with M3_RUNTIME_DIR");
    }
    match Node::find(directory).and_then(|mut node| node.info()) {
        Ok(info) if info.version == env!("CARGO_PKG_VERSION") => Finding::ok(
            name,
            format!(
                "{path}: node {}, daemon {}, version {}, {} endpoints, {} links, {} takeovers",
                info.nodeid,
                info.daemon_pid,
                info.version,
                info.endpoints,
                info.links,
                info.takeovers
            ),
        ),
        Ok(info) => Finding::off(
            name,
            format!("{path}: daemon {} has version {}", info.daemon_pid, info.version),
            format!(
                "this is {}; they understand each other, `m3 down` and `m3 up` renew it",
                env!("CARGO_PKG_VERSION")
            ),
        ),
        Err(error) if error.code() == Code::Version => Finding::missing(
            name,
            format!("{path}: its daemon speaks another version"),
            "end it with the `m3 down` of its own version",
        ),
        Err(_) if directory.join("journal").exists() => Finding::off(
            name,
            format!("{path}: its daemon was killed"),
            "links go on working, and the next command starts a daemon that takes over",
        ),
        Err(error) => {
            Finding::note(name, format!("{path} (owner {uid}, mode {mode:o}): {}", error.why()))
        }
    }
}
