//! fork and vfork, and the end of a process without destructors.
//!
//! # Safety
//! vfork is assembly: its child returns first, on the stack of its parent.
#![allow(unsafe_code)]

use super::errno;
use crate::next;
use core::ffi::c_int;
use libc::pid_t;
use m3ipc_shim::connection::ended;
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
    child::enter();
}

/// Runs in the parent alone.
extern "C" fn leave_vfork(result: isize) -> isize {
    child::leave();
    if result < 0 {
        errno::set(c_int::try_from(-result).unwrap_or(libc::EAGAIN));
        return -1;
    }
    result
}
