//! Processes, identified by descriptors and never by a number alone.
//!
//! # Safety
//! The raw calls take integers only.
#![allow(unsafe_code)]

use crate::descriptors::above_standard;
use crate::errno::last_error;
use core::cell::Cell;
use rustix::fd::{AsFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
pub use rustix::process::Signal;
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, getpid, getrlimit, pidfd_open, pidfd_send_signal,
    set_parent_process_death_signal, setrlimit,
};
use std::os::unix::fs::FileExt;

/// `PIDFD_THREAD`, Linux 6.9.
const PIDFD_THREAD: u32 = libc::O_EXCL.cast_unsigned();
/// Room for a `stat` file, whose longest parts are numbers.
const STAT_BYTES: usize = 2048;

fn pid(number: i32) -> Result<Pid, Errno> {
    if number <= 0 {
        return Err(Errno::SRCH);
    }
    Pid::from_raw(number).ok_or(Errno::SRCH)
}

/// A descriptor of the process that has this number now. It becomes readable at its death.
///
/// # Errors
/// `SRCH`, `MFILE`.
///
/// # Source
/// pidfd_open(2)
pub fn open_process(number: i32) -> Result<OwnedFd, Errno> {
    above_standard(pidfd_open(pid(number)?, PidfdFlags::empty())?)
}

/// A descriptor of one thread. It becomes readable at its end.
///
/// # Errors
/// `SRCH`, `MFILE`; `INVAL` before Linux 6.9.
pub fn open_thread(number: i32) -> Result<OwnedFd, Errno> {
    pid(number)?;
    // SAFETY: the call takes two integers; the result is a new descriptor or an error.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, number, PIDFD_THREAD) };
    match i32::try_from(fd) {
        // SAFETY: the kernel has just made this descriptor; the caller is its only owner.
        Ok(fd) if fd >= 0 => above_standard(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(last_error()),
    }
}

/// Sends a signal to the process of this descriptor.
///
/// # Errors
/// `SRCH` if it has ended; `PERM`.
pub fn signal(process: impl AsFd, signal: Signal) -> Result<(), Errno> {
    pidfd_send_signal(process, signal)
}

/// This process's number.
#[must_use]
pub fn process_id() -> i32 {
    getpid().as_raw_nonzero().get()
}

/// This thread's number.
#[must_use]
pub fn thread_id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// This thread's number, asked of the kernel once for each thread.
///
/// # Panics
/// Never in a process that has made a [`ForkGuard`](crate::ForkGuard).
#[must_use]
#[inline]
pub fn known_thread_id() -> i32 {
    thread_local! {
        /// The generation of forks in which the number was asked, and the number.
        static KNOWN: Cell<(u32, i32)> = const { Cell::new((0, 0)) };
    }
    let generation = crate::fork_generation();
    let (known, id) = KNOWN.get();
    if known == generation && generation != 0 {
        return id;
    }
    let id = thread_id();
    KNOWN.set((generation, id));
    id
}

/// Reads a file that the kernel writes in one piece, with one read if that piece is short.
fn read_whole(path: &str) -> std::io::Result<Vec<u8>> {
    let mut text = [0; STAT_BYTES];
    let bytes = std::fs::File::open(path)?.read_at(&mut text, 0)?;
    if bytes < text.len() { Ok(text[..bytes].to_vec()) } else { std::fs::read(path) }
}

pub(crate) fn read_proc(path: &str) -> Result<String, Errno> {
    // A process may give itself any name; the name is part of the text.
    Ok(String::from_utf8_lossy(&read_proc_bytes(path)?).into_owned())
}

pub(crate) fn read_proc_bytes(path: &str) -> Result<Vec<u8>, Errno> {
    read_whole(path).map_err(|cause| match Errno::from_io_error(&cause) {
        Some(Errno::NOENT | Errno::SRCH) => Errno::SRCH,
        Some(other) => other,
        None => Errno::IO,
    })
}

/// The fields of a `stat` file from the third on; field 3 has index 0.
fn stat_fields(stat: &str) -> Result<Vec<&str>, Errno> {
    // The command in parentheses may contain any character, so the code splits at its end.
    let (_, fields) = stat.rsplit_once(") ").ok_or(Errno::IO)?;
    Ok(fields.split_ascii_whitespace().collect())
}

fn field<T: std::str::FromStr>(fields: &[&str], index: usize) -> Result<T, Errno> {
    fields.get(index).and_then(|field| field.parse().ok()).ok_or(Errno::IO)
}

/// The start time of a process, in clock ticks since boot. Number and start time together are
/// unique.
///
/// # Errors
/// `SRCH` if there is no such process or /proc hides it; `MFILE`, `NFILE`, `NOMEM` and the like if
/// it cannot be read, which says nothing about the process.
///
/// # Source
/// proc_pid_stat(5), field 22
pub fn process_start_ticks(number: i32) -> Result<u64, Errno> {
    field(&stat_fields(&read_proc(&format!("/proc/{number}/stat"))?)?, 19)
}

/// The number of the parent of a process.
pub(crate) fn parent_of(number: i32) -> Result<i32, Errno> {
    field(&stat_fields(&read_proc(&format!("/proc/{number}/stat"))?)?, 1)
}

/// How many bytes the variables of a process take; `None` inside execve(2), for a process that has
/// ended, and where this process may not see it.
///
/// # Source
/// proc_pid_stat(5), fields 26, 50 and 51. Linux, `load_elf_binary`: the last of the three that
/// execve(2) sets is the start of the code.
pub(crate) fn bytes_of_variables(number: i32) -> Result<Option<u64>, Errno> {
    let stat = read_proc(&format!("/proc/{number}/stat"))?;
    let fields = stat_fields(&stat)?;
    let [code, begin, end] = [23, 47, 48].map(|index| field::<u64>(&fields, index));
    let (code, begin, end) = (code?, begin?, end?);
    Ok((code != 0 && end != 0).then(|| end.saturating_sub(begin)))
}

/// The flag of a thread that has begun to end.
const PF_EXITING: u64 = 4;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessExit {
    /// It ended itself with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl core::fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// How an ending process ended. The kernel tells it to processes of the same user, until the parent
/// has read it.
///
/// # Errors
/// `SRCH` if there is no such process or /proc hides it; `AGAIN` if it has not begun to end, or the
/// kernel does not tell.
///
/// # Source
/// proc_pid_stat(5), fields 9 and 52
pub fn process_exit(number: i32) -> Result<ProcessExit, Errno> {
    let stat = read_proc(&format!("/proc/{number}/stat"))?;
    let fields = stat_fields(&stat)?;
    let (flags, status): (u64, i32) = (field(&fields, 6)?, field(&fields, 49)?);
    match (flags & PF_EXITING, status & 0x7f) {
        (0, _) => Err(Errno::AGAIN),
        (_, 0) => Ok(ProcessExit::Code(status >> 8 & 0xff)),
        (_, signal) => Ok(ProcessExit::Signal(signal)),
    }
}

/// Whether a signal or a debugger has stopped a process.
///
/// # Errors
/// As [`process_start_ticks`].
///
/// # Source
/// proc_pid_stat(5), field 3
pub fn is_stopped(number: i32) -> Result<bool, Errno> {
    let stat = read_proc(&format!("/proc/{number}/stat"))?;
    Ok(matches!(stat_fields(&stat)?.first(), Some(&("T" | "t"))))
}

/// Whether a thread of a process sleeps. A thread that waits for a CPU or a page, or that is
/// stopped, does not sleep: its wake-up may have happened.
///
/// # Errors
/// As [`process_start_ticks`].
///
/// # Source
/// proc_pid_stat(5), field 3
pub fn thread_sleeps(process: i32, thread: i32) -> Result<bool, Errno> {
    let stat = read_proc(&format!("/proc/{process}/task/{thread}/stat"))?;
    Ok(stat_fields(&stat)?.first() == Some(&"S"))
}

/// Whether a process, or one thread of it, has begun to end. An ending thread never runs code of
/// its program again. A process ends when each of its threads does. Its memory and descriptors may
/// last longer.
///
/// # Errors
/// `SRCH` if there is no such process or thread, or if /proc hides it; `MFILE`, `NFILE`, `NOMEM`
/// and the like if it cannot be read, which says nothing about the process.
///
/// # Source
/// proc_pid_stat(5), field 9: `PF_EXITING`
pub fn is_ending(process: i32, thread: Option<i32>) -> Result<bool, Errno> {
    if let Some(thread) = thread {
        return has_begun_to_end(&format!("/proc/{process}/task/{thread}/stat"))?
            .ok_or(Errno::SRCH);
    }
    if is_last_thread_ending(process)? {
        return Ok(true);
    }
    // Two passes: a thread that ended after it had made another thread shows both only in the
    // second.
    Ok(all_have_begun_to_end(process)? && all_have_begun_to_end(process)?)
}

/// Whether a process has one thread, which has begun to end. `false` may be wrong, where the
/// process is gone.
fn is_last_thread_ending(process: i32) -> Result<bool, Errno> {
    let unseen = |cause: std::io::Error| Errno::from_io_error(&cause).unwrap_or(Errno::IO);
    let file = match std::fs::File::open(format!("/proc/{process}/stat")) {
        Ok(file) => file,
        Err(cause) => return if is_gone(&cause) { Ok(false) } else { Err(unseen(cause)) },
    };
    // The kernel counts the threads before it reads the flags of the first one. A thread that this
    // one made in between, before it ended, is counted in the second reading.
    for _ in 0..2 {
        let mut text = [0; STAT_BYTES];
        let bytes = match file.read_at(&mut text, 0) {
            Ok(bytes) => bytes,
            Err(cause) if is_gone(&cause) => return Ok(false),
            Err(cause) => return Err(unseen(cause)),
        };
        let stat = String::from_utf8_lossy(&text[..bytes]);
        let fields = stat_fields(&stat)?;
        let (flags, threads): (u64, u32) = (field(&fields, 6)?, field(&fields, 17)?);
        if flags & PF_EXITING == 0 || threads != 1 {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_gone(cause: &std::io::Error) -> bool {
    matches!(Errno::from_io_error(cause), Some(Errno::NOENT | Errno::SRCH))
}

fn all_have_begun_to_end(process: i32) -> Result<bool, Errno> {
    let unseen = |cause: std::io::Error| Errno::from_io_error(&cause).unwrap_or(Errno::SRCH);
    for entry in std::fs::read_dir(format!("/proc/{process}/task")).map_err(unseen)? {
        let stat = entry.map_err(unseen)?.path().join("stat");
        // A thread that has ended since then is no thread of the process.
        if has_begun_to_end(&stat.to_string_lossy())? == Some(false) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// `None` if the thread is gone, which only two errors of the kernel prove.
fn has_begun_to_end(stat: &str) -> Result<Option<bool>, Errno> {
    match read_proc(stat) {
        Ok(stat) => Ok(Some(field::<u64>(&stat_fields(&stat)?, 6)? & PF_EXITING != 0)),
        Err(Errno::SRCH) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// The process of a thread.
///
/// # Errors
/// As [`process_start_ticks`].
///
/// # Source
/// proc_pid_status(5), Tgid
pub fn process_of_thread(thread: i32) -> Result<i32, Errno> {
    let status = read_proc(&format!("/proc/{thread}/status"))?;
    Ok(status_numbers::<1>(&status, "Tgid:")?[0].cast_signed())
}

pub(crate) fn status_numbers<const COUNT: usize>(
    status: &str,
    name: &str,
) -> Result<[u32; COUNT], Errno> {
    // The name of the process comes first, and has no line break.
    let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or(Errno::IO)?;
    let mut words = line.split_ascii_whitespace();
    let mut numbers = [0; COUNT];
    for number in &mut numbers {
        *number = words.next().and_then(|word| word.parse().ok()).ok_or(Errno::IO)?;
    }
    Ok(numbers)
}

/// The user numbers of the process behind a pidfd: real, effective, saved, and of file systems.
///
/// # Errors
/// `SRCH` if it has ended or /proc hides it; others as [`process_start_ticks`].
///
/// # Source
/// proc_pid_status(5), Uid
pub fn process_users(number: i32, process: impl AsFd) -> Result<[u32; 4], Errno> {
    let status = read_proc(&format!("/proc/{number}/status"))?;
    check_alive(process)?;
    status_numbers(&status, "Uid:")
}

/// What the kernel says about a process at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessFacts {
    /// User numbers: real, effective, saved, and of file systems.
    pub users: [u32; 4],
    /// Effective group number.
    pub group: u32,
    /// The number of the parent; 0 if it lies outside of this PID namespace.
    pub parent: i32,
    /// Start time, in clock ticks since boot.
    pub started: u64,
    /// Whether it is a thread of the kernel.
    pub is_kernels: bool,
}

/// The facts of the process behind a pidfd.
///
/// # Errors
/// `SRCH` if it has ended or /proc hides it; others as [`process_start_ticks`].
///
/// # Source
/// proc_pid_status(5), proc_pid_stat(5): fields 4, 9 (`PF_KTHREAD`) and 22
pub fn process_facts(number: i32, process: impl AsFd) -> Result<ProcessFacts, Errno> {
    const PF_KTHREAD: u64 = 0x0020_0000;
    let status = read_proc(&format!("/proc/{number}/status"))?;
    let stat = read_proc(&format!("/proc/{number}/stat"))?;
    check_alive(process)?;
    let fields = stat_fields(&stat)?;
    let [_real, group] = status_numbers(&status, "Gid:")?;
    Ok(ProcessFacts {
        users: status_numbers(&status, "Uid:")?,
        group,
        parent: field(&fields, 1)?,
        started: field(&fields, 19)?,
        is_kernels: field::<u64>(&fields, 6)? & PF_KTHREAD != 0,
    })
}

/// Checks that a process lives. Facts of its number, read before, were then facts of the process.
fn check_alive(process: impl AsFd) -> Result<(), Errno> {
    if crate::wait_readable(&[process.as_fd()], 0)? { Err(Errno::SRCH) } else { Ok(()) }
}

/// Sends this process SIGKILL when its parent's thread ends.
///
/// # Errors
/// None in practice.
pub fn die_with_parent() -> Result<(), Errno> {
    set_parent_process_death_signal(Some(Signal::KILL))
}

/// Forbids core dumps of this process, and access to its memory by other processes of its user.
///
/// # Errors
/// None in practice.
pub fn no_core() -> Result<(), Errno> {
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
}

/// Raises the limit of open descriptors to its maximum, and returns it.
#[must_use]
pub fn raise_fd_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current }
        .unwrap_or(u64::MAX)
}

/// This process's effective user id.
#[must_use]
pub fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// This process's effective group id.
#[must_use]
pub fn group_id() -> u32 {
    rustix::process::getegid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_number_of_a_thread_is_its_own() {
        let _guard = crate::ForkGuard::new().unwrap();
        for _again in 0..2 {
            assert_eq!(known_thread_id(), thread_id());
            let other = std::thread::spawn(|| (known_thread_id(), thread_id())).join().unwrap();
            assert_eq!(other.0, other.1);
        }
    }

    #[test]
    fn a_running_process_is_not_ending_and_a_killed_one_is() {
        assert_eq!(is_ending(process_id(), None), Ok(false));
        assert_eq!(is_ending(process_id(), Some(thread_id())), Ok(false));
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert_eq!(is_ending(pid, None), Ok(false));
        child.kill().unwrap();
        let ending = (0..10_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            is_ending(pid, None) == Ok(true)
        });
        child.wait().unwrap();
        assert!(ending);
    }

    #[test]
    fn an_unreadable_thread_does_not_count_as_gone() {
        assert_eq!(has_begun_to_end("/proc/self/task/none/stat"), Ok(None));
        // The path exists and cannot be read, as without a free descriptor.
        assert!(has_begun_to_end("/proc/self").is_err());
        assert_eq!(has_begun_to_end("/proc/self/comm"), Err(Errno::IO));
    }

    #[test]
    fn only_a_missing_process_counts_as_gone() {
        assert_eq!(read_proc("/proc/self/none").unwrap_err(), Errno::SRCH);
        assert_eq!(read_proc("/proc/self").unwrap_err(), Errno::ISDIR);
        assert_eq!(process_start_ticks(i32::MAX), Err(Errno::SRCH));
        let own = open_process(process_id()).unwrap();
        assert_eq!(process_users(i32::MAX, &own), Err(Errno::SRCH));
        assert_eq!(process_users(process_id(), &own), Ok([user_id(); 4]));
    }

    #[test]
    fn facts_name_the_parent_of_a_child() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = child.id().cast_signed();
        let fd = open_process(pid).unwrap();
        let facts = process_facts(pid, &fd).unwrap();
        assert_eq!((facts.users, facts.parent), ([user_id(); 4], process_id()));
        assert_eq!(Ok(facts.started), process_start_ticks(pid));
        assert!(!facts.is_kernels);
        child.kill().unwrap();
        // A zombie has a number still, but has ended.
        while crate::wait_readable(&[fd.as_fd()], 0) != Ok(true) {}
        assert_eq!(process_facts(pid, &fd), Err(Errno::SRCH));
        child.wait().unwrap();
    }

    #[test]
    fn a_name_that_is_no_text_hides_no_process() {
        let thread = std::thread::spawn(|| {
            rustix::thread::set_name(c"\xff) R 1").unwrap();
            let own = thread_id();
            (thread_sleeps(process_id(), own), is_ending(process_id(), Some(own)))
        });
        assert_eq!(thread.join().unwrap(), (Ok(false), Ok(false)));
    }
}
