//! Children of this process, and orphans that become its children.
//!
//! A number names a child until this process has reaped it. So the calls that take a number are
//! safe for a child that is not reaped yet.
//!
//! # Safety
//! The kernel fills a local record.

#![allow(unsafe_code)]

use crate::errno::last_error;
use crate::process::{ProcessExit, Signal};
use rustix::io::Errno;
use rustix::process::{
    Pid, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpgid, getppid, kill_process_group,
    set_child_subreaper, waitid, waitpid,
};
use std::time::{Duration, Instant};

fn pid(number: i32) -> Result<Pid, Errno> {
    if number <= 1 { Err(Errno::SRCH) } else { Pid::from_raw(number).ok_or(Errno::SRCH) }
}

/// Makes this process the parent of orphans among its descendants, as process 1 is by itself.
///
/// # Errors
/// None in practice.
///
/// # Source
/// PR_SET_CHILD_SUBREAPER(2const)
pub fn adopt_orphans() -> Result<(), Errno> {
    // The kernel reads the number as a truth value.
    set_child_subreaper(Pid::from_raw(crate::process_id()))
}

/// The number of the parent; 0 if it lies outside of this PID namespace.
#[must_use]
pub fn parent_id() -> i32 {
    getppid().map_or(0, |pid| pid.as_raw_nonzero().get())
}

/// The process group of a process.
///
/// # Errors
/// `SRCH` if there is no such process.
pub fn process_group(number: i32) -> Result<i32, Errno> {
    Ok(getpgid(Some(pid(number)?))?.as_raw_nonzero().get())
}

/// Whether a child has ended. It keeps its number until [`reap`].
///
/// # Errors
/// `CHILD` if it is no child of this process.
pub fn has_child_ended(number: i32) -> Result<bool, Errno> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(WaitId::Pid(pid(number)?), options)?.is_some())
}

/// Reaps a child that has ended, and says how.
///
/// # Errors
/// `CHILD` if it is no child of this process; `AGAIN` if it has not ended.
pub fn reap(number: i32) -> Result<ProcessExit, Errno> {
    let (_, status) = waitpid(Some(pid(number)?), WaitOptions::NOHANG)?.ok_or(Errno::AGAIN)?;
    Ok(exit_of(status))
}

/// Any child that has ended and is not reaped; `None` if there is none.
///
/// # Errors
/// None but those of waitid(2); a process without children is no error.
pub fn ended_child() -> Result<Option<i32>, Errno> {
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    let mut found = core::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: the kernel fills the live record, or leaves its zeros: no child has ended.
    let failed = unsafe { libc::waitid(libc::P_ALL, 0, found.as_mut_ptr(), options) } != 0;
    if failed {
        return match last_error() {
            Errno::CHILD => Ok(None),
            errno => Err(errno),
        };
    }
    // SAFETY: a record of zeros, or one of a child; the number is in both.
    let number = unsafe { found.assume_init().si_pid() };
    Ok((number > 0).then_some(number))
}

/// The children of this process that are not reaped.
///
/// # Source
/// proc_pid_task(5), children
#[must_use]
pub fn children() -> Vec<i32> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.map(|thread| std::fs::read_to_string(thread.path().join("children")));
    match lists.collect::<Result<Vec<String>, _>>() {
        Ok(lists) => {
            let numbers = lists.iter().flat_map(|list| list.split_ascii_whitespace());
            numbers.filter_map(|number| number.parse().ok()).collect()
        }
        // The kernel was built without these files.
        Err(_) => {
            let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
            let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
            let own = crate::process_id();
            numbers.filter(|number| crate::process::parent_of(*number) == Ok(own)).collect()
        }
    }
}

/// The variables of a child at its last execve(2), each ended by a zero byte. While the child is
/// inside execve(2) they cannot be read, so they are asked again within the limit.
///
/// # Errors
/// `SRCH` if the child has ended; `ACCESS`; `TIMEDOUT`.
///
/// # Source
/// proc_pid_environ(5)
pub fn environment_of_child(child: i32, limit: Duration) -> Result<Vec<u8>, Errno> {
    let begun = Instant::now();
    loop {
        let variables = crate::process::read_proc_bytes(&format!("/proc/{child}/environ"))?;
        // Several reads make the whole, and an execve(2) between two of them cuts it.
        if crate::process::bytes_of_variables(child)? == Some(variables.len() as u64) {
            return Ok(variables);
        }
        if has_child_ended(child) != Ok(false) {
            return Err(Errno::SRCH);
        }
        if begun.elapsed() >= limit {
            return Err(Errno::TIMEDOUT);
        }
        std::thread::yield_now();
    }
}

fn exit_of(status: WaitStatus) -> ProcessExit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => ProcessExit::Code(code),
        (None, signal) => ProcessExit::Signal(signal.unwrap_or(0)),
    }
}

/// Sends a signal to the process group that a child leads. The child is not reaped yet.
///
/// # Errors
/// `SRCH` if the group is empty; `PERM`.
pub fn signal_group(leader: i32, signal: Signal) -> Result<(), Errno> {
    kill_process_group(pid(leader)?, signal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;

    #[test]
    fn a_child_keeps_its_number_until_it_is_reaped() {
        let child = std::process::Command::new("sleep").arg("1000").process_group(0).spawn();
        let number = child.unwrap().id().cast_signed();
        assert_eq!(process_group(number), Ok(number));
        assert_eq!(has_child_ended(number), Ok(false));
        assert_eq!(reap(number), Err(Errno::AGAIN));
        signal_group(number, Signal::KILL).unwrap();
        while has_child_ended(number) == Ok(false) {}
        assert_eq!(has_child_ended(number), Ok(true));
        assert_eq!(reap(number), Ok(ProcessExit::Signal(9)));
        assert_eq!(has_child_ended(number), Err(Errno::CHILD));
    }

    #[test]
    fn the_environment_of_a_child_is_read_beside_its_execs() {
        let limit = Duration::from_secs(60);
        let started = |program: &str, words: &[&str], variables: &[(&str, &str)]| {
            let mut command = std::process::Command::new(program);
            command.args(words).env_clear().envs(variables.iter().copied()).process_group(0);
            command.stdout(std::process::Stdio::null());
            let child = command.spawn().unwrap().id().cast_signed();
            // The start returns when execve(2) lets go of the memory of this process, and a moment
            // later the child has its own.
            let own = std::env::current_exe().unwrap();
            while std::fs::read_link(format!("/proc/{child}/exe")).unwrap() == own {}
            child
        };
        // It executes itself for ever.
        let line = "exec /bin/sh -c \"$0\" \"$0\"";
        let busy = started("/bin/sh", &["-c", line, line], &[("M3_TEST", "own")]);
        let text = "x".repeat(40_000);
        let long = [("M3_LONG", text.as_str()), ("M3_TEST", "own")];
        let long = started("/bin/sh", &["-c", line, line], &long);
        for child in [busy, long] {
            for _ in 0..1_000 {
                let variables = environment_of_child(child, limit).unwrap();
                assert!(variables.split(|byte| *byte == 0).any(|it| it == b"M3_TEST=own"));
            }
        }
        let bare = started("/bin/sleep", &["1000"], &[]);
        assert_eq!(environment_of_child(bare, limit), Ok(Vec::new()));
        for child in [busy, long, bare] {
            signal_group(child, Signal::KILL).unwrap();
            while has_child_ended(child) == Ok(false) {}
            assert_eq!(environment_of_child(child, limit), Err(Errno::SRCH));
            assert_eq!(reap(child), Ok(ProcessExit::Signal(9)));
        }
    }

    #[test]
    fn no_number_of_a_group_of_others_is_signalled() {
        for number in [i32::MIN, -1, 0, 1] {
            assert_eq!(signal_group(number, Signal::WINCH), Err(Errno::SRCH));
        }
    }
}
