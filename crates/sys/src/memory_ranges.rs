//! The memory ranges of a process, and whether an access to them can block.
//!
//! Another process fills the pages of a file system in user space, of a network file system, and of
//! a userfaultfd. It may never do so; a copy of such a page then sleeps and cannot be killed. So a
//! requester checks a range before a copy. Three kinds of memory never wait for a process: memory
//! without a file, memory of memfds, and files of the machine's own file systems.

use rustix::fs::{fstat, major, minor};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs::read_to_string;

/// File systems with pages that the kernel fills by itself.
const OWN_FILE_SYSTEMS: &[&str] = &[
    "bcachefs", "btrfs", "erofs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "squashfs",
    "tmpfs", "xfs", "zfs",
];

/// A range of addresses of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRange {
    /// The first address.
    pub start: u64,
    /// The address behind the last byte.
    pub end: u64,
    /// Whether an access never waits for another process.
    pub never_blocks: bool,
}

/// The mapped ranges of a process, in order.
///
/// # Errors
/// `SRCH` if there is no such process, or if /proc hides it.
///
/// # Source
/// proc_pid_smaps(5), proc_pid_mountinfo(5)
pub fn memory_ranges(pid: i32) -> Result<Vec<MemoryRange>, Errno> {
    // Only smaps shows a userfaultfd, and it costs a walk through all pages.
    let detailed = may_use_userfaultfd();
    let file = if detailed { "smaps" } else { "maps" };
    let text = read_to_string(format!("/proc/{pid}/{file}")).map_err(|_hidden| Errno::SRCH)?;
    let mounts = mounts();
    let memory = memory_device();
    let mut ranges: Vec<MemoryRange> = Vec::new();
    for line in text.lines() {
        if let Some(range) = parse(line, &mounts, memory) {
            ranges.push(range);
        } else if let (Some(flags), Some(last)) = (line.strip_prefix("VmFlags:"), ranges.last_mut())
            && flags.split(' ').any(|flag| matches!(flag, "um" | "uw" | "ui"))
        {
            last.never_blocks = false;
        }
    }
    Ok(ranges)
}

/// What occupies an address of this range in this process, for a person: the file of the mapping,
/// or the tool that reserves whole ranges. `None` if nothing does, or if /proc is hidden.
///
/// # Source
/// proc_pid_maps(5)
#[must_use]
pub fn occupant_of(range: core::ops::Range<u64>) -> Option<String> {
    occupant_in(&read_to_string("/proc/self/maps").ok()?, range)
}

fn occupant_in(maps: &str, range: core::ops::Range<u64>) -> Option<String> {
    const TOOLS: &[(&str, &str)] = &[
        ("libtsan", "ThreadSanitizer"),
        ("libasan", "AddressSanitizer"),
        ("liblsan", "LeakSanitizer"),
        ("/vgpreload_", "valgrind"),
    ];
    let none = HashMap::new();
    let (line, found) = maps
        .lines()
        .filter_map(|line| Some((line, parse(line, &none, None)?)))
        .find(|(_, found)| found.start < range.end && range.start < found.end)?;
    let place = format!("{:#x} to {:#x}", found.start, found.end);
    if let Some(path) = line.split_ascii_whitespace().nth(5) {
        return Some(format!("{path} ({place})"));
    }
    let tool = TOOLS.iter().find(|(file, _)| maps.contains(file)).map(|(_, name)| *name);
    // No program maps a terabyte, but sanitizers reserve their shadow.
    let tool = tool.or_else(|| (found.end - found.start >= 1 << 40).then_some("a sanitizer"));
    let owner = tool.map_or(String::new(), |name| format!(" of {name}"));
    Some(format!("memory{owner} ({place})"))
}

/// A line of maps: `start-end perms offset dev inode path`.
fn parse(
    line: &str,
    mounts: &HashMap<(u32, u32), bool>,
    memory: Option<(u32, u32)>,
) -> Option<MemoryRange> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let (device, inode) = (fields.nth(2)?, fields.next()?);
    let (major, minor) = device.split_once(':')?;
    let device = (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?);
    let never_blocks = inode == "0" && device == (0, 0)
        || Some(device) == memory
        || mounts.get(&device).copied().unwrap_or(false);
    Some(MemoryRange { start, end, never_blocks })
}

/// The devices of all mounts, and whether each has one of [`OWN_FILE_SYSTEMS`].
fn mounts() -> HashMap<(u32, u32), bool> {
    let text = read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let lines = text.lines().filter_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let (major, minor) = mount.split(' ').nth(2)?.split_once(':')?;
        let own = OWN_FILE_SYSTEMS.contains(&kind.split(' ').next()?);
        Some(((major.parse().ok()?, minor.parse().ok()?), own))
    });
    lines.collect()
}

/// The device of memfds.
fn memory_device() -> Option<(u32, u32)> {
    let device = fstat(crate::create_memory("m3-probe", 4096).ok()?).ok()?.st_dev;
    Some((major(device), minor(device)))
}

/// Whether processes of this user may handle page faults of the kernel.
fn may_use_userfaultfd() -> bool {
    let unprivileged = read_to_string("/proc/sys/vm/unprivileged_userfaultfd")
        .is_ok_and(|text| text.trim() == "1");
    unprivileged
        || rustix::fs::access("/dev/userfaultfd", rustix::fs::Access::WRITE_OK).is_ok()
        || may_ptrace()
}

/// Whether this process has `CAP_SYS_PTRACE`.
fn may_ptrace() -> bool {
    const CAP_SYS_PTRACE: u32 = 19;
    let status = read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_none_or(|bits| bits & 1 << CAP_SYS_PTRACE != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_memory_never_blocks() {
        let heap = vec![1_u8; 1 << 20];
        let stack = 5_u8;
        let ranges = memory_ranges(crate::process_id()).unwrap();
        for address in [heap.as_ptr().addr() as u64, (&raw const stack).addr() as u64] {
            let range =
                ranges.iter().find(|range| range.start <= address && address < range.end).unwrap();
            assert!(range.never_blocks, "{range:x?}");
        }
    }

    #[test]
    fn the_occupant_of_an_address_has_a_name() {
        let maps = "55a0-55b0 r-xp 00000000 08:01 77   /usr/bin/x\n\
                    10000-20000000000 ---p 00000000 00:00 0\n";
        let occupant = |maps, at| occupant_in(maps, at..at + 1);
        assert_eq!(occupant(maps, 0x55a5).unwrap(), "/usr/bin/x (0x55a0 to 0x55b0)");
        let reserved = "memory of a sanitizer (0x10000 to 0x20000000000)";
        assert_eq!(occupant(maps, 0x10000).unwrap(), reserved);
        assert_eq!(occupant(maps, 0x55b0), None);
        let maps = format!("{maps}7f00-7f10 r-xp 00000000 08:01 78 /usr/lib/libtsan.so.2\n");
        assert!(occupant(&maps, 0x10000).unwrap().starts_with("memory of ThreadSanitizer"));
        let own = 5_u8;
        let at = (&raw const own).addr() as u64;
        assert!(occupant_of(at..at + 1).is_some());
    }

    #[test]
    fn only_files_of_the_machine_never_block() {
        let mounts = HashMap::from([((8, 1), true), ((0, 50), false)]);
        let never_blocks = |line: &str| parse(line, &mounts, Some((0, 1))).unwrap().never_blocks;
        assert!(never_blocks("7f00-7f10 rw-p 00000000 00:00 0 "));
        assert!(never_blocks("7f00-7f10 rw-p 00000000 00:00 0    [heap]"));
        assert!(never_blocks("7f00-7f10 r--p 00000000 08:01 77   /usr/lib/x.so"));
        assert!(never_blocks("7f00-7f10 rw-s 00000000 00:01 77   /memfd:m3 (deleted)"));
        assert!(!never_blocks("7f00-7f10 rw-s 00000000 00:32 77  /memfd:m3 (deleted)"));
        assert!(!never_blocks("7f00-7f10 rw-s 00000000 00:33 77  /mnt/far"));
        assert_eq!(parse("VmFlags: rd wr mr", &mounts, None), None);
    }

    #[test]
    fn an_unknown_process_is_an_error() {
        assert_eq!(memory_ranges(i32::MAX), Err(Errno::SRCH));
    }
}
