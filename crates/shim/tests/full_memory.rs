//! No process ends by a signal where the system has no shared memory left.
//!
//! Each case is this program again, in a mount namespace of its own with a small tmpfs.
#![allow(unsafe_code, clippy::unwrap_used)]

#[path = "processes/end.rs"]
#[allow(dead_code)]
mod end;

use end::End;
use m3ipc_shim::connection::idle_rings::{LOOK_NS, look_now_and_then};
use m3ipc_shim::connection::ring_extent::any_large;
use m3ipc_shim::counters::{self, Counter};
use m3ipc_shim::kernel::socket::cookie;
use m3ipc_shim::memory::layout::{POLLER_FILE_BYTES, half, pair};
use m3ipc_shim::settings::Settings;
use m3ipc_shim::{monotonic_ns, prepare};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The exit code where the system makes no namespace.
const NO_NAMESPACE: i32 = 77;

/// A mount namespace of its own, in a user namespace whose root is the caller.
fn enter_namespace(user: u32, group: u32) -> std::io::Result<()> {
    // SAFETY: no pointers.
    if unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) } != 0 {
        // SAFETY: ends this child of a fork.
        unsafe { libc::_exit(NO_NAMESPACE) };
    }
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("0 {group} 1"))
}

/// Runs a case in a process of its own, which must end well.
fn run(case: &str) {
    // SAFETY: no pointers.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let mut program = Command::new(std::env::current_exe().unwrap());
    program
        .args(["partner", "--exact", "--nocapture", "--test-threads=1"])
        .env("M3_SHIM_TEST_CASE", case)
        .stdin(Stdio::null());
    // SAFETY: the function makes system calls and writes files.
    unsafe { program.pre_exec(move || enter_namespace(user, group)) };
    let outcome = program.output().unwrap();
    let said = String::from_utf8_lossy(&outcome.stderr).into_owned();
    if outcome.status.code() == Some(NO_NAMESPACE) {
        eprintln!("left out: this system makes no namespace");
        return;
    }
    assert_eq!(outcome.status.signal(), None, "{case}: {said}");
    assert!(outcome.status.success(), "{case}: {said}");
}

/// A small tmpfs with the memory of this program's connections.
fn small_memory() -> PathBuf {
    let home = std::env::temp_dir().join(format!("m3-full-memory-{}", std::process::id()));
    DirBuilder::new().mode(0o700).create(&home).unwrap();
    let name = std::ffi::CString::new(home.to_str().unwrap()).unwrap();
    // SAFETY: strings with their ends.
    let mounted = unsafe {
        libc::mount(
            c"none".as_ptr(),
            name.as_ptr(),
            c"tmpfs".as_ptr(),
            0,
            c"size=1m,mode=0700".as_ptr().cast(),
        )
    };
    assert_eq!(mounted, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the only thread that looks at the environment.
    unsafe { std::env::set_var("M3_RUNTIME_DIR", &home) };
    prepare(Settings {
        upgrade_after_calls: 0,
        spin_ns: 0,
        same_process: true,
        ..Settings::default()
    });
    home
}

/// Takes all memory that is left.
fn fill(home: &Path) {
    let mut file = File::create(home.join("full")).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
}

fn directory(home: &Path) -> PathBuf {
    let mut entries = std::fs::read_dir(home).unwrap().map(|entry| entry.unwrap().path());
    entries.find(|path| path.is_dir()).unwrap()
}

/// Two ends whose bytes go through rings.
fn ends() -> [End; 2] {
    let (one, other) = UnixStream::pair().unwrap();
    one.set_nonblocking(true).unwrap();
    let ends = [End::new(one.into(), true), End::new(other.into(), true)];
    for _trip in 0..10 {
        exchange(&ends[0], &ends[1], 100);
        exchange(&ends[1], &ends[0], 100);
    }
    assert_eq!(counters::read(Counter::Upgrades), 2);
    ends
}

fn exchange(from: &End, to: &End, bytes: usize) {
    let mut got = vec![0; bytes];
    let mut done = 0;
    while done < bytes {
        let now = from.send(&vec![7; bytes - done]).unwrap();
        to.receive_all(&mut got[done..done + now]).unwrap();
        done += now;
    }
    assert!(got.iter().all(|byte| *byte == 7));
}

/// The file of a pair, and the offset of the half that this end sends on.
fn sending_half(home: &Path, end: &End) -> (File, u64) {
    let own = cookie(end.fd.as_raw_fd()).unwrap();
    let path = directory(home).join(format!("{own:016x}"));
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let side = usize::from(word(&file, pair::COOKIES[0] as u64) != own);
    (file, pair::HALVES[side] as u64)
}

fn word(file: &File, at: u64) -> u64 {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, at).unwrap();
    u64::from_ne_bytes(bytes)
}

fn set_word(file: &File, at: u64, value: u64) {
    file.write_all_at(&value.to_ne_bytes(), at).unwrap();
}

/// Gives the memory of idle rings back.
fn shrink() {
    let hour_later_ns = monotonic_ns() + 3_600_000_000_000;
    look_now_and_then(hour_later_ns);
    look_now_and_then(hour_later_ns + LOOK_NS);
    assert!(!any_large());
}

/// A child has the records of its parent, which then gives the memory of the ring back.
fn shrinks_after_fork(home: &Path) {
    let [one, other] = ends();
    exchange(&one, &other, 60_000);
    exchange(&one, &other, 60_000);
    assert!(any_large());
    let (mut gate, mut open) = UnixStream::pair().unwrap();
    // SAFETY: the child makes calls of the library, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let mut byte = [0];
        let opened = std::io::Read::read(&mut gate, &mut byte).is_ok();
        let sent = one.send(&[7; 30_000]).unwrap_or(0);
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!opened || sent == 0)) };
    }
    shrink();
    fill(home);
    open.write_all(b"x").unwrap();
    let mut status = 0;
    // SAFETY: one integer.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0, "the child ended by signal {}", libc::WTERMSIG(status));
    let mut got = [0; 1000];
    other.receive_all(&mut got).unwrap();
    assert_eq!(got, [7; 1000]);
}

/// A peer names a poller whose memory nobody took.
fn names_a_poller(home: &Path) {
    const PID: u64 = 54_321;
    const POLLER: u64 = 40;
    let [one, other] = ends();
    let (file, sending) = sending_half(home, &one);
    let pollers = directory(home).join(format!("p{PID}"));
    let pollers =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(pollers).unwrap();
    pollers.set_len(POLLER_FILE_BYTES as u64).unwrap();
    set_word(&file, sending + half::POLLER_SLOT as u64, 1 << 43 | PID << 21 | POLLER << 14);
    fill(home);
    exchange(&one, &other, 100);
}

/// A peer names a ring, and bytes in it, whose memory nobody took.
fn names_bytes(home: &Path) {
    let [one, other] = ends();
    let (file, sending) = sending_half(home, &one);
    fill(home);
    let head = word(&file, sending + half::HEAD as u64);
    set_word(&file, sending + half::RING_BYTES as u64, 65_536);
    set_word(&file, sending + half::TAIL as u64, head + 65_536);
    let mut got = vec![0; 65_536];
    let refused = other.receive(&mut got, 0).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::ECONNRESET));
}

#[test]
fn partner() {
    let Ok(case) = std::env::var("M3_SHIM_TEST_CASE") else { return };
    let home = small_memory();
    match case.as_str() {
        "shrinks_after_fork" => shrinks_after_fork(&home),
        "names_a_poller" => names_a_poller(&home),
        _ => names_bytes(&home),
    }
    let name = std::ffi::CString::new(home.to_str().unwrap()).unwrap();
    // SAFETY: a string with its end.
    unsafe { libc::umount2(name.as_ptr(), libc::MNT_DETACH) };
    std::fs::remove_dir(&home).unwrap();
}

#[test]
fn a_child_sends_in_a_ring_whose_memory_its_parent_gave_back() {
    run("shrinks_after_fork");
}

#[test]
fn a_sender_offers_bytes_to_a_poller_that_its_peer_names() {
    run("names_a_poller");
}

#[test]
fn a_receiver_takes_bytes_that_its_peer_names() {
    run("names_bytes");
}
