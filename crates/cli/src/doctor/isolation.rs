//! Isolation between processes, and the mode of trust that follows from it.

use super::finding::{Finding, read};
use std::path::Path;

/// Inode numbers of the initial namespaces, which the kernel fixes in proc_ns.h.
const INITIAL_USER: &str = "user:[4026531837]";
const INITIAL_PID: &str = "pid:[4026531836]";

/// Runs the checks of this group, for the node of this runtime directory.
pub fn examine(directory: &Path) -> Vec<Finding> {
    let yama = read("/proc/sys/kernel/yama/ptrace_scope");
    vec![
        namespace("user namespace", "user", INITIAL_USER),
        namespace("pid namespace", "pid", INITIAL_PID),
        seccomp(),
        ptrace(yama.as_deref()),
        mode(directory, yama.as_deref()),
    ]
}

fn namespace(name: &'static str, kind: &str, initial: &str) -> Finding {
    match std::fs::read_link(format!("/proc/self/ns/{kind}")) {
        Ok(own) if own.as_os_str() == initial => Finding::note(name, "the initial namespace"),
        Ok(own) => Finding::note(
            name,
            format!("not the initial one ({}): daemon and members must share it", own.display()),
        ),
        Err(cause) => Finding::note(name, format!("unknown: {cause}")),
    }
}

fn seccomp() -> Finding {
    let status = read("/proc/self/status").unwrap_or_default();
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:")).map(str::trim);
    let is = match mode {
        Some("0") => "no filter",
        Some("1") => "strict",
        Some("2") => "a filter is on; the checks above show its effect",
        _ => "unknown: /proc/self/status has no such line",
    };
    Finding::note("seccomp", is)
}

fn ptrace(scope: Option<&str>) -> Finding {
    let is = match scope {
        Some("0") => "0: a process may ptrace all processes of its user",
        Some("1") => "1: a process may ptrace only its descendants",
        Some("2") => "2: only an administrator may ptrace",
        Some("3") => "3: no process may ptrace",
        _ => "absent: a process may ptrace all processes of its user",
    };
    Finding::note("Yama ptrace_scope", is)
}

/// The mode of trust among members of this user.
fn mode(directory: &Path, scope: Option<&str>) -> Finding {
    let is_system = directory == Path::new(m3ipc::runtime::SYSTEM_DIRECTORY);
    let system = is_system && m3ipc::runtime::socket(directory).exists();
    let is = match (system, scope) {
        (true, _) => {
            "strict between users: the system daemon has a user of its own; same-user within a user"
        }
        (false, Some("2" | "3")) => {
            "same-user with Yama: a member cannot ptrace another member, but can send signals"
        }
        (false, _) => {
            "same-user: promises hold against accidents, not against a hostile process of this user"
        }
    };
    let finding = Finding::note("mode of trust", is);
    if system {
        return finding;
    }
    finding.with_advice(
        "for strict, run members as different users under the system daemon \
         (`m3 daemon --system`), or each in a user and pid namespace of its own",
    )
}
