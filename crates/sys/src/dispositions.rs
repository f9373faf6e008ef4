//! Dispositions of signals that a program inherits from its starter.
//!
//! # Safety
//! The kernel reads an action and a mask from constants and locals, and writes an action to a
//! local. No disposition here is a handler. The loader calls the function of `.init_array` once.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::ptr::null;
use core::sync::atomic::{AtomicBool, Ordering};
use std::os::unix::process::CommandExt;
use std::process::Command;

const SIGNAL_MAX: c_int = 64;
const SIGNAL_SET_BYTES: usize = 8;
/// The kernel's record: a handler, and flags, a restorer and a mask of zero.
type Action = [usize; 4];
const DEFAULT: Action = [libc::SIG_DFL, 0, 0, 0];
const IGNORE: Action = [libc::SIG_IGN, 0, 0, 0];

/// The call of the kernel, which takes no lock: a child that shares memory makes it.
fn set(signal: c_int, action: &Action) {
    // SAFETY: the kernel reads a live action without a handler. It refuses SIGKILL and SIGSTOP.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            action.as_ptr(),
            null::<c_void>(),
            SIGNAL_SET_BYTES,
        );
    }
}

/// Whether this program began with an ignored SIGPIPE.
static BEGAN_WITHOUT_PIPE: AtomicBool = AtomicBool::new(false);

/// Notes the disposition of SIGPIPE before Rust's runtime ignores it.
#[cfg(not(miri))]
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_PIPE: extern "C" fn() = note_pipe;

#[cfg(not(miri))]
extern "C" fn note_pipe() {
    unsafe extern "C" {
        /// The first byte of the program or library that has this code; the linker defines it.
        static __ehdr_start: u8;
    }
    // A library in another program makes no system call: a filter may forbid it.
    // SAFETY: getauxval(3) takes an integer.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) };
    if headers.wrapping_sub((&raw const __ehdr_start) as u64) > size_of::<libc::Elf64_Ehdr>() as u64
    {
        return;
    }
    let mut action: Action = DEFAULT;
    // SAFETY: the kernel writes a live action of its own layout.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            libc::SIGPIPE,
            null::<c_void>(),
            action.as_mut_ptr(),
            SIGNAL_SET_BYTES,
        );
    }
    BEGAN_WITHOUT_PIPE.store(action[0] == libc::SIG_IGN, Ordering::Relaxed);
}

/// Leaves the program of a command an ignored SIGPIPE, where this program began with one. Else the
/// program gets the default.
///
/// # Source
/// sigaction(2), execve(2)
pub fn keep_ignored_pipe(command: &mut Command) {
    if BEGAN_WITHOUT_PIPE.load(Ordering::Relaxed) {
        // SAFETY: the hook makes one system call, which takes no lock.
        unsafe {
            command.pre_exec(|| {
                set(libc::SIGPIPE, &IGNORE);
                Ok(())
            })
        };
    }
}

/// Gives all signals their default disposition, and lets them through.
pub(crate) fn default_signals() {
    (1..=SIGNAL_MAX).for_each(|signal| set(signal, &DEFAULT));
    let empty = 0_u64;
    // SAFETY: the kernel reads a live mask of 8 bytes.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const empty,
            null::<c_void>(),
            SIGNAL_SET_BYTES,
        );
    }
}

/// Lets this program see the ends of its children, also where its starter ignored SIGCHLD: the
/// kernel would reap them, and give their numbers to strangers.
///
/// # Source
/// sigaction(2), wait(2)
pub fn notice_children() {
    set(libc::SIGCHLD, &DEFAULT);
}

/// Lets the kernel reap the children of this program that end from now on. Programs that it starts
/// inherit this, until they [notice their children](notice_children).
///
/// # Source
/// sigaction(2), wait(2)
pub fn ignore_children() {
    set(libc::SIGCHLD, &IGNORE);
}

/// Makes a write beyond the limit of file sizes the error `FBIG` of that write, in place of the end
/// of this process.
///
/// # Source
/// getrlimit(2), RLIMIT_FSIZE
pub fn survive_file_limit() {
    set(libc::SIGXFSZ, &IGNORE);
}

/// Leaves a program that this process executes next nothing of it but the standard streams:
/// default dispositions, no blocked signal, no other descriptor.
pub fn prepare_exec() {
    default_signals();
    crate::descriptors::close_at_exec();
}
