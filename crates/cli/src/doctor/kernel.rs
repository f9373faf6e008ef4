//! Features of the kernel.

use super::finding::{Finding, read};
use crate::cpus::Cpus;
use rustix::io::Errno;
use std::os::fd::AsFd;

/// Runs the checks of this group.
pub fn examine() -> Vec<Finding> {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy().into_owned();
    vec![
        version(&release),
        proc(m3ipc_sys::process_start_ticks(m3ipc_sys::process_id())),
        page_size(m3ipc_sys::page_bytes()),
        sealing(),
        futex_waitv(m3ipc_sys::try_wait_any()),
        pidfd(),
        pidfd_thread(),
        peer_pidfd(&release),
        pass_rights(),
        cpus(),
    ]
}

/// The major and minor number of a release.
fn numbers(release: &str) -> (u32, u32) {
    let mut numbers = release.split(['.', '-']).map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn version(release: &str) -> Finding {
    let is = format!("Linux {release}, {}", std::env::consts::ARCH);
    if numbers(release) >= (5, 16) {
        return Finding::ok("version", is);
    }
    Finding::off("version", is, "m3ipc is tested from Linux 5.16 on; see futex_waitv")
}

/// The daemon tells a process from a later one of the same number by its start in /proc.
fn proc(own_start: Result<u64, Errno>) -> Finding {
    let name = "/proc";
    if let Err(errno) = own_start {
        let is = format!("this process does not see itself there: {errno}");
        return Finding::missing(name, is, "mount proc: without it no daemon admits a program");
    }
    let mounts = read("/proc/self/mountinfo").unwrap_or_default();
    match hidden(&mounts) {
        None => Finding::ok(name, "processes of all users are seen"),
        Some(option) => Finding::off(
            name,
            format!("mounted with {option}"),
            "a daemon of another user than root refuses programs of other users; mount proc with \
             gid= of a group of the daemon's user",
        ),
    }
}

/// The option of the mount at /proc that hides processes.
fn hidden(mounts: &str) -> Option<&str> {
    let line = mounts.lines().rev().find(|line| line.split(' ').nth(4) == Some("/proc"))?;
    let option = line.split([' ', ',']).find(|option| option.starts_with("hidepid="))?;
    (!matches!(option, "hidepid=0" | "hidepid=off")).then_some(option)
}

fn page_size(bytes: u64) -> Finding {
    const COMMON: u64 = 4096;
    let name = "page size";
    if bytes == COMMON {
        return Finding::ok(name, format!("{bytes} bytes"));
    }
    Finding::off(
        name,
        format!("{bytes} bytes"),
        format!(
            "a link and each page of an endpoint take {} times the memory of other machines, and \
             quotas count it",
            bytes / COMMON
        ),
    )
}

fn sealing() -> Finding {
    match m3ipc_sys::create_memory("m3-doctor", 4096) {
        Ok(_) => Finding::ok("memfd sealing", "anonymous memory of a sealed size"),
        Err(errno) => Finding::missing(
            "memfd sealing",
            errno.to_string(),
            "allow memfd_create in the seccomp filter",
        ),
    }
}

fn futex_waitv(tried: Result<(), Errno>) -> Finding {
    let cause = match tried {
        Ok(()) => {
            return Finding::ok("futex_waitv", "an endpoint can sleep on up to 128 links at once");
        }
        Err(Errno::NOSYS) => "not before Linux 5.16, or refused by a seccomp filter".to_owned(),
        Err(errno) => format!("refused by a seccomp filter: {errno}"),
    };
    Finding::off(
        "futex_waitv",
        cause,
        "a sleeping endpoint looks at its links once a millisecond, and the node learns of a \
         death when the memory of the process is free",
    )
}

fn pidfd() -> Finding {
    match m3ipc_sys::open_process(m3ipc_sys::process_id()) {
        Ok(_) => Finding::ok(
            "pidfd",
            "a death is detected at once, without confusion of process numbers",
        ),
        Err(errno) => {
            Finding::missing("pidfd", errno.to_string(), "allow pidfd_open in the seccomp filter")
        }
    }
}

fn pidfd_thread() -> Finding {
    let look = || m3ipc_sys::open_thread(m3ipc_sys::thread_id()).map(drop);
    let started = std::thread::Builder::new().spawn(look);
    let tried = match started.map(std::thread::JoinHandle::join) {
        Ok(tried) => tried,
        Err(cause) => {
            let next =
                "allow clone3 and clone in the seccomp filter, or raise the limit of threads";
            return Finding::missing("threads", format!("none can be started: {cause}"), next);
        }
    };
    match tried {
        Ok(Ok(())) => Finding::ok("PIDFD_THREAD", "the end of a bound thread is detected at once"),
        _ => Finding::off(
            "PIDFD_THREAD",
            "not before Linux 6.9",
            "the liveness lock and /proc report the end of a bound thread; without futex_waitv or \
             /proc its endpoint lasts as long as the process",
        ),
    }
}

fn peer_pidfd(release: &str) -> Finding {
    // A trial cannot distinguish the option from its fallback, so the version decides.
    if numbers(release) >= (6, 5) {
        return Finding::ok(
            "SO_PEERPIDFD",
            "the daemon knows a member by a descriptor, not by a number (judged by the version)",
        );
    }
    Finding::off(
        "SO_PEERPIDFD",
        "not before Linux 6.5",
        "pidfd_open by number, and a check of the start time",
    )
}

fn pass_rights() -> Finding {
    let name = "SO_PASSRIGHTS";
    match receives_descriptors() {
        Ok(false) => {
            Finding::ok(name, "the kernel refuses descriptors that any process sends to the daemon")
        }
        Ok(true) => Finding::off(
            name,
            "not before Linux 6.16",
            "the daemon receives without a control buffer, so the kernel drops descriptors",
        ),
        Err(errno) => Finding::note(name, format!("the trial failed: {errno}")),
    }
}

/// Whether a socket that refuses descriptors receives one.
fn receives_descriptors() -> Result<bool, Errno> {
    let path = std::env::temp_dir().join(format!("m3-doctor-{}.sock", std::process::id()));
    let tried = (|| {
        let listener = m3ipc_sys::listen(&path, 0o600)?;
        let sender = m3ipc_sys::connect(&path)?;
        let receiver = m3ipc_sys::accept(&listener)?;
        match m3ipc_sys::send_packet(&sender, b"x", &[sender.as_fd()], false) {
            // The sender gets the refusal, and the receiver gets no packet.
            Err(Errno::PERM) => return Ok(false),
            other => other?,
        }
        let packet = m3ipc_sys::receive_packet(&receiver, &mut [0; 8], false, true)?;
        Ok(!packet.fds.is_empty())
    })();
    let _ = std::fs::remove_file(&path);
    tried
}

fn cpus() -> Finding {
    match Cpus::allowed().allowed.len() {
        0 => Finding::note("CPUs", "the kernel reports none"),
        1 => Finding::off(
            "CPUs",
            "1",
            "endpoints sleep at once, because spinning gains nothing on one CPU",
        ),
        count => {
            Finding::ok("CPUs", format!("{count}; a call between two CPUs needs no system call"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::FindingState;

    #[test]
    fn suffixes_of_releases_are_ignored() {
        assert_eq!(numbers("6.12-rc1+"), (6, 12));
        assert_eq!(numbers("5.15.0-91-generic"), (5, 15));
        assert_eq!(numbers("strange"), (0, 0));
    }

    #[test]
    fn what_a_mount_of_proc_hides_is_named() {
        let mount = |options| format!("1 2 0:5 / /proc rw,nosuid - proc proc rw,{options}\n");
        assert_eq!(hidden(&mount("gid=5,hidepid=invisible")), Some("hidepid=invisible"));
        assert_eq!(hidden(&mount("hidepid=2")), Some("hidepid=2"));
        assert_eq!(hidden(&mount("hidepid=off")), None);
        assert_eq!(hidden("1 2 0:5 / /proc rw - proc proc rw\n"), None);
        assert_eq!(proc(Err(Errno::SRCH)).state, FindingState::Missing);
    }

    #[test]
    fn another_page_size_is_named() {
        assert_eq!(page_size(4096).state, FindingState::Ok);
        let found = page_size(16384);
        assert_eq!((found.state, found.is.as_str()), (FindingState::Off, "16384 bytes"));
    }

    #[test]
    fn an_endpoint_sleeps_without_futex_waitv_too() {
        for refusal in [Errno::NOSYS, Errno::PERM] {
            let found = futex_waitv(Err(refusal));
            assert_eq!(found.state, FindingState::Off);
            assert!(found.instead.is_some_and(|fallback| fallback.contains("once a millisecond")));
        }
        assert_eq!(futex_waitv(Ok(())).state, FindingState::Ok);
        assert_eq!(version("5.10.0-21-amd64").state, FindingState::Off);
    }
}
