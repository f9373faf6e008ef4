//! Runtime directories and their daemons.

use super::finding::Finding;
use m3ipc::runtime::{self, DirectoryError};
use m3ipc::{Node, NodeError, NodeInfo, QuotaUse, UserUse};
use rustix::fs::{Access, access};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Runs the checks of this group.
pub fn examine(directory: &Path) -> Vec<Finding> {
    let mut findings = examine_directory("runtime directory", directory);
    let others = [PathBuf::from(runtime::SYSTEM_DIRECTORY), runtime::user_directory()];
    for other in others.iter().filter(|other| *other != directory && other.exists()) {
        // The quotas are those of the chosen node alone.
        let found = examine_directory("another node", other).into_iter().take(1);
        findings.extend(found.map(Finding::not_needed));
    }
    findings
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

/// The state of a directory and its daemon, then what each user holds of the daemon.
fn examine_directory(name: &'static str, directory: &Path) -> Vec<Finding> {
    let path = directory.display();
    if let Err(error) = runtime::check(directory) {
        return vec![match error {
            DirectoryError::Unusable { cause, .. } if cause.kind() == ErrorKind::NotFound => {
                Finding::note(name, format!("{path} is absent; `m3 up` starts a node"))
            }
            error => fault(name, &error.to_string()),
        }];
    }
    let asked = Node::find(directory).and_then(|mut node| Ok((node.info()?, node.usage())));
    match asked {
        Ok((info, users)) => {
            let mut findings = vec![daemon(name, directory, &info)];
            findings.extend(users.iter().flatten().map(quotas_of));
            findings
        }
        Err(error) => vec![without_daemon(name, directory, &error)],
    }
}

/// A daemon that answers.
fn daemon(name: &'static str, directory: &Path, info: &NodeInfo) -> Finding {
    let (path, own) = (directory.display(), env!("CARGO_PKG_VERSION"));
    if info.version != own {
        return Finding::off(
            name,
            format!("{path}: daemon {} has version {}", info.daemon_pid, info.version),
            format!(
                "m3 has version {own}, which is compatible; restart with `m3 down` and `m3 up`"
            ),
        );
    }
    Finding::ok(
        name,
        format!(
            "{path}: node {}, daemon {}, version {}, {} endpoints, {} links, {} takeovers",
            info.nodeid, info.daemon_pid, info.version, info.endpoints, info.links, info.takeovers
        ),
    )
}

/// A directory whose daemon gives no answer.
fn without_daemon(name: &'static str, directory: &Path, error: &NodeError) -> Finding {
    let path = directory.display();
    match error {
        NodeError::Version(_) => Finding::missing(
            name,
            format!("{path}: its daemon has an incompatible version"),
            "end it with `m3 down` of that version",
        ),
        // A daemon that runs and gives no welcome.
        NodeError::NotRunning(_) if runtime::connect(directory).is_ok() => fault(name, error.why()),
        NodeError::NotRunning(_) if directory.join("journal").exists() => {
            match obstacle(directory) {
                Some(why) => fault(name, &format!("{path}: its daemon was killed, and {why}")),
                None => Finding::off(
                    name,
                    format!("{path}: its daemon was killed"),
                    "links go on working; the next command starts a daemon that takes over",
                ),
            }
        }
        NodeError::NotRunning(refusal) => Finding::note(name, format!("{path}: {}", refusal.why())),
        error => fault(name, error.why()),
    }
}

/// Why this process cannot start the successor of a killed daemon.
fn obstacle(directory: &Path) -> Option<String> {
    match access(directory, Access::WRITE_OK) {
        Err(errno) => Some(format!(
            "this process cannot write there: {errno}; start `m3 up` where the directory can be \
             written, as its user"
        )),
        Ok(()) => m3ipc_daemon::takeover_obstacle(directory),
    }
}

/// A directory or a daemon that no program can or should use. The text behind the last semicolon is
/// the next step.
fn fault(name: &'static str, text: &str) -> Finding {
    let (is, next) = text.rsplit_once("; ").unwrap_or((text, "name another in M3_RUNTIME_DIR"));
    Finding::missing(name, is, next)
}
