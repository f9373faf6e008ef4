//! What stands between processes, and which of the three modes that grants.

use super::{Finding, read};

/// Inode numbers of the machine's first namespaces (fixed in the kernel, proc_ns.h).
const FIRST_USER: &str = "user:[4026531837]";
const FIRST_PID: &str = "pid:[4026531836]";

pub fn examine() -> Vec<Finding> {
    let yama = read("/proc/sys/kernel/yama/ptrace_scope");
    vec![
        namespace("user namespace", "user", FIRST_USER),
        namespace("pid namespace", "pid", FIRST_PID),
        seccomp(),
        ptrace(yama.as_deref()),
        mode(yama.as_deref()),
    ]
}

fn namespace(name: &'static str, kind: &str, first: &str) -> Finding {
    match std::fs::read_link(format!("/proc/self/ns/{kind}")) {
        Ok(own) if own.as_os_str() == first => Finding::note(name, "the machine's own"),
        Ok(own) => Finding::note(
            name,
            format!("one of its own ({}): daemon and members must share it", own.display()),
        ),
        Err(cause) => Finding::note(name, format!("cannot be seen: {cause}")),
    }
}

fn seccomp() -> Finding {
    let status = read("/proc/self/status").unwrap_or_default();
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:")).map(str::trim);
    let is = match mode {
        Some("0") => "no filter",
        Some("1") => "strict",
        Some("2") => "a filter is on; what it lets through shows above",
        _ => "the kernel does not say",
    };
    Finding::note("seccomp", is)
}

fn ptrace(scope: Option<&str>) -> Finding {
    let is = match scope {
        Some("0") => "0: any process may ptrace those of its user",
        Some("1") => "1: a process may ptrace its descendants only",
        Some("2") => "2: only an administrator may ptrace",
        Some("3") => "3: nobody may ptrace",
        _ => "not there: any process may ptrace those of its user",
    };
    Finding::note("Yama ptrace_scope", is)
}

/// The mode in which members of this user meet each other.
fn mode(scope: Option<&str>) -> Finding {
    let system = m3ipc::runtime::socket(m3ipc::runtime::SYSTEM_DIRECTORY.as_ref()).exists();
    let is = match (system, scope) {
        (true, _) => {
            "strict between users: the system's daemon runs under its own; same user among those of one user"
        }
        (false, Some("2" | "3")) => {
            "same user, walled by Yama: a member cannot ptrace another, but it can send it signals"
        }
        (false, _) => {
            "same user: all promises hold against accidents, not against a hostile process of this user"
        }
    };
    let mut finding = Finding::note("mode granted", is);
    if !system {
        finding.instead = Some(
            "for strict, let members be different users under the system's daemon (m3 daemon --system), or each in \
             its own user and pid namespace; open (copies by process_vm) promises nothing inside the group"
                .to_owned(),
        );
    }
    finding
}
