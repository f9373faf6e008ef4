//! Runtime directories and their daemons.

use super::finding::Finding;
use m3ipc::runtime::{self, DirectoryError};
use m3ipc::{Node, NodeError, QuotaUse, UserUse};
use m3ipc_abi::Code;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Runs the checks of this group.
pub fn examine(directory: &Path) -> Vec<Finding> {
    let mut findings = vec![examine_directory("runtime directory", directory)];
    findings.extend(quotas(directory));
    let others = [PathBuf::from(runtime::SYSTEM_DIRECTORY), runtime::user_directory()];
    for other in others.iter().filter(|other| *other != directory && other.exists()) {
        findings.push(examine_directory("another node", other));
    }
    findings
}

/// What each user holds of the node's daemon, and its quotas.
fn quotas(directory: &Path) -> Vec<Finding> {
    if runtime::check(directory).is_err() {
        return Vec::new();
    }
    let users = Node::find(directory).and_then(|mut node| node.usage()).unwrap_or_default();
    users.iter().map(quotas_of).collect()
}

fn quotas_of(user: &UserUse) -> Finding {
    let text = |quota: &QuotaUse| match quota.limit {
        Some(limit) => format!("{} {} of {limit}", quota.name, quota.used),
        None => format!("{} {}", quota.name, quota.used),
    };
    let all: Vec<String> = user.quotas.iter().map(text).collect();
    let is = format!("user {}: {}", user.uid, all.join(", "));
    match user.quotas.iter().find(|quota| quota.limit.is_some_and(|limit| quota.used >= limit)) {
        Some(full) => Finding::off(
            "quotas",
            is,
            format!("requests of this user beyond its {} are refused; others go on", full.name),
        ),
        None => Finding::note("quotas", is),
    }
}

fn examine_directory(name: &'static str, directory: &Path) -> Finding {
    let path = directory.display();
    if let Err(error) = runtime::check(directory) {
        return match error {
            DirectoryError::Unusable { cause, .. } if cause.kind() == ErrorKind::NotFound => {
                Finding::note(name, format!("{path} is absent; `m3 up` starts a node"))
            }
            error => untrusted(name, &error.to_string()),
        };
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
                "m3 has version {}, which is compatible; restart with `m3 down` and `m3 up`",
                env!("CARGO_PKG_VERSION")
            ),
        ),
        Err(error) if error.code() == Code::Version => Finding::missing(
            name,
            format!("{path}: its daemon has an incompatible version"),
            "end it with `m3 down` of that version",
        ),
        Err(NodeError::Untrusted(refusal)) => untrusted(name, refusal.why()),
        Err(_) if directory.join("journal").exists() => Finding::off(
            name,
            format!("{path}: its daemon was killed"),
            "links go on working; the next command starts a daemon that takes over",
        ),
        Err(error) => Finding::note(name, format!("{path}: {}", error.why())),
    }
}

/// A directory or a daemon that no program should use. The text behind the last semicolon is the
/// next step.
fn untrusted(name: &'static str, text: &str) -> Finding {
    let (is, next) = text.rsplit_once("; ").unwrap_or((text, "name another in M3_RUNTIME_DIR"));
    Finding::missing(name, is, next)
}
