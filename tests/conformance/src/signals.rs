//! Signals to one thread, for calls that a signal ends.
//!
//! # Safety
//! The handler does nothing; the raw calls take integers, and pointers to values of the caller.
#![allow(unsafe_code)]

/// The signal that tests send.
const SIGNAL: libc::c_int = libc::SIGUSR1;

extern "C" fn nothing(_signal: libc::c_int) {}

/// Installs a handler that does nothing: the signal ends blocked calls, and nothing else.
pub fn handle() {
    // SAFETY: all zeroes is a valid sigaction: no flags, so calls are not restarted, and an empty mask.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the action lives through the call, and its handler is safe at any moment.
    let done = unsafe { libc::sigaction(SIGNAL, &raw const action, core::ptr::null_mut()) };
    assert_eq!(done, 0, "SIGUSR1 can always be handled");
}

/// Sends the signal to one thread of a process; one that has gone gets none.
pub fn send(pid: i32, tid: i32) {
    // SAFETY: three integers.
    let _ = unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, SIGNAL) };
}

fn signal(pid: i32, signal: libc::c_int) {
    // SAFETY: two integers.
    let _ = unsafe { libc::kill(pid, signal) };
}

/// Stops a process; returns once it has stopped.
pub fn stop(pid: i32) {
    signal(pid, libc::SIGSTOP);
    until_stopped(pid);
}

/// Lets a stopped process go on.
pub fn resume(pid: i32) {
    signal(pid, libc::SIGCONT);
}

/// Kills a process.
pub fn kill(pid: i32) {
    signal(pid, libc::SIGKILL);
}

/// Waits until a process has stopped, or is gone.
pub fn until_stopped(pid: i32) {
    let state = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").map_or(' ', |(_, fields)| fields.chars().next().unwrap_or(' '))
    };
    while !matches!(state(), 'T' | 't' | 'Z' | ' ') {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
