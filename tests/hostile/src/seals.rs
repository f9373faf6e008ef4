//! A member attacks the status page of its peer, which it may read and only the owner may write.

use crate::round::vm_id;
use crate::syscalls::{add_seal, map_and_write, write_behind};
use m3ipc_test_fixture::raw::RawMember;
use std::fs::OpenOptions;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// Every attack on a page through its descriptor: its name, and whether it succeeded.
pub fn attacks(page: &OwnedFd) -> Vec<(&'static str, bool)> {
    let again = format!("/proc/self/fd/{}", page.as_raw_fd());
    let reopen = || {
        // The owner of the file can give itself the right; the seal must hold even then.
        let _ = std::fs::set_permissions(&again, std::fs::Permissions::from_mode(0o777));
        OpenOptions::new().read(true).write(true).open(&again).ok()
    };
    let file = |attack: &dyn Fn(&std::fs::File) -> bool| {
        let given = std::fs::File::from(page.try_clone().expect("a descriptor"));
        attack(&given) | reopen().is_some_and(|file| attack(&file))
    };
    let hole = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    vec![
        ("mmap RW", map_and_write(page, false)),
        ("mprotect", map_and_write(page, true)),
        ("reopen RW, mmap", reopen().is_some_and(|file| map_and_write(file, false))),
        ("reopen RW, mprotect", reopen().is_some_and(|file| map_and_write(file, true))),
        ("ftruncate shorter", file(&|file| file.set_len(0).is_ok())),
        ("ftruncate longer", file(&|file| file.set_len(8192).is_ok())),
        ("punch a hole", file(&|file| rustix::fs::fallocate(file, hole, 0, 4096).is_ok())),
        ("pwrite", file(&|file| file.write_at(&[0xee; 8], 0).is_ok())),
        (
            "F_ADD_SEALS",
            add_seal(page, libc::F_SEAL_WRITE) | add_seal(page, libc::F_SEAL_FUTURE_WRITE),
        ),
        ("/proc/self/mem", write_behind(page, "/proc/self/mem")),
        ("process_vm_writev", write_behind(page, "process_vm_writev")),
        ("MADV_REMOVE", write_behind(page, "MADV_REMOVE")),
    ]
}

fn inode_of(page: &OwnedFd) -> u64 {
    std::fs::File::from(page.try_clone().expect("a descriptor"))
        .metadata()
        .map_or(0, |found| found.ino())
}

/// Binds, contacts the victim, attacks its status page, and looks for pages of others in itself.
pub fn run(directory: &str, vm: &str, victim: &str, foreign: &[&str]) {
    let directory = Path::new(directory);
    let mut raw = RawMember::greeted(directory).expect("the node runs");
    let _own = raw.bind(vm_id(directory, vm), None).expect("a slot");
    let peer = raw.contact(victim.parse().expect("an address")).expect("a link");
    let before = inode_of(&peer.status_fd);
    for (name, succeeded) in attacks(&peer.status_fd) {
        println!("{name}: {}", if succeeded { "succeeded" } else { "refused" });
    }
    // A page as it would be without the seal: every tool must be able to succeed.
    let unsealed = m3ipc_sys::create_memory("m3-planted", 4096).expect("memory");
    let noticed = attacks(&unsealed).iter().filter(|(_, succeeded)| *succeeded).count();
    println!("planted {noticed}");
    assert_eq!(before, inode_of(&peer.status_fd));
    let found = foreign.iter().filter(|inode| holds(inode)).count();
    println!("foreign {found} own {}", u8::from(holds(&before.to_string())));
    let _ = peer.status_fd.as_fd();
}

/// Whether this process has a page of this inode open or mapped.
fn holds(inode: &str) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mapped = maps
        .lines()
        .any(|line| line.contains("memfd:") && line.split_whitespace().nth(4) == Some(inode));
    let descriptors = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let open = descriptors
        .filter_map(|entry| std::fs::metadata(entry.path()).ok())
        .any(|found| found.ino().to_string() == inode);
    mapped || open
}
