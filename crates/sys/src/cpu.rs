//! The CPU of a thread: its number, its affinity, its time slice, and yielding it.
//!
//! # Safety
//! `sched_getcpu` takes no pointer. The scheduler's calls get a local structure with its size. The
//! assembly of [`refill_returns`] leaves the stack as it was.
#![allow(unsafe_code)]

use crate::errno::last_error;
use core::sync::atomic::AtomicU64;
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity, sched_yield};

/// The CPU of this thread (a load from the rseq area with glibc 2.35 and later).
///
/// # Source
/// sched_getcpu(3)
#[must_use]
#[inline]
pub fn current_cpu() -> u32 {
    // SAFETY: the call has no argument. Its failure, -1, maps to a CPU that does not exist.
    let cpu = unsafe { libc::sched_getcpu() };
    u32::try_from(cpu).unwrap_or(u32::MAX)
}

/// Keeps the calling thread on one CPU.
///
/// # Errors
/// `INVAL` if the CPU does not exist or is not allowed.
pub fn pin_to(cpu: usize) -> Result<(), Errno> {
    let mut set = CpuSet::new();
    if cpu >= CpuSet::MAX_CPU {
        return Err(Errno::INVAL);
    }
    set.set(cpu);
    sched_setaffinity(None, &set)
}

/// Asks the scheduler for time slices of this length in nanoseconds, at least 100,000. A thread
/// with short slices runs earlier after a wake-up beside a busy thread. Older kernels ignore the
/// call.
///
/// # Errors
/// Those of sched_setattr(2).
///
/// # Source
/// sched_setattr(2), Linux 6.12 (slices of SCHED_OTHER)
pub fn request_time_slice(slice_ns: u64) -> Result<(), Errno> {
    let bytes = u32::try_from(size_of::<libc::sched_attr>()).map_err(|_| Errno::INVAL)?;
    // SAFETY: the structure consists of integers, for which zeros are valid.
    let mut attributes: libc::sched_attr = unsafe { core::mem::zeroed() };
    // SAFETY: the kernel writes at most `bytes` bytes into the structure. 0 is this thread.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, bytes, 0) };
    if got != 0 {
        return Err(last_error());
    }
    attributes.sched_runtime = slice_ns;
    // SAFETY: the kernel reads `size` bytes of the structure, which it has just filled in.
    let set = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if set == 0 { Ok(()) } else { Err(last_error()) }
}

/// Tells the CPU that this is a spin loop.
#[inline]
pub fn relax() {
    core::hint::spin_loop();
}

/// Yields the CPU to another runnable thread.
#[inline]
pub fn yield_cpu() {
    sched_yield();
    refill_returns::<4>();
}

/// Fills the CPU's predictor of returns with `N` addresses of this program. Call it after a system
/// call that may have run another thread.
///
/// At each switch of threads, Linux fills the predictor with addresses of the kernel, against
/// Spectre. Each `ret` to a caller from before the switch is then predicted to jump into the
/// kernel, which a program must not see. In a virtual machine one such guess costs 300 ns. A wrong
/// guess within the program costs 5.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(crate) fn refill_returns<const N: usize>() {
    // SAFETY: each `call` pushes an address, and the addition drops all of them. Without the option
    // `nostack` the compiler keeps nothing below the stack pointer. Nobody jumps to the addresses,
    // but the CPU may guess so: the loop there does nothing. A program with a shadow stack (the
    // word of `rdsspq` is then not 0; without it the instruction does nothing) skips the calls.
    unsafe {
        core::arch::asm!(
            "xor {ssp:e}, {ssp:e}",
            "rdsspq {ssp}",
            "test {ssp}, {ssp}",
            "jnz 4f",
            ".rept {count}",
            "call 3f",
            "2: pause",
            "lfence",
            "jmp 2b",
            "3:",
            ".endr",
            "add rsp, {bytes}",
            "4:",
            ssp = out(reg) _,
            count = const N,
            bytes = const 8 * N,
        );
    }
}

/// The same for other CPUs and for Miri: nothing.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
pub(crate) fn refill_returns<const N: usize>() {}

/// Asks the CPU to bring the line of this word into its cache, and waits for nothing.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub fn prefetch(word: &AtomicU64) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch is a hint: it neither reads nor writes for the program.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(word).cast()) };
}

/// The same for other CPUs and for Miri: nothing.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
pub fn prefetch(_word: &AtomicU64) {}
