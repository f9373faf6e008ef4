//! A file whose pages never come: a file system in user space that answers each call but reads.
//!
//! # Safety
//! Every pointer given to the kernel is to a live string or a live buffer.
#![allow(unsafe_code)]

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const NOT_SUPPORTED: i32 = -libc::ENOSYS;
/// The one file.
const FILE: u64 = 2;
const FILE_BYTES: u64 = 1 << 20;

/// The file system. Dropping it wakes the sleepers in it.
#[derive(Debug)]
pub struct SlowFile {
    directory: PathBuf,
    ends: Arc<AtomicBool>,
    was_read: Arc<AtomicBool>,
    server: Option<JoinHandle<()>>,
}

impl SlowFile {
    /// Mounts it on a new directory; `None` if the system does not allow it.
    #[must_use]
    pub fn mount(directory: &Path) -> Option<Self> {
        let device =
            rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).ok()?;
        std::fs::create_dir_all(directory).ok()?;
        let options =
            format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let [name, kind, place, options] =
            ["m3-slow", "fuse", directory.to_str()?, &options].map(CString::new);
        let (name, kind, place, options) = (name.ok()?, kind.ok()?, place.ok()?, options.ok()?);
        let flags = libc::MS_NOSUID | libc::MS_NODEV;
        // SAFETY: four strings that live through the call.
        let mounted = unsafe {
            libc::mount(
                name.as_ptr(),
                place.as_ptr(),
                kind.as_ptr(),
                flags,
                options.as_ptr().cast(),
            )
        };
        if mounted != 0 {
            return None;
        }
        let (ends, was_read) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (seen, read) = (Arc::clone(&ends), Arc::clone(&was_read));
        let server = std::thread::spawn(move || serve(&device, &seen, &read));
        Some(Self { directory: directory.to_owned(), ends, was_read, server: Some(server) })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.join("slow")
    }

    /// Whether a thread waits for a page.
    #[must_use]
    pub fn was_read(&self) -> bool {
        self.was_read.load(Ordering::SeqCst)
    }
}

impl Drop for SlowFile {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        // The device is closed: the kernel answers all that is open with an error.
        self.server.take().map(JoinHandle::join);
        if let Some(place) = self.directory.to_str().and_then(|place| CString::new(place).ok()) {
            // SAFETY: a string that lives through the call.
            unsafe { libc::umount2(place.as_ptr(), libc::MNT_DETACH) };
        }
        let _ = std::fs::remove_dir(&self.directory);
    }
}

fn serve(device: &OwnedFd, ends: &AtomicBool, was_read: &AtomicBool) {
    let mut frame = vec![0_u8; 1 << 17];
    while !ends.load(Ordering::SeqCst) {
        let mut ready = [PollFd::new(device, PollFlags::IN)];
        let limit = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        if poll(&mut ready, Some(&limit)) != Ok(1) {
            continue;
        }
        let Ok(bytes) = rustix::io::read(device, &mut frame[..]) else { continue };
        let word = |at: usize| u32::from_ne_bytes(frame[at..at + 4].try_into().unwrap_or_default());
        if bytes < 40 {
            continue;
        }
        let (call, ticket) = (word(4), &frame[8..16]);
        let node = u64::from(word(16)) | u64::from(word(20)) << 32;
        let (code, body) = match call {
            READ => {
                was_read.store(true, Ordering::SeqCst);
                continue;
            }
            FORGET => continue,
            // Version 7.31, no wishes, and writes of a page.
            INIT => (0, words(&[7, 31, 0, 0, 0, 4096, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
            LOOKUP => (0, [words(&[2, 0, 0, 0, 9, 0, 9, 0, 0, 0]), attributes(FILE)].concat()),
            GETATTR => (0, [words(&[9, 0, 0, 0]), attributes(node)].concat()),
            OPEN => (0, words(&[1, 0, 0, 0])),
            RELEASE | FLUSH => (0, Vec::new()),
            _ => (NOT_SUPPORTED, Vec::new()),
        };
        let length = u32::try_from(16 + body.len()).unwrap_or_default();
        let answer = [&length.to_ne_bytes()[..], &i32::to_ne_bytes(code), ticket, &body].concat();
        let _ = rustix::io::write(device, &answer);
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// fuse_attr: number, size, blocks, three times, their fractions, mode, links, owner, device, page
/// size.
fn attributes(node: u64) -> Vec<u8> {
    let (mode, bytes) =
        if node == FILE { (libc::S_IFREG | 0o644, FILE_BYTES) } else { (libc::S_IFDIR | 0o755, 0) };
    let long = [node, bytes, bytes.div_ceil(512), 0, 0, 0];
    let long = long.iter().flat_map(|word| word.to_ne_bytes());
    long.chain(words(&[0, 0, 0, mode, 1, 0, 0, 0, 4096, 0])).collect()
}
