//! Steps that open descriptors, outside of the program's table of descriptors.
//!
//! The threads of a program see its table. One of them may close a number that it did not open,
//! take the number for its own file, or count on the lowest free one. So a step that opens
//! descriptors runs in a thread of its own, with an empty table:
//!
//! ```text
//!   thread of the program   blocks its signals, clones        sleeps        goes on
//!   thread of the step                   | leaves the table, runs the step, ends |
//! ```
//!
//! The step has the memory, the number of the process and the thread-local data of its caller,
//! which sleeps meanwhile (`CLONE_VFORK`), and the rest of the caller's stack. It may use no
//! descriptor of the program, and takes no lock of the shared memory: its thread number is another
//! one.
//!
//! # Safety
//! The new thread runs on the stack below the caller's frames, of which the sleeping caller uses
//! nothing. It returns to no frame of the caller: the step is a function of C, which does not
//! unwind, and the thread ends behind it.
#![allow(unsafe_code)]

use super::call::call;
use super::signal;
use core::ffi::c_void;

const FLAGS: i32 = libc::CLONE_VM
    | libc::CLONE_VFORK
    | libc::CLONE_THREAD
    | libc::CLONE_SIGHAND
    | libc::CLONE_SYSVSEM
    | libc::CLONE_FS
    | libc::CLONE_FILES;
/// `CLOSE_RANGE_UNSHARE`; Linux 5.9.
const UNSHARE: usize = 2;

/// Looks for the end of the thread: it takes microseconds where a CPU is free.
const LOOKS_MAX: u32 = 10_000;

/// A step and its result.
struct Step<A, T> {
    act: Option<A>,
    result: Option<T>,
}

/// Runs a step that opens descriptors and closes them; `None` where the system has no thread for
/// it.
#[cold]
#[inline(never)]
pub fn run<T>(act: impl FnOnce() -> T) -> Option<T> {
    let mut step = Step { act: Some(act), result: None };
    // A handler of the program must not run in the thread of the step.
    let before = signal::block(!0);
    let thread = clone_and_wait(body_of(&step), (&raw mut step).cast());
    await_end(thread);
    signal::set_mask(&before);
    step.result
}

/// Waits for the end of the thread of a step. It wakes the caller a moment before, and a program
/// that has no other thread may count its threads, or make a call that only such a program may
/// make.
fn await_end(thread: i64) {
    // SAFETY: no arguments.
    let Ok(own) = (unsafe { call(libc::SYS_getpid, [0; 6]) }) else { return };
    let Ok(thread) = usize::try_from(thread) else { return };
    for _ in 0..LOOKS_MAX {
        // SAFETY: no pointers; signal 0 sends nothing.
        if unsafe { call(libc::SYS_tgkill, [own, thread, 0, 0, 0, 0]) }.is_err() {
            return;
        }
        m3ipc_sys::yield_cpu();
    }
}

/// The body of the thread, for a step of this type.
fn body_of<A: FnOnce() -> T, T>(_step: &Step<A, T>) -> extern "C" fn(*mut c_void) {
    body::<A, T>
}

extern "C" fn body<A: FnOnce() -> T, T>(step: *mut c_void) {
    // SAFETY: `run` passes its step, which nobody else uses while `run` sleeps.
    let step = unsafe { &mut *step.cast::<Step<A, T>>() };
    // SAFETY: no pointers. The call gives this thread a table of its own, and empties it.
    let left = unsafe { call(libc::SYS_close_range, [0, 0xffff_ffff, UNSHARE, 0, 0, 0]) };
    if left.is_ok()
        && let Some(act) = step.act.take()
    {
        step.result = Some(act());
    }
}

/// Runs `body` in a thread on the rest of this stack, and waits until it has left this memory.
/// Returns the number of the thread, or a negative error number.
#[cfg(target_arch = "x86_64")]
fn clone_and_wait(body: extern "C" fn(*mut c_void), step: *mut c_void) -> i64 {
    let mut thread = libc::SYS_clone;
    // SAFETY: see the head of this file. The kernel spoils rcx and r11; the new thread has copies
    // of all other registers.
    unsafe {
        core::arch::asm!(
            "lea rsi, [rsp - 512]",
            "and rsi, -16",
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r13",
            "call r12",
            "xor edi, edi",
            "mov eax, 60",
            "syscall",
            "ud2",
            "2:",
            inout("rax") thread,
            in("rdi") i64::from(FLAGS),
            out("rsi") _,
            in("rdx") 0,
            in("r10") 0,
            in("r8") 0,
            in("r12") body,
            in("r13") step,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    thread
}

/// Runs `body` in a thread on the rest of this stack, and waits until it has left this memory.
/// Returns the number of the thread, or a negative error number.
#[cfg(target_arch = "aarch64")]
fn clone_and_wait(body: extern "C" fn(*mut c_void), step: *mut c_void) -> i64 {
    let mut thread = i64::from(FLAGS);
    // SAFETY: see the head of this file. The new thread has copies of all registers.
    unsafe {
        core::arch::asm!(
            "sub x1, sp, #512",
            "svc #0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x21",
            "blr x20",
            "mov x0, xzr",
            "mov x8, #93",
            "svc #0",
            "brk #1",
            "2:",
            inout("x0") thread,
            out("x1") _,
            in("x2") 0,
            in("x3") 0,
            in("x4") 0,
            in("x8") libc::SYS_clone,
            in("x20") body,
            in("x21") step,
        );
    }
    thread
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::file::{self, File};
    use crate::kernel::process;

    #[test]
    fn a_step_has_no_descriptor_of_the_program() {
        let own = File::open(c"/proc/self/stat").unwrap();
        let (process_before, thread) = (process::id(), process::thread_id());
        let seen = run(|| {
            let first = File::open(c"/dev/null").map(|file| file.fd());
            (first, file::stat(own.fd()).is_ok(), process::id(), process::thread_id())
        });
        let (first, finds, same, step) = seen.unwrap();
        assert_eq!((first, finds, same), (Ok(0), false, process_before));
        assert!(step != thread && !process::has_thread(step), "the thread has ended");
        assert!(file::stat(own.fd()).is_ok(), "the program's table is as before");
    }

    #[test]
    fn steps_of_many_threads_run_side_by_side() {
        std::thread::scope(|scope| {
            for number in 0..8_usize {
                scope.spawn(move || {
                    for turn in 0..200 {
                        let mut room = [number; 64];
                        let sum = run(|| {
                            room[turn % 64] = turn;
                            room.iter().sum::<usize>()
                        });
                        assert_eq!(sum, Some(number * 63 + turn));
                    }
                });
            }
        });
    }
}
