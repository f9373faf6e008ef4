//! exec with a list of arguments: functions that Rust cannot define.

use super::process::{environ, execve, execvpe};
use core::ffi::{c_char, c_int};

type Envp = *const *const c_char;

/// Arguments that a call with a list of them may have.
const ARGUMENTS: usize = 1024;

/// Which of the calls with a list of arguments it is: assembly says so by number.
const EXECL: u32 = 0;
const EXECLP: u32 = 1;

/// `first` are the arguments in registers from the second on, `rest` those on the stack.
unsafe extern "C-unwind" fn exec_list(
    file: *const c_char,
    first: *const [*const c_char; 5],
    rest: Envp,
    how: u32,
) -> c_int {
    let mut argv = [core::ptr::null::<c_char>(); ARGUMENTS + 1];
    let argument = |index: usize| if index < 5 { (*first)[index] } else { *rest.add(index - 5) };
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

// Functions with lists of arguments, which Rust cannot define: the five in registers are put into memory, where those
// on the stack lie already.
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
list!(execl, "0");
list!(execlp, "1");
list!(execle, "2");
