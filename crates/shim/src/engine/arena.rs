//! The memory that the processes of one user share: a file of fixed size, sparse, mapped whole by each of them.
//!
//! It lies in `$M3_RUNTIME_DIR`, or in `/dev/shm`, named after layout, user and PID namespace, for its owner alone. Nothing
//! of it is freed by the end of a process; what the dead leave is found by whoever makes the next pair (see `pairs`). A file
//! that anybody else could write, or of another size, is not used.
//!
//! # Safety
//! The mapping is never taken back, so words live for ever. Who may write the file may also truncate it, which kills those who
//! have it mapped: only processes of the same user can, and they could as well send the signal.
#![allow(unsafe_code)]

use super::raw::{self, Errno};
use super::words::{FIRST, PAGE, PAIR_BYTES, PAIRS, RING_MAX, TOTAL, VERSION};
use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::io::Write;
use std::sync::OnceLock;

/// Linux 5.14.
const MADV_POPULATE_WRITE: i32 = 23;
/// Users that one process acts as, at most, with memory for each.
const USERS: usize = 4;
/// The most bytes of a path.
const PATH_MAX: usize = 512;

/// The memory of a user.
#[derive(Debug)]
pub(super) struct Arena {
    base: AtomicPtr<u8>,
    user: AtomicU32,
}

static ARENAS: [Arena; USERS] = [const {
    Arena { base: AtomicPtr::new(core::ptr::null_mut()), user: AtomicU32::new(u32::MAX) }
}; USERS];

/// Users who may not have the memory: who gave up his rights before his first socket.
static REFUSED: [AtomicU32; USERS] = [const { AtomicU32::new(u32::MAX) }; USERS];
static NEXT_REFUSED: AtomicU32 = AtomicU32::new(0);

/// The directory that the constructor found in the environment.
static HOME: OnceLock<Vec<u8>> = OnceLock::new();

/// Remembers where the file lies. Called by the constructor, which may allocate.
pub(super) fn settle() {
    use std::os::unix::ffi::OsStringExt;
    let named = std::env::var_os("M3_RUNTIME_DIR").filter(|named| !named.is_empty());
    let _ = HOME.set(named.map_or_else(Vec::new, OsStringExt::into_vec));
}

impl Arena {
    /// The memory of the user this process acts as now; mapped where it is not yet.
    pub(super) fn current() -> Option<&'static Self> {
        let user = raw::user();
        if let Some(known) = ARENAS.iter().find(|arena| arena.user.load(Ordering::Acquire) == user)
        {
            return (!known.base.load(Ordering::Acquire).is_null()).then_some(known);
        }
        if REFUSED.iter().any(|refused| refused.load(Ordering::Relaxed) == user) {
            return None;
        }
        let base = match map(user) {
            Ok(base) => base,
            // It will not be let in later either: each wait and each call would ask again.
            Err(libc::EACCES | libc::EPERM) => {
                let next = NEXT_REFUSED.fetch_add(1, Ordering::Relaxed) as usize % USERS;
                REFUSED[next].store(user, Ordering::Relaxed);
                return None;
            }
            Err(_) => return None,
        };
        for arena in &ARENAS {
            if arena
                .base
                .compare_exchange(core::ptr::null_mut(), base, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                super::lookout::disown(arena);
                arena.user.store(user, Ordering::Release);
                return Some(arena);
            }
            if arena.user.load(Ordering::Acquire) == user {
                // Another thread was faster; a mapping that nobody uses is left.
                return Some(arena);
            }
        }
        None
    }

    /// Which of this process's arenas it is.
    pub(super) fn index(&self) -> usize {
        ARENAS.iter().position(|arena| core::ptr::eq(arena, self)).unwrap_or(0)
    }

    /// The arena of such a number.
    pub(super) fn of_index(index: usize) -> Option<&'static Self> {
        ARENAS.get(index).filter(|arena| !arena.base.load(Ordering::Acquire).is_null())
    }

    fn at(&self, offset: usize) -> *mut u8 {
        self.base.load(Ordering::Acquire).wrapping_add(offset)
    }

    /// The word at `offset`.
    ///
    /// # Panics
    /// Where it does not lie inside, aligned: offsets are our own constants and checked indexes.
    #[inline]
    pub(super) fn word(&self, offset: usize) -> &'static AtomicU64 {
        assert!(offset + 8 <= TOTAL && offset.is_multiple_of(8), "word outside the memory");
        // SAFETY: inside the mapping and aligned (just checked), which is never taken back.
        unsafe { &*self.at(offset).cast::<AtomicU64>() }
    }

    /// Where a pair's page begins.
    pub(super) fn pair_offset(pair: usize) -> usize {
        FIRST + pair.min(PAIRS - 1) * PAIR_BYTES
    }

    /// The page of a pair.
    pub(super) fn page(&self, pair: usize) -> *mut u8 {
        self.at(Self::pair_offset(pair))
    }

    /// One of the rings of a pair.
    pub(super) fn ring(&self, pair: usize, way: usize) -> *mut u8 {
        self.at(Self::pair_offset(pair) + PAGE + (way & 1) * RING_MAX)
    }

    /// Takes memory for the bytes from here on, so that touching them cannot fail.
    pub(super) fn reserve(&self, offset: usize, bytes: usize) -> Result<(), Errno> {
        reserve(self.at(offset) as usize, bytes)
    }

    /// Gives the memory of a pair back; it reads as zeros.
    pub(super) fn give_back(&self, pair: usize) {
        let advice = raw::reg(libc::MADV_REMOVE);
        let at = self.page(pair) as usize;
        // SAFETY: inside the mapping; nobody uses the pair any more.
        let _ = unsafe { raw::call(libc::SYS_madvise, [at, PAIR_BYTES, advice, 0, 0, 0]) };
    }
}

/// Takes memory for these bytes of a mapping of ours, page by page.
pub(super) fn reserve(at: usize, bytes: usize) -> Result<(), Errno> {
    let start = at & !(PAGE - 1);
    let length = (at + bytes - start).next_multiple_of(PAGE);
    // SAFETY: changes no byte of the mapping, which is ours.
    unsafe { raw::call(libc::SYS_madvise, [start, length, raw::reg(MADV_POPULATE_WRITE), 0, 0, 0]) }
        .map(drop)
}

fn namespace() -> Result<u64, Errno> {
    let fd = raw::open(c"/proc/self/ns/pid", libc::O_RDONLY, 0)?;
    let stat = raw::stat(fd);
    raw::close(fd);
    Ok(stat?.st_ino)
}

fn map(user: u32) -> Result<*mut u8, Errno> {
    let mut path = [0_u8; PATH_MAX];
    let home = HOME.get().map_or(&[][..], Vec::as_slice);
    // Locks name threads by their numbers, which are of one namespace.
    let space = namespace()?;
    let mut rest = &mut path[..PATH_MAX - 1];
    let written = if home.is_empty() {
        write!(rest, "/dev/shm/m3sock-{VERSION}-{user}-{space}")
    } else {
        rest.write_all(home).and_then(|()| write!(rest, "/sock-{VERSION}-{user}-{space}"))
    };
    written.map_err(|_| libc::ENAMETOOLONG)?;
    let path = CStr::from_bytes_until_nul(&path).map_err(|_| libc::ENAMETOOLONG)?;
    let fd =
        raw::open(path, libc::O_RDWR | libc::O_CREAT | libc::O_NOFOLLOW | libc::O_NONBLOCK, 0o600)?;
    let mapped = map_file(fd, user);
    raw::close(fd);
    mapped
}

fn map_file(fd: i32, user: u32) -> Result<*mut u8, Errno> {
    let stat = raw::stat(fd)?;
    let is_file = stat.st_mode & libc::S_IFMT == libc::S_IFREG;
    if !is_file || stat.st_uid != user || stat.st_mode & 0o077 != 0 || stat.st_nlink > 1 {
        return Err(libc::EPERM);
    }
    match usize::try_from(stat.st_size) {
        // SAFETY: no pointers.
        Ok(0) => unsafe { raw::call(libc::SYS_ftruncate, [raw::reg(fd), TOTAL, 0, 0, 0, 0])? },
        Ok(TOTAL) => 0,
        _ => return Err(libc::EPERM),
    };
    let protection = raw::reg(libc::PROT_READ | libc::PROT_WRITE);
    let flags = raw::reg(libc::MAP_SHARED | libc::MAP_NORESERVE);
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
    let base =
        unsafe { raw::call(libc::SYS_mmap, [0, TOTAL, protection, flags, raw::reg(fd), 0])? };
    if let Err(errno) = reserve(base, FIRST) {
        // SAFETY: exactly the mapping just made, which nobody knows of.
        let _ = unsafe { raw::call(libc::SYS_munmap, [base, TOTAL, 0, 0, 0, 0]) };
        return Err(errno);
    }
    Ok(base as *mut u8)
}
