//! fork and vfork, and the end of a process without destructors.
//!
//! # Safety
//! vfork is assembly: its child returns first, on the stack of its parent.
#![allow(unsafe_code)]

use super::errno;
use crate::next::{self, ChildFunction};
use core::ffi::{c_char, c_int, c_long, c_void};
use libc::pid_t;
use m3ipc_shim::connection::ended;
use m3ipc_shim::kernel::memory::is_readable;
use m3ipc_shim::kernel::thread::{storage_word, storage_word_of};
use m3ipc_shim::lifecycle::opened_plain;
use m3ipc_shim::process::{forks, vfork as child};
use m3ipc_shim::{exec, kernel};

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fork() -> pid_t {
    exec::before_fork();
    // SAFETY: fork(2) takes nothing.
    let pid = unsafe { next::fork() };
    exec::after_fork(pid);
    pid
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __fork() -> pid_t {
    // SAFETY: the same function.
    unsafe { fork() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn _Fork() -> pid_t {
    exec::before_fork();
    // SAFETY: _Fork(3) takes nothing.
    let pid = unsafe { next::_Fork() };
    exec::after_fork(pid);
    pid
}

/// The function of a child, and its argument.
struct ChildStart {
    act: ChildFunction,
    argument: *mut c_void,
}

/// Runs in the child, whose memory is a copy.
unsafe extern "C-unwind" fn begin_child(start: *mut c_void) -> c_int {
    exec::after_fork(0);
    // SAFETY: `clone` below passes a live record; the program promises the function.
    unsafe {
        let ChildStart { act, argument } = start.cast::<ChildStart>().read();
        act(argument)
    }
}

/// The word of a child with the memory of this process that is no thread of it, where the child is
/// like that of a vfork, or has storage of its own.
///
/// # Safety
/// As clone(2) demands of the storage.
unsafe fn word_of_child(flags: c_int, storage: *mut c_void) -> Option<usize> {
    if flags & libc::CLONE_THREAD != 0 {
        return None;
    }
    if flags & libc::CLONE_SETTLS != 0 {
        // SAFETY: the caller promises the storage.
        return unsafe { storage_word_of(storage) };
    }
    let is_vfork = flags & (libc::CLONE_VFORK | libc::CLONE_FILES) == libc::CLONE_VFORK;
    is_vfork.then(storage_word)
}

// In C the last arguments may be missing. The C library ignores them then.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn clone(
    act: ChildFunction,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    parent: *mut pid_t,
    storage: *mut c_void,
    child: *mut pid_t,
) -> c_int {
    if flags & libc::CLONE_VM != 0 {
        // SAFETY: the program gives its child this storage.
        let word = unsafe { word_of_child(flags, storage) };
        if flags & libc::CLONE_FILES == 0 {
            forks::note();
        }
        if let Some(word) = word {
            child::enter(word);
        }
        // SAFETY: the program keeps the contract of clone(2).
        let pid = unsafe { next::clone(act, stack, flags, argument, parent, storage, child) };
        if let Some(word) = word
            && (flags & libc::CLONE_VFORK != 0 || pid < 0)
        {
            child::leave(word);
        }
        return pid;
    }
    let mut start = ChildStart { act, argument };
    let start = (&raw mut start).cast();
    exec::before_fork();
    // SAFETY: the program keeps the contract of clone(2); the child has a copy of the record.
    let pid = unsafe { next::clone(begin_child, stack, flags, start, parent, storage, child) };
    exec::after_fork(pid);
    pid
}

#[cfg(target_arch = "x86_64")]
const SYS_FORK: c_long = libc::SYS_fork;
/// This machine has no such call: the number is of none.
#[cfg(target_arch = "aarch64")]
const SYS_FORK: c_long = c_long::MIN;

/// Whether a call by its number makes a child with a copy of the memory, on the same stack.
pub fn is_fork(number: c_long, first: usize, second: usize) -> bool {
    const STACK_WORD: usize = 5;
    let has_own_memory = |flags: usize| flags & libc::CLONE_VM as usize == 0;
    match number {
        SYS_FORK => true,
        libc::SYS_clone => has_own_memory(first) && second == 0,
        libc::SYS_clone3 => {
            let words = core::ptr::with_exposed_provenance::<[usize; STACK_WORD + 1]>(first);
            // SAFETY: readable, and any bits are valid.
            is_readable(words, 1) && unsafe { words.read_unaligned() }[STACK_WORD] == 0
                // SAFETY: as above.
                && has_own_memory(unsafe { words.read_unaligned() }[0])
        }
        _ => false,
    }
}

/// Makes such a call.
///
/// # Safety
/// As [`is_fork`] says; the words are those of the call.
pub unsafe fn fork_by_number(number: c_long, words: [usize; 6]) -> c_int {
    exec::before_fork();
    // SAFETY: the child has a copy of this stack.
    let result = unsafe { kernel::call(number, words) };
    let pid = result.map_or(-1, |pid| pid_t::try_from(pid).unwrap_or(-1));
    exec::after_fork(pid);
    result.map_or_else(errno::fail, |_pid| pid)
}

/// The standard streams are others now, by calls inside the C library.
fn replaced_streams() {
    (0..=2).for_each(opened_plain);
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn daemon(keeps_directory: c_int, keeps_streams: c_int) -> c_int {
    exec::before_fork();
    // SAFETY: daemon(3) takes integers. It returns in the child, or fails.
    let result = unsafe { next::daemon(keeps_directory, keeps_streams) };
    exec::after_fork(result);
    if result == 0 && keeps_streams == 0 {
        replaced_streams();
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn forkpty(
    terminal: *mut c_int,
    name: *mut c_char,
    settings: *const c_void,
    size: *const c_void,
) -> pid_t {
    exec::before_fork();
    // SAFETY: the program keeps the contract of forkpty(3).
    let pid = unsafe { next::forkpty(terminal, name, settings, size) };
    exec::after_fork(pid);
    if pid == 0 {
        replaced_streams();
    } else if pid > 0 {
        // SAFETY: forkpty(3) has written the terminal.
        opened_plain(unsafe { *terminal });
    }
    pid
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn _exit(status: c_int) -> ! {
    if !child::in_child() {
        ended::exit_at_once();
    }
    loop {
        // SAFETY: the call takes an integer, and does not return.
        let _ = unsafe {
            kernel::call(libc::SYS_exit_group, [status.cast_unsigned() as usize, 0, 0, 0, 0, 0])
        };
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Exit(status: c_int) -> ! {
    // SAFETY: the same function.
    unsafe { _exit(status) }
}

// The child of a vfork returns from here first, on its parent's stack, and overwrites the stack
// below. So the return address stays in a register over the call, as in the C library.
#[cfg(target_arch = "x86_64")]
macro_rules! vfork {
    ($name:ident) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() -> pid_t {
            core::arch::naked_asm!(
                "sub rsp, 8",
                "call {enter}",
                "add rsp, 8",
                "pop rdi",
                "mov eax, 58",
                "syscall",
                "push rdi",
                "test rax, rax",
                "jz 2f",
                "mov rdi, rax",
                "sub rsp, 8",
                "call {leave}",
                "add rsp, 8",
                "2:",
                "ret",
                enter = sym enter_vfork,
                leave = sym leave_vfork,
            )
        }
    };
}
// This machine has no vfork but clone(CLONE_VM | CLONE_VFORK | SIGCHLD) on the same stack. The link
// register, which the kernel keeps for both processes, holds the return address over the call.
#[cfg(target_arch = "aarch64")]
macro_rules! vfork {
    ($name:ident) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() -> pid_t {
            core::arch::naked_asm!(
                "stp x29, x30, [sp, #-16]!",
                "bl {enter}",
                "ldp x29, x30, [sp], #16",
                "mov x0, #0x4111",
                "mov x1, sp",
                "mov x2, xzr",
                "mov x3, xzr",
                "mov x4, xzr",
                "mov x8, #220",
                "svc #0",
                "cbz x0, 2f",
                "stp x29, x30, [sp, #-16]!",
                "bl {leave}",
                "ldp x29, x30, [sp], #16",
                "2:",
                "ret",
                enter = sym enter_vfork,
                leave = sym leave_vfork,
            )
        }
    };
}
vfork!(vfork);
vfork!(__vfork);

extern "C" fn enter_vfork() {
    forks::note();
    child::enter(storage_word());
}

/// Runs in the parent alone.
extern "C" fn leave_vfork(result: isize) -> isize {
    child::leave(storage_word());
    if result < 0 {
        errno::set(c_int::try_from(-result).unwrap_or(libc::EAGAIN));
        return -1;
    }
    result
}
