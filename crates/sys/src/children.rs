//! Children of this process, and orphans that become its children.
//!
//! A number names a child until this process has reaped it. So the calls that take a number are
//! safe for a child that is not reaped yet.

use crate::process::{ProcessExit, Signal};
use rustix::io::Errno;
use rustix::process::{
    Pid, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpgid, getppid, kill_process_group,
    set_child_subreaper, wait, waitid, waitpid,
};

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

/// Reaps any child that has ended; `None` if there is none.
///
/// # Errors
/// None but those of waitpid(2); a process without children is no error.
pub fn reap_any() -> Result<Option<(i32, ProcessExit)>, Errno> {
    match wait(WaitOptions::NOHANG) {
        Ok(found) => Ok(found.map(|(pid, status)| (pid.as_raw_nonzero().get(), exit_of(status)))),
        Err(Errno::CHILD) => Ok(None),
        Err(errno) => Err(errno),
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
    fn no_number_of_a_group_of_others_is_signalled() {
        for number in [i32::MIN, -1, 0, 1] {
            assert_eq!(signal_group(number, Signal::WINCH), Err(Errno::SRCH));
        }
    }
}
