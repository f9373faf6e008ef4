//! What only a process of its own can do: fork, exec, die of a signal, be bound by another.
//!
//! # Safety
//! The partner has one thread, so its child by fork may do what it may.
#![allow(unsafe_code)]

use m3ipc::{Endpoint, Timeout};
use m3ipc_abi::Code;
use std::io::Write;

/// Says the outcome of a step: its number or its code.
pub fn say(result: Result<i32, Code>) {
    println!("{}", result.unwrap_or_else(|code| code.number()));
    let _ = std::io::stdout().flush();
}

/// The process goes on as another program, which stays until its input ends.
pub fn become_cat() {
    use std::os::unix::process::CommandExt;
    let failed = std::process::Command::new("cat").exec();
    panic!("cat cannot be executed: {failed}");
}

/// From now on SIGPIPE ends the process.
pub fn end_by_pipe() {
    // SAFETY: two integers; no handler of ours is replaced.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    say(Ok(0));
}

/// Waits until another process binds this one.
#[must_use]
pub fn claim() -> Option<Endpoint> {
    println!("waits {}", std::process::id());
    let claimed = Endpoint::wait_for_bind(Timeout::Never);
    match claimed {
        Ok(endpoint) => {
            println!("bound {}", endpoint.address().0);
            Some(endpoint)
        }
        Err(error) => {
            println!("refused {}", error.code().number());
            None
        }
    }
}

/// Takes a step in a child by fork, and returns the code.
///
/// # Errors
/// The code.
///
/// # Panics
/// If the system makes no child.
pub fn in_child(step: impl FnOnce() -> Result<(), Code>) -> Result<i32, Code> {
    // SAFETY: one thread; see above.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no child");
    if child == 0 {
        let number = step().err().map_or(0, |code| code.number());
        // An exit status has eight bits: enough for the index of the code.
        let place = Code::ALL.iter().position(|code| code.number() == number).unwrap_or(255);
        // SAFETY: ends the child without running anything of its parent's.
        unsafe { libc::_exit(i32::try_from(place).unwrap_or(255)) };
    }
    let mut status = 0;
    // SAFETY: the status outlives the call.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    let place = usize::try_from(libc::WEXITSTATUS(status)).unwrap_or(255);
    Code::ALL.get(place).map_or(Ok(0), |code| Err(*code))
}

/// Leaves a child by fork behind, which sleeps with all that it inherited; says its number.
///
/// # Panics
/// If the system makes no child.
pub fn leave_child() {
    // SAFETY: one thread; see above.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no child");
    if child == 0 {
        std::thread::sleep(std::time::Duration::from_secs(30));
        // SAFETY: ends the child without running anything of its parent's.
        unsafe { libc::_exit(0) };
    }
    say(Ok(child));
}
