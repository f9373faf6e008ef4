//! execl, execlp and execle: Rust cannot define a function with a list of arguments.
//!
//! # Safety
//! The assembly stores the arguments in registers next to each other in memory, and passes the
//! addresses of these and of the arguments on the stack. The list ends with a null pointer.
#![allow(unsafe_code)]

use super::errno;
use super::exec::{Strings, execve, execvpe, own_environment};
use core::ffi::{c_char, c_int};

/// Arguments of one list at most.
const ARGUMENTS_MAX: usize = 1024;

/// Arguments in registers, from the second on.
#[cfg(target_arch = "x86_64")]
const REGISTERS: usize = 5;
#[cfg(target_arch = "aarch64")]
const REGISTERS: usize = 7;

/// The functions, by the numbers that the assembly passes.
const EXECL: u32 = 0;
const EXECLP: u32 = 1;

/// `registers` are the arguments in registers from the second on, `stack` those on the stack.
unsafe extern "C-unwind" fn exec_list(
    file: *const c_char,
    registers: *const [*const c_char; REGISTERS],
    stack: Strings,
    function: u32,
) -> c_int {
    let mut argv = [core::ptr::null::<c_char>(); ARGUMENTS_MAX + 1];
    let argument = |index: usize| match index.checked_sub(REGISTERS) {
        // SAFETY: the assembly stored so many registers.
        None => unsafe { (*registers)[index] },
        // SAFETY: the list goes on behind the registers until its null pointer.
        Some(index) => unsafe { *stack.add(index) },
    };
    let mut count = 0;
    while !argument(count).is_null() {
        if count == ARGUMENTS_MAX {
            return errno::fail(libc::E2BIG);
        }
        argv[count] = argument(count);
        count += 1;
    }
    // SAFETY: the array ends with a null pointer; the program keeps the contract of exec(3).
    unsafe {
        match function {
            EXECL => execve(file, argv.as_ptr(), own_environment()),
            EXECLP => execvpe(file, argv.as_ptr(), own_environment()),
            // The environment follows the null pointer of the list.
            _ => execve(file, argv.as_ptr(), argument(count + 1).cast()),
        }
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! list {
    ($name:ident, $function:literal) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C-unwind" fn $name() -> c_int {
            core::arch::naked_asm!(
                "push r9",
                "push r8",
                "push rcx",
                "push rdx",
                "push rsi",
                "mov rsi, rsp",
                "lea rdx, [rsp + 48]",
                concat!("mov ecx, ", $function),
                "call {rest}",
                "add rsp, 40",
                "ret",
                rest = sym exec_list,
            )
        }
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! list {
    ($name:ident, $function:literal) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C-unwind" fn $name() -> c_int {
            core::arch::naked_asm!(
                "stp x29, x30, [sp, #-80]!",
                "stp x1, x2, [sp, #16]",
                "stp x3, x4, [sp, #32]",
                "stp x5, x6, [sp, #48]",
                "str x7, [sp, #64]",
                "add x1, sp, #16",
                "add x2, sp, #80",
                concat!("mov w3, #", $function),
                "bl {rest}",
                "ldp x29, x30, [sp], #80",
                "ret",
                rest = sym exec_list,
            )
        }
    };
}
list!(execl, "0");
list!(execlp, "1");
list!(execle, "2");
