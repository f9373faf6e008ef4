//! A process of its own: it keeps nothing of its starter, and is no child that its starter can see.
//!
//! ```text
//! starter ──clone, exit signal 0──> middle ──clone──> service: cleans itself, executes
//!    └ waits for middle alone          └ ends at once       └ child of process 1 or a subreaper
//! ```
//!
//! The middle process has no exit signal, so the kernel neither reaps it by itself nor gives it to
//! a wait for any child. An exec gives a process its exit signal back, so the middle one executes
//! nothing. Dispositions of SIGCHLD and waits of other threads therefore change nothing.
//!
//! The service sends a descriptor of itself before it executes. The connection closes by the exec,
//! or brings the error number of what failed.
//!
//! # Limits
//! A hard limit, a nice value and SCHED_IDLE stay where the kernel demands a privilege to change
//! them. A starter that adopts orphans (PR_SET_CHILD_SUBREAPER, process 1) adopts the service.
//!
//! # Safety
//! Both processes share the memory of the starter, whose thread sleeps until they have left it.
//! They allocate nothing, take no lock, and run with all signals blocked. Their stacks and all that
//! they read live in the starter's frame.
#![allow(unsafe_code)]

use crate::descriptors::{above_standard, close_at_exec};
use crate::dispositions::default_signals;
use crate::errno::last_error;
use core::ffi::{c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::{null, null_mut};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes of each stack.
const STACK_BYTES: usize = 1 << 16;
/// The umask of a service.
const UMASK: u32 = 0o022;
/// The soft limit of a stack: what the kernel gives by itself.
const STACK_LIMIT: u64 = 8 << 20;
/// Open files that a privileged starter grants, as systemd does.
const FILES: u64 = 524_288;
/// The kernel's slack of timers, in nanoseconds.
const TIMER_SLACK_NS: libc::c_ulong = 50_000;

/// Variables that are about the starter alone: a service of systemd or of a supervisor.
const OF_STARTER: [&str; 11] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "M3_ENDPOINT",
    "M3_SERVICE",
    "M3_NAME",
    "M3_SUPERVISOR",
    "M3_DETACHED",
];

/// A started service.
#[derive(Debug)]
pub struct ServiceProcess {
    /// Its number.
    pub pid: i32,
    /// Its descriptor, which becomes readable at its end.
    pub process: OwnedFd,
}

/// What the two processes read.
struct Plan<'a> {
    program: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    directory: &'a CStr,
    null: BorrowedFd<'a>,
    stderr: BorrowedFd<'a>,
    report: BorrowedFd<'a>,
    stack: *mut c_void,
    is_privileged: bool,
}

/// Starts a program as a service.
///
/// It begins in `directory`, with its standard error and /dev/null as its descriptors, a session
/// of its own, default signal dispositions and an empty mask, umask 022, SCHED_OTHER with nice 0 on
/// all CPUs, and limits as high as the hard limits allow. A privileged starter lifts those, too. It
/// has the environment of its starter without the variables that are about the starter alone.
///
/// # Errors
/// Those of execve(2), clone(2) and socketpair(2); `INVAL` for a zero byte in a word.
///
/// # Source
/// clone(2), close_range(2), daemon(7)
pub fn start_service(
    program: &Path,
    words: &[&OsStr],
    variables: &[(&str, &OsStr)],
    directory: &Path,
    stderr: BorrowedFd<'_>,
) -> Result<ServiceProcess, Errno> {
    let text = |word: &[u8]| CString::new(word).map_err(|_zero| Errno::INVAL);
    let program = text(program.as_os_str().as_bytes())?;
    let directory = text(directory.as_os_str().as_bytes())?;
    let mut arguments = vec![program.clone()];
    for word in words {
        arguments.push(text(word.as_bytes())?);
    }
    let environment = environment(variables);
    let environment = environment.iter().map(|it| text(it.as_bytes()));
    let environment = environment.collect::<Result<Vec<_>, _>>()?;
    let pointers = |texts: &[CString]| {
        texts.iter().map(|text| text.as_ptr()).chain([null()]).collect::<Vec<_>>()
    };
    let (arguments_list, environment_list) = (pointers(&arguments), pointers(&environment));
    let null = rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let null = above_standard(null)?;
    let stderr = above_standard(rustix::io::fcntl_dupfd_cloexec(stderr, 3)?)?;
    let (report, own) = crate::packet_pair()?;
    let mut stacks = [Stack::new(), Stack::new()];
    let [first, second] = stacks.each_mut().map(Stack::top);
    let plan = Plan {
        program: program.as_ptr(),
        arguments: arguments_list.as_ptr(),
        environment: environment_list.as_ptr(),
        directory: &directory,
        null: null.as_fd(),
        stderr: stderr.as_fd(),
        report: report.as_fd(),
        stack: second,
        is_privileged: crate::user_id() == 0,
    };
    let blocked = BlockedSignals::block()?;
    // SAFETY: `middle` keeps the rules at the head. The stack and the plan outlive the call, which
    // returns when the middle process has ended. Without CLONE_FILES it has a copy of the table.
    let pid = unsafe {
        libc::clone(
            middle,
            first,
            libc::CLONE_VM | libc::CLONE_VFORK,
            (&raw const plan).cast_mut().cast(),
        )
    };
    let failed = (pid < 0).then(last_error);
    if pid > 0 {
        // A wait of the program for children of all kinds may take it first.
        let mut status = 0;
        // SAFETY: `status` is a live local, and the child is of this function.
        while unsafe { libc::waitpid(pid, &raw mut status, libc::__WCLONE) } < 0
            && last_error() == Errno::INTR
        {}
    }
    drop(blocked);
    drop((report, stacks));
    failed.map_or_else(|| read_report(&own), Err)
}

/// The environment of a service: that of its starter, without what is about the starter.
fn environment(variables: &[(&str, &OsStr)]) -> Vec<OsString> {
    let is_dropped = |name: &OsStr| {
        OF_STARTER.iter().any(|it| name == *it) || variables.iter().any(|(it, _)| name == *it)
    };
    let kept = std::env::vars_os().filter(|(name, _)| !is_dropped(name));
    let new = variables.iter().map(|(name, value)| (OsString::from(name), (*value).to_owned()));
    kept.chain(new)
        .map(|(mut entry, value)| {
            entry.push("=");
            entry.push(value);
            entry
        })
        .collect()
}

/// What the service said before its exec: who it is, and an error if there was one.
fn read_report(own: &OwnedFd) -> Result<ServiceProcess, Errno> {
    let mut process = None;
    loop {
        let mut word = [0; 4];
        let mut packet = match crate::receive_packet(own, &mut word, true, true) {
            Err(Errno::INTR) => continue,
            packet => packet?,
        };
        if packet.truncated {
            // The number is that of a process whose descriptor found no room.
            return Err(Errno::MFILE);
        }
        let number = i32::from_ne_bytes(word);
        match (packet.bytes, packet.fds.pop()) {
            (0, _) => return process.ok_or(Errno::CHILD),
            (_, Some(fd)) => process = Some(ServiceProcess { pid: number, process: fd }),
            (_, None) => return Err(Errno::from_raw_os_error(number)),
        }
    }
}

/// A stack, which grows downwards.
struct Stack(Vec<MaybeUninit<u128>>);

impl Stack {
    fn new() -> Self {
        Self(vec![MaybeUninit::uninit(); STACK_BYTES / size_of::<u128>()])
    }

    fn top(&mut self) -> *mut c_void {
        self.0.as_mut_ptr_range().end.cast()
    }
}

/// All signals of this thread, blocked until the drop: no handler of the program may run in a
/// process that shares its memory.
struct BlockedSignals(libc::sigset_t);

impl BlockedSignals {
    fn block() -> Result<Self, Errno> {
        let (mut all, mut former) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: sigfillset fills `all`, and the call fills `former` if it succeeds.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            match libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), former.as_mut_ptr()) {
                0 => Ok(Self(former.assume_init())),
                failed => Err(Errno::from_raw_os_error(failed)),
            }
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the set is initialised.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, null_mut()) };
    }
}

/// The middle process: makes the service, and ends when the service has executed its program.
extern "C" fn middle(plan: *mut c_void) -> c_int {
    // SAFETY: the starter passed a live plan.
    let plan = unsafe { &*plan.cast::<Plan<'_>>() };
    let argument = core::ptr::from_ref(plan).cast_mut().cast();
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: as for the clone of the starter; this process sleeps meanwhile.
    if unsafe { libc::clone(begin, plan.stack, flags, argument) } < 0 {
        report_failure(plan, last_error());
    }
    0
}

/// The service, up to its program.
extern "C" fn begin(plan: *mut c_void) -> c_int {
    // SAFETY: the starter passed a live plan.
    let plan = unsafe { &*plan.cast::<Plan<'_>>() };
    match execute(plan) {
        Ok(never) => match never {},
        Err(errno) => report_failure(plan, errno),
    }
    127
}

fn report_failure(plan: &Plan<'_>, errno: Errno) {
    let _ = crate::send_packet(plan.report, &errno.raw_os_error().to_ne_bytes(), &[], true);
}

fn execute(plan: &Plan<'_>) -> Result<core::convert::Infallible, Errno> {
    let own = rustix::process::getpid();
    let pidfd = rustix::process::pidfd_open(own, PidfdFlags::empty())?;
    let number = own.as_raw_nonzero().get().to_ne_bytes();
    let sent = crate::send_packet(plan.report, &number, &[pidfd.as_fd()], true);
    // The program's other threads know nothing of this descriptor.
    drop(pidfd);
    sent?;
    // A new process leads no group, so it may lead a session.
    let _ = rustix::process::setsid();
    // This process is in the directory of its starter, which its user need not be able to enter.
    if plan.directory != c"." {
        rustix::process::chdir(plan.directory)?;
    }
    rustix::process::umask(Mode::from_raw_mode(UMASK));
    lift_limits(plan.is_privileged);
    reset_scheduling();
    rustix::stdio::dup2_stdin(plan.null)?;
    rustix::stdio::dup2_stdout(plan.null)?;
    rustix::stdio::dup2_stderr(plan.stderr)?;
    close_at_exec();
    default_signals();
    // SAFETY: three lists of C strings that end with a null pointer, alive in the starter.
    unsafe {
        libc::syscall(libc::SYS_execve, plan.program, plan.arguments, plan.environment);
    }
    Err(last_error())
}

/// Raises each soft limit to its hard limit; with the privilege, both.
fn lift_limits(is_privileged: bool) {
    for resource in [
        Resource::Cpu,
        Resource::Fsize,
        Resource::Data,
        Resource::As,
        Resource::Rss,
        Resource::Locks,
        Resource::Rttime,
    ] {
        let free = Rlimit { current: None, maximum: None };
        if !is_privileged || setrlimit(resource, free).is_err() {
            raise(resource, u64::MAX);
        }
    }
    for resource in [Resource::Memlock, Resource::Sigpending, Resource::Msgqueue, Resource::Nproc] {
        raise(resource, u64::MAX);
    }
    raise(Resource::Stack, STACK_LIMIT);
    let files = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX).max(FILES);
    let free = Rlimit { current: Some(files), maximum: Some(files) };
    if !is_privileged || setrlimit(Resource::Nofile, free).is_err() {
        raise(Resource::Nofile, u64::MAX);
    }
}

/// Sets a soft limit to a value, or to the hard limit if that is less.
fn raise(resource: Resource, wanted: u64) {
    let maximum = getrlimit(resource).maximum;
    let current = maximum.unwrap_or(u64::MAX).min(wanted);
    let current = (current != u64::MAX).then_some(current);
    // The kernel always accepts a soft limit up to the hard one.
    let _ = setrlimit(resource, Rlimit { current, maximum });
}

/// The scheduling of a new login: what the kernel refuses stays as it is.
fn reset_scheduling() {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: integers, and a live local that the kernel reads; a null set with its length 0.
    unsafe {
        let policy = libc::SCHED_OTHER;
        libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const parameters);
        libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, 0, 0);
        let all = [u64::MAX; 128];
        libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(&all), &raw const all);
        // IOPRIO_WHO_PROCESS is 1; class and level 0 follow the nice value.
        libc::syscall(libc::SYS_ioprio_set, 1, 0, 0);
        libc::syscall(libc::SYS_set_mempolicy, 0, null::<u64>(), 0);
        libc::syscall(libc::SYS_prctl, libc::PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests;
