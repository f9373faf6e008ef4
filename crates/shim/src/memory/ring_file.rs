//! The ring file: a sparse file of fixed size, which each process of a user maps whole.
//!
//! The file lies in `$M3_RUNTIME_DIR` or in `/dev/shm`. Its name holds the layout version, the user
//! and the PID namespace. Only its owner may open it. The directory belongs to root or to the user;
//! where others may write it, it is sticky, as /dev/shm is.
//!
//! The end of a process frees nothing: the maker of a later pair frees pairs that the dead left
//! (see `pairs`). A file of another size, or one that other users may open, is not used.
//!
//! # Safety
//! A mapping is never taken back, so references to its words live for ever. Words are atomics: any
//! bits are valid. Ring bytes are only copied, by machine code. A process of the same user may
//! truncate the file and thereby kill the processes that map it; it may send them a signal as well.
#![allow(unsafe_code)]

use super::layout::{
    self, FILE_BYTES, FIRST_PAIR, PAIR_BYTES, RING_BYTES_MAX, VERSION, half, pair,
};
use crate::buffers::Piece;
use crate::kernel::file::{self, File};
use crate::kernel::{Errno, memory, process};
use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use m3ipc_sys::{CheckedPath, PathFault, UserNames};
use std::ffi::CString;
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::OnceLock;

/// Effective users of one process at most, with a file each.
const USERS_MAX: usize = 4;
/// Bytes of a file's name at most.
const NAME_MAX: usize = 128;
/// Bytes of a small file of /proc at most. A longer map of users is not complete.
const FILE_TEXT_MAX: usize = 256;

/// Words of one half.
pub type HalfWords = [AtomicU64; half::BYTES / 8];

/// The ring file of a user.
#[derive(Debug)]
pub struct RingFile {
    base: AtomicPtr<u8>,
    user: AtomicU32,
}

static FILES: [RingFile; USERS_MAX] = [const {
    RingFile { base: AtomicPtr::new(core::ptr::null_mut()), user: AtomicU32::new(u32::MAX) }
}; USERS_MAX];

/// Users that may not open the file, for example after the process gave up its rights.
static REFUSED: [AtomicU32; USERS_MAX] = [const { AtomicU32::new(u32::MAX) }; USERS_MAX];
static NEXT_REFUSED: AtomicU32 = AtomicU32::new(0);

/// The directory of the files, where the environment names none.
const DEFAULT_DIRECTORY: &CStr = c"/dev/shm";

/// The directory that the constructor found in the environment.
static DIRECTORY: OnceLock<Directory> = OnceLock::new();

enum Directory {
    /// [`DEFAULT_DIRECTORY`].
    Default,
    /// The named one.
    Named(CString),
    /// The named one may not be used: another user can replace it.
    Refused,
}

/// Stores the directory of the file. The constructor calls this; it may allocate.
pub fn set_directory() {
    let _ = DIRECTORY.set(match m3ipc_sys::variable("M3_RUNTIME_DIR") {
        None => Directory::Default,
        Some(named) => named_directory(Path::new(&named)).unwrap_or(Directory::Refused),
    });
}

/// The directory without links. No other user can change the way to it afterwards.
fn named_directory(named: &Path) -> Option<Directory> {
    let path = match CheckedPath::open(named) {
        Ok(place) => place.path().to_owned(),
        // It may come later; each open checks its owner.
        Err(PathFault::System { errno: m3ipc_sys::Errno::NOENT, .. }) => {
            std::path::absolute(named).ok()?
        }
        Err(_) => return None,
    };
    Some(Directory::Named(CString::new(path.into_os_string().into_vec()).ok()?))
}

impl RingFile {
    /// The file of the current effective user; maps the file where it is not mapped yet.
    ///
    /// `adopt` runs once for each file, before other threads can use it.
    pub fn current(adopt: impl Fn(&'static Self)) -> Option<&'static Self> {
        let user = process::user();
        if let Some(known) = FILES.iter().find(|file| file.user.load(Ordering::Acquire) == user) {
            return known.is_mapped().then_some(known);
        }
        if REFUSED.iter().any(|refused| refused.load(Ordering::Relaxed) == user) {
            return None;
        }
        let base = match open(user) {
            Ok(base) => base,
            // The answer will not change: each wait and each call would ask again.
            Err(libc::EACCES | libc::EPERM) => {
                let next = NEXT_REFUSED.fetch_add(1, Ordering::Relaxed) as usize % USERS_MAX;
                REFUSED[next].store(user, Ordering::Relaxed);
                return None;
            }
            Err(_) => return None,
        };
        for file in &FILES {
            let free = core::ptr::null_mut();
            let claim = file.base.compare_exchange(free, base, Ordering::AcqRel, Ordering::Relaxed);
            if claim.is_ok() {
                adopt(file);
                file.user.store(user, Ordering::Release);
                return Some(file);
            }
            if file.user.load(Ordering::Acquire) == user {
                // Another thread was faster; our mapping stays unused.
                return Some(file);
            }
        }
        None
    }

    fn is_mapped(&self) -> bool {
        !self.base.load(Ordering::Acquire).is_null()
    }

    /// The number of this file in this process.
    #[must_use]
    pub fn index(&self) -> usize {
        FILES.iter().position(|file| core::ptr::eq(file, self)).unwrap_or(0)
    }

    /// The file of a number.
    #[must_use]
    #[inline]
    pub fn of_index(index: usize) -> Option<&'static Self> {
        FILES.get(index).filter(|file| file.is_mapped())
    }

    fn at(&self, offset: usize) -> *mut u8 {
        self.base.load(Ordering::Acquire).wrapping_add(offset)
    }

    /// The word at `offset`.
    ///
    /// # Panics
    /// Where the word does not lie inside the file, aligned: offsets are our own constants and
    /// checked indexes.
    #[inline]
    pub fn word(&'static self, offset: usize) -> &'static AtomicU64 {
        assert!(offset + 8 <= FILE_BYTES && offset.is_multiple_of(8), "word outside the ring file");
        // SAFETY: inside the mapping and aligned (just checked); a mapping is never taken back.
        unsafe { &*self.at(offset).cast::<AtomicU64>() }
    }

    /// The words of one half of a pair.
    #[inline]
    pub fn half_words(&'static self, number: usize, side: usize) -> &'static HalfWords {
        let offset = layout::pair_offset(number) + pair::HALVES[side & 1];
        // SAFETY: `pair_offset` bounds the number, so the half lies inside the mapping; a half
        // begins at a multiple of 512 bytes.
        unsafe { &*self.at(offset).cast::<HalfWords>() }
    }

    /// The ring of one half of a pair.
    #[inline]
    pub fn ring(&'static self, number: usize, side: usize) -> RingMemory {
        RingMemory(self.at(layout::ring_offset(number, side)))
    }

    /// Takes memory from the system for a range, so that a later access cannot fail.
    ///
    /// # Errors
    /// `ENOMEM`, `ENOSPC`, `EFAULT`; `EINVAL` before Linux 5.14.
    pub fn reserve(&self, offset: usize, bytes: usize) -> Result<(), Errno> {
        memory::populate(self.at(offset), bytes)
    }

    /// Gives the memory of a pair back, which reads as zeros afterwards.
    pub fn give_back(&self, number: usize) {
        // SAFETY: whole pages inside the mapping, which hold atomics and copied bytes alone.
        unsafe { memory::remove(self.at(layout::pair_offset(number)), PAIR_BYTES) };
    }
}

/// The bytes of one ring: 64 KiB that the peer may write at any time.
#[derive(Clone, Copy, Debug)]
pub struct RingMemory(*mut u8);

impl RingMemory {
    /// Copies a piece of a send's memory into the ring.
    ///
    /// # Panics
    /// Where the piece does not fit behind `at`: ring positions are masked with a checked size.
    #[inline]
    pub fn copy_in(self, at: usize, piece: Piece<'_>) {
        assert!(at + piece.bytes() <= RING_BYTES_MAX, "bytes outside the ring");
        // SAFETY: the ring side lies inside the ring (just checked) and stays mapped; the maker of
        // the piece's buffers vouches for the other side. The program's memory is no ring.
        unsafe { m3ipc_shm::copy_bytes(self.0.wrapping_add(at), piece.start(), piece.bytes()) };
    }

    /// Copies bytes of the ring into a piece of a receive's memory.
    ///
    /// # Panics
    /// As [`copy_in`](Self::copy_in).
    #[inline]
    pub fn copy_out(self, at: usize, piece: Piece<'_>) {
        assert!(at + piece.bytes() <= RING_BYTES_MAX, "bytes outside the ring");
        // SAFETY: as in `copy_in`, in the other direction.
        unsafe { m3ipc_shm::copy_bytes(piece.start(), self.0.wrapping_add(at), piece.bytes()) };
    }
}

/// The number of the PID namespace: locks name threads by numbers of one namespace.
fn namespace() -> Result<u64, Errno> {
    let file = File::open(c"/proc/self/ns/pid")?;
    Ok(file::stat(file.fd())?.st_ino)
}

/// The users of this process's namespace, read without allocation.
fn user_names() -> UserNames {
    let mut rooms = [[0_u8; FILE_TEXT_MAX]; 2];
    let [map, overflow] = &mut rooms;
    UserNames::of(text(c"/proc/self/uid_map", map), text(c"/proc/sys/kernel/overflowuid", overflow))
}

/// The first bytes of a small file; nothing where it cannot be read.
fn text<'a>(path: &CStr, room: &'a mut [u8]) -> &'a str {
    let bytes = File::open(path).map_or(0, |file| file.read(room));
    core::str::from_utf8(&room[..bytes]).unwrap_or("")
}

/// Opens the directory of the files, if no other user can remove or replace a file in it.
fn open_directory(user: u32) -> Result<(File, &'static str), Errno> {
    let users = user_names();
    // All unmapped users of a namespace have one number: the owner of a file would not be known.
    if !users.names_one(user) {
        return Err(libc::EPERM);
    }
    let (path, prefix) = match DIRECTORY.get() {
        None | Some(Directory::Default) => (DEFAULT_DIRECTORY, "m3sock"),
        Some(Directory::Named(path)) => (path.as_c_str(), "sock"),
        Some(Directory::Refused) => return Err(libc::EPERM),
    };
    let directory = File::open_directory(path)?;
    let stat = file::stat(directory.fd())?;
    let is_sticky = stat.st_mode & libc::S_ISVTX != 0;
    // Root of another namespace makes the default directory.
    let is_roots = stat.st_uid == 0 || (prefix == "m3sock" && !users.names_one(stat.st_uid));
    let is_safe = stat.st_mode & 0o022 == 0 || is_sticky;
    if is_safe && (is_roots || stat.st_uid == user) {
        Ok((directory, prefix))
    } else {
        Err(libc::EPERM)
    }
}

fn open(user: u32) -> Result<*mut u8, Errno> {
    let (directory, prefix) = open_directory(user)?;
    let namespace = namespace()?;
    let mut name = [0_u8; NAME_MAX];
    let mut rest = &mut name[..NAME_MAX - 1];
    write!(rest, "{prefix}-{VERSION}-{user}-{namespace}").map_err(|_| libc::ENAMETOOLONG)?;
    let name = CStr::from_bytes_until_nul(&name).map_err(|_| libc::ENAMETOOLONG)?;
    let file = File::create_at(directory.fd(), name)?;
    map(&file, user)
}

fn map(file: &File, user: u32) -> Result<*mut u8, Errno> {
    let stat = file::stat(file.fd())?;
    let is_file = stat.st_mode & libc::S_IFMT == libc::S_IFREG;
    if !is_file || stat.st_uid != user || stat.st_mode & 0o077 != 0 || stat.st_nlink > 1 {
        return Err(libc::EPERM);
    }
    match usize::try_from(stat.st_size) {
        Ok(0) => file::truncate(file.fd(), FILE_BYTES)?,
        Ok(FILE_BYTES) => {}
        _ => return Err(libc::EPERM),
    }
    let base = memory::map_shared(file.fd(), FILE_BYTES)?;
    if let Err(errno) = memory::populate(base, FIRST_PAIR) {
        // SAFETY: exactly the mapping just made, of which no reference exists.
        unsafe { memory::unmap(base, FILE_BYTES) };
        return Err(errno);
    }
    Ok(base)
}
