//! What the system says about the demand for CPUs, and about the share of this process.
//!
//! # Source
//! proc_loadavg(5): running tasks in the fourth field; sched_getaffinity(2); cgroups(7); the CPUs
//! of the system in /sys/devices/system/cpu/online; cpu.max of version 2 and cpu.cfs_quota_us of
//! version 1 in the kernel's documentation of cgroups
//!
//! Nothing here is inlined: the room for a file must be no part of the stack of a waiting thread.

use core::ffi::CStr;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::thread::sched_getaffinity;

/// Room for a small file.
const SMALL: usize = 128;
/// Room for `/proc/self/cgroup`: a line for each hierarchy.
const GROUPS: usize = 4096;
/// Room for the path of a file of a group.
const PATH: usize = 512;

/// The system's count of running tasks; `None` where it does not tell.
#[must_use]
#[inline(never)]
pub fn running_tasks() -> Option<u32> {
    running_in(text(&open_and_read, c"/proc/loadavg", &mut [0; SMALL])?)
}

/// The CPUs that this thread may use; `None` where the system does not tell.
#[must_use]
pub fn usable_cpus() -> Option<u32> {
    if cfg!(miri) {
        return None;
    }
    sched_getaffinity(None).ok().map(|set| set.count())
}

/// The CPUs of the system that run; `None` where it does not tell.
#[must_use]
#[inline(never)]
pub fn online_cpus() -> Option<u32> {
    cpus_in(text(&open_and_read, c"/sys/devices/system/cpu/online", &mut [0; SMALL])?)
}

/// Whether the group of this process, or one above it, has a limit of CPU time. `false` where the
/// system does not tell.
#[must_use]
#[inline(never)]
pub fn has_cpu_quota() -> bool {
    has_cpu_quota_by(&open_and_read)
}

fn open_and_read(path: &CStr, room: &mut [u8]) -> usize {
    let file = rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    file.and_then(|file| rustix::io::read(file, room)).unwrap_or(0)
}

/// [`has_cpu_quota`] for a program that reads files in its own way: `read` gives the number of
/// bytes at the beginning of a file, 0 where it cannot be read.
#[must_use]
#[inline(never)]
pub fn has_cpu_quota_by(read: Read<'_>) -> bool {
    let mut room = [0; GROUPS];
    let groups = text(read, c"/proc/self/cgroup", &mut room).unwrap_or("");
    groups.lines().any(|line| has_quota(read, line))
}

/// Reads the beginning of a file.
type Read<'a> = &'a dyn Fn(&CStr, &mut [u8]) -> usize;

/// Running tasks in `0.20 0.18 0.12 1/80 11206`.
#[must_use]
pub fn running_in(text: &str) -> Option<u32> {
    text.split_ascii_whitespace().nth(3)?.split('/').next()?.parse().ok()
}

/// The number of CPUs in `0-3,8`.
#[must_use]
pub fn cpus_in(text: &str) -> Option<u32> {
    text.trim_end().split(',').try_fold(0_u32, |sum, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

/// Whether the group of this line of `/proc/self/cgroup`, or one above it, has a limit.
fn has_quota(read: Read<'_>, line: &str) -> bool {
    let Some((root, file, path)) = quota_file(line) else { return false };
    let mut groups = core::iter::successors(Some(path.trim_end_matches('/')), |path| {
        path.rfind('/').and_then(|end| path.get(..end))
    });
    groups.any(|group| {
        let mut room = [0; PATH];
        let path = join(&mut room, [root, group, "/", file]);
        path.and_then(|path| text(read, path, &mut [0; SMALL]).map(is_quota)).unwrap_or(false)
    })
}

/// Where the limits of the groups of this line are: the mount, the file, and the path of the group.
fn quota_file(line: &str) -> Option<(&'static str, &'static str, &str)> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    if controllers.is_empty() {
        Some(("/sys/fs/cgroup", "cpu.max", path))
    } else if controllers.split(',').any(|name| name == "cpu") {
        Some(("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", path))
    } else {
        None
    }
}

/// Whether this is a limit: `20000 100000` or `20000`, and neither `max 100000` nor `-1`.
fn is_quota(text: &str) -> bool {
    text.split_ascii_whitespace().next().is_some_and(|word| word.parse::<u64>().is_ok())
}

fn join<'a>(room: &'a mut [u8], parts: [&str; 4]) -> Option<&'a CStr> {
    let mut length = 0;
    for part in parts {
        let end = length + part.len();
        room.get_mut(length..end)?.copy_from_slice(part.as_bytes());
        length = end;
    }
    *room.get_mut(length)? = 0;
    CStr::from_bytes_until_nul(room).ok()
}

fn text<'a>(read: Read<'_>, path: &CStr, room: &'a mut [u8]) -> Option<&'a str> {
    if cfg!(miri) {
        return None;
    }
    let length = read(path, room);
    core::str::from_utf8(room.get(..length)?).ok().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_tells_its_running_tasks() {
        assert_eq!(running_in("0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert!(running_in("0.20 0.18").is_none() && running_in("a b c d e").is_none());
    }

    #[test]
    fn the_system_tells_its_cpus() {
        assert_eq!([cpus_in("0\n"), cpus_in("0-3\n"), cpus_in("0-1,4,6-7\n")], [1, 4, 5].map(Some));
        let wrong = ["", "0-", "3-1", "0-4294967295"];
        assert_eq!(wrong.map(cpus_in), [None; 4]);
        assert!(usable_cpus().is_none_or(|cpus| cpus >= 1));
    }

    #[test]
    fn limits_of_both_versions_are_known() {
        assert!(is_quota("20000 100000\n") && is_quota("150000\n"));
        assert!(!is_quota("max 100000\n") && !is_quota("-1\n") && !is_quota(""));
        let second = Some(("/sys/fs/cgroup", "cpu.max", "/a/b"));
        let first = Some(("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "/c:d"));
        assert_eq!([quota_file("0::/a/b"), quota_file("3:cpu,cpuacct:/c:d")], [second, first]);
        for other in ["", "4:memory:/a", "5:cpuset:/", "6:cpuacct:/", "7"] {
            assert_eq!(quota_file(other), None, "{other}");
        }
        let has_quota = |line| has_quota(&open_and_read, line);
        assert!(!has_quota("0::/no/such/group") || has_quota("0::/"), "those above it count");
    }

    #[test]
    fn a_path_that_is_too_long_has_no_limit() {
        assert_eq!(join(&mut [0; 8], ["/a", "/b", "/", "cd"]), Some(c"/a/b/cd"));
        assert_eq!(join(&mut [0; 7], ["/a", "/b", "/", "cd"]), None);
    }

    #[test]
    fn child_in_a_group() {
        let Some(group) = std::env::var_os("M3_TEST_GROUP") else { return };
        let member = std::path::Path::new(&group).join("cgroup.procs");
        std::fs::write(member, std::process::id().to_string()).unwrap();
        std::process::exit(i32::from(has_cpu_quota()));
    }

    /// Whether a child in this group finds a limit.
    fn finds_quota(group: &std::path::Path) -> bool {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "cpu_demand::tests::child_in_a_group"]);
        let status = command.env("M3_TEST_GROUP", group).status().unwrap();
        assert!(matches!(status.code(), Some(0 | 1)), "{status}");
        status.code() == Some(1)
    }

    #[test]
    fn the_limit_of_a_group_and_of_the_one_above_it_is_found() {
        use std::fs::{create_dir, remove_dir, write};
        if has_cpu_quota() {
            eprintln!("SKIP: this process has a limit of CPU time");
            return;
        }
        let versions = [
            ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", ["50000", "-1"]),
            ("/sys/fs/cgroup", "cpu.max", ["50000 100000", "max 100000"]),
        ];
        let name = format!("m3ipc-quota-{}", std::process::id());
        for (root, file, [some, none]) in versions {
            let group = std::path::Path::new(root).join(&name);
            if create_dir(&group).is_err() {
                continue;
            }
            let member = group.join("below");
            // The kernel makes the file, if this is a group with a limit of CPU time.
            let is_one = group.join(file).exists() && create_dir(&member).is_ok();
            let found = is_one.then(|| {
                [none, some, none].map(|limit| {
                    write(group.join(file), limit).unwrap();
                    finds_quota(&member)
                })
            });
            let _ = remove_dir(&member);
            remove_dir(&group).unwrap();
            if let Some(found) = found {
                assert_eq!(found, [false, true, false], "{root}");
                return;
            }
        }
        eprintln!("SKIP: this user cannot make a group with a limit of CPU time");
    }
}
