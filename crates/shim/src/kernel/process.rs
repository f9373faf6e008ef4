//! Processes, threads and users, as the kernel knows them now.
//!
//! # Safety
//! The calls take integers, or a live local of the size that they expect.
#![allow(unsafe_code)]

use super::call::{call, descriptor, register};
use super::ready;
use super::{apart, file};
use core::ffi::CStr;
use std::io::Write;

/// The number of this process; another one in a child by fork.
#[must_use]
pub fn id() -> i32 {
    // SAFETY: no arguments.
    let got = unsafe { call(libc::SYS_getpid, [0; 6]) };
    got.ok().and_then(|pid| i32::try_from(pid).ok()).unwrap_or(0)
}

/// The number of the parent of this process.
#[must_use]
pub fn parent_id() -> i32 {
    // SAFETY: no arguments.
    let got = unsafe { call(libc::SYS_getppid, [0; 6]) };
    got.ok().and_then(|pid| i32::try_from(pid).ok()).unwrap_or(0)
}

/// The number of this thread.
pub fn thread_id() -> u32 {
    // SAFETY: no arguments.
    let got = unsafe { call(libc::SYS_gettid, [0; 6]) };
    got.ok().and_then(|tid| u32::try_from(tid).ok()).unwrap_or(0)
}

/// The effective user of this process.
#[must_use]
pub fn user() -> u32 {
    // SAFETY: no arguments.
    let got = unsafe { call(libc::SYS_geteuid, [0; 6]) };
    got.ok().and_then(|uid| u32::try_from(uid).ok()).unwrap_or(u32::MAX)
}

/// Whether a process has this number. A dead process counts until its parent has waited for it.
#[must_use]
pub fn exists(pid: i32) -> bool {
    // SAFETY: no pointers; signal 0 sends nothing.
    pid > 0 && unsafe { call(libc::SYS_kill, [register(pid), 0, 0, 0, 0, 0]) } != Err(libc::ESRCH)
}

/// Whether a thread of this number runs. A dead thread does not count, also before its parent has
/// waited for it.
#[must_use]
pub fn thread_runs(tid: u32) -> bool {
    const PIDFD_THREAD: i32 = libc::O_EXCL; // Linux 6.9
    let Ok(number) = i32::try_from(tid) else { return false };
    if !exists(number) {
        return false;
    }
    let words = [register(number), register(PIDFD_THREAD), 0, 0, 0, 0];
    // SAFETY: no pointers.
    let open = || unsafe { call(libc::SYS_pidfd_open, words) };
    let runs = apart::run(|| match open().and_then(descriptor) {
        Ok(fd) => {
            let ended = ready::poll_now(fd, libc::POLLIN) != 0;
            file::close(fd);
            !ended
        }
        Err(libc::ESRCH) => false,
        // An older kernel: the thread counts as alive.
        Err(_) => true,
    });
    runs.unwrap_or(true)
}

/// Whether a thread of this number is one of this process.
#[must_use]
pub fn has_thread(tid: u32) -> bool {
    let Ok(number) = i32::try_from(tid) else { return false };
    let words = [register(id()), register(number), 0, 0, 0, 0];
    // SAFETY: no pointers; signal 0 sends nothing.
    number > 0 && unsafe { call(libc::SYS_tgkill, words) }.is_ok()
}

/// Whether the calling thread alone has the memory of this process.
///
/// # Source
/// unshare(2)
#[must_use]
pub fn has_memory_alone() -> bool {
    // SAFETY: no pointers. The call has no effect where it succeeds.
    unsafe { call(libc::SYS_unshare, [register(libc::CLONE_VM), 0, 0, 0, 0, 0]) }.is_ok()
}

/// CPUs that this thread may use; at least one.
#[must_use]
pub fn cpus() -> u32 {
    let mut mask = [0_u64; 128];
    let words = [0, size_of_val(&mask), mask.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: the kernel writes at most the size of the array, for which any bits are valid.
    let got = unsafe { call(libc::SYS_sched_getaffinity, words) }.unwrap_or(0);
    mask.iter().take(got / 8).map(|word| word.count_ones()).sum::<u32>().max(1)
}

/// Sleeps for some microseconds, or until a signal.
pub fn pause_us(us: i64) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: us * 1000 };
    // SAFETY: the time is live.
    let _ = unsafe { call(libc::SYS_nanosleep, [(&raw const time) as usize, 0, 0, 0, 0, 0]) };
}

/// The time at which this process started, in clock ticks after boot; 0 where it is not known.
///
/// # Source
/// proc_pid_stat(5), field 22
#[must_use]
pub fn start_ticks() -> u64 {
    let mut text = [0_u8; 512];
    let length = file::read_whole(c"/proc/self/stat", &mut text);
    start_ticks_of(text.get(..length).unwrap_or(&[]))
}

/// The time at which a thread started, in clock ticks after boot; `None` where it is not known.
///
/// # Source
/// proc_pid_stat(5), field 22
#[must_use]
pub fn start_ticks_of_thread(thread: u32) -> Option<u64> {
    let (mut path, mut text) = ([0_u8; 32], [0_u8; 512]);
    write!(&mut path[..31], "/proc/{thread}/stat").ok()?;
    let length = file::read_whole(CStr::from_bytes_until_nul(&path).ok()?, &mut text);
    Some(start_ticks_of(text.get(..length)?)).filter(|ticks| *ticks != 0)
}

/// The time since boot, in the clock ticks of proc(5).
#[must_use]
pub fn now_ticks() -> u64 {
    const NS_PER_TICK: u64 = 10_000_000;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let clock = register(libc::CLOCK_BOOTTIME);
    // SAFETY: the time is live.
    let _ = unsafe { call(libc::SYS_clock_gettime, [clock, (&raw mut time) as usize, 0, 0, 0, 0]) };
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    (part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)) / NS_PER_TICK
}

fn start_ticks_of(stat: &[u8]) -> u64 {
    let text = core::str::from_utf8(stat).unwrap_or("");
    // The name in brackets may hold anything, also brackets. The start is the 20th word after it.
    let after = text.rsplit_once(')').map_or("", |(_name, after)| after);
    after.split_ascii_whitespace().nth(19).and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_found_behind_any_name() {
        let line = b"7 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        assert_eq!(start_ticks_of(line), 4711);
        assert_eq!(start_ticks_of(b"7 (a"), 0);
        assert!(start_ticks() > 0);
        let own = start_ticks_of_thread(thread_id()).unwrap();
        assert!((start_ticks()..=now_ticks()).contains(&own));
        assert_eq!(start_ticks_of_thread(u32::MAX), None);
    }

    #[test]
    fn an_ended_thread_does_not_run() {
        assert!(thread_runs(thread_id()) && exists(id()));
        let ended = std::thread::spawn(thread_id).join().unwrap();
        // A join returns before the kernel has let go of the thread, and kernels before 6.9 tell no
        // such thread from a living one.
        let is_gone = |_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            !thread_runs(ended)
        };
        assert!((0..10_000).any(is_gone));
        assert!(!thread_runs(u32::MAX) && !exists(0));
        assert!(has_thread(thread_id()) && !has_thread(ended) && !has_thread(0));
        assert!(!has_thread(std::os::unix::process::parent_id()));
    }
}
