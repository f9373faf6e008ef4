//! exec with a list of arguments: functions that Rust cannot define.

use super::process::{environ, execve, execvpe};
use core::ffi::{c_char, c_int};

type Envp = *const *const c_char;

/// Arguments that a call with a list of them may have.
const ARGUMENTS: usize = 1024;

/// Arguments after the first that come in registers.
#[cfg(target_arch = "x86_64")]
const REGISTERS: usize = 5;
#[cfg(target_arch = "aarch64")]
const REGISTERS: usize = 7;

/// Which of the calls with a list of arguments it is: assembly says so by number.
const EXECL: u32 = 0;
const EXECLP: u32 = 1;

/// `first` are the arguments in registers from the second on, `rest` those on the stack.
unsafe extern "C-unwind" fn exec_list(
    file: *const c_char,
    first: *const [*const c_char; REGISTERS],
    rest: Envp,
    how: u32,
) -> c_int {
    let mut argv = [core::ptr::null::<c_char>(); ARGUMENTS + 1];
    let argument = |index: usize| {
        if index < REGISTERS { (*first)[index] } else { *rest.add(index - REGISTERS) }
    };
    let mut count = 0;
    while !argument(count).is_null() {
        if count == ARGUMENTS {
            crate::set_errno(libc::E2BIG);
            return -1;
        }
        argv[count] = argument(count);
        count += 1;
    }
    match how {
        EXECL => execve(file, argv.as_ptr(), environ),
        EXECLP => execvpe(file, argv.as_ptr(), environ),
        _ => execve(file, argv.as_ptr(), argument(count + 1).cast()),
    }
}

// Functions with lists of arguments, which Rust cannot define: those in registers are put into memory, where those
// on the stack lie already.
#[cfg(target_arch = "x86_64")]
macro_rules! list {
    ($name:ident, $how:literal) => {
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
                concat!("mov ecx, ", $how),
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
    ($name:ident, $how:literal) => {
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
                concat!("mov w3, #", $how),
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
