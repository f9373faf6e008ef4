//! Mappings: shared ones of files, and private tables of one word for each descriptor.
//!
//! # Safety
//! Each mapping lies at an address of the kernel's choice and is never taken back once it is
//! handed out, so references to its words live for ever. Words are atomics, for which any bits are
//! valid.
#![allow(unsafe_code)]

use super::call::{Errno, call, register};
use super::signal::MASK_BYTES;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::os::fd::RawFd;

/// Bytes of the smallest page, and of the largest one of the machines that the library knows.
pub const PAGE_BYTES: usize = 4096;
/// See [`PAGE_BYTES`].
pub const PAGE_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a page of this machine.
///
/// # Source
/// getauxval(3): `AT_PAGESZ`
#[inline]
#[must_use]
pub fn page_bytes() -> usize {
    static KNOWN: AtomicUsize = AtomicUsize::new(0);
    let known = KNOWN.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // SAFETY: getauxval(3) takes an integer.
    let told = unsafe { libc::getauxval(libc::AT_PAGESZ) };
    let bytes = usize::try_from(told).unwrap_or(0).max(PAGE_BYTES);
    KNOWN.store(bytes, Ordering::Relaxed);
    bytes
}
/// Linux 5.14.
const MADV_POPULATE_READ: i32 = 22;
const MADV_POPULATE_WRITE: i32 = 23;

const WRITABLE: i32 = libc::PROT_READ | libc::PROT_WRITE;
/// A mapping without a file, which takes no memory until it is used.
const BLANK: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

fn map(bytes: usize, flags: i32, fd: RawFd) -> Result<*mut u8, Errno> {
    let words = [0, bytes, register(WRITABLE), register(flags), register(fd), 0];
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
    unsafe { call(libc::SYS_mmap, words) }.map(|at| at as *mut u8)
}

/// Maps blank memory, which takes room only where it is written.
///
/// # Errors
/// Of mmap(2).
pub fn map_blank(bytes: usize) -> Result<*mut u8, Errno> {
    map(bytes, BLANK, -1)
}

/// Maps memory that a child by fork shares with this process.
fn map_for_children(bytes: usize) -> Result<*mut u8, Errno> {
    map(bytes, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1)
}

/// The file that [`replace`] maps: its descriptor, an offset, and whether for writing.
#[derive(Clone, Copy, Debug)]
pub struct MappedPart {
    /// The descriptor.
    pub fd: RawFd,
    /// The offset in the file, in whole pages.
    pub offset: usize,
    /// Whether the memory may be written. The descriptor decides whether that can change later.
    pub is_writable: bool,
}

/// Replaces mapped pages by a part of a file, or by blank memory, in one step: the addresses stay
/// mapped at all times.
///
/// # Errors
/// Of mmap(2).
///
/// # Safety
/// The range lies in a mapping of this module, in whole pages, and holds nothing but atomics and
/// copied bytes.
pub unsafe fn replace(at: *mut u8, bytes: usize, part: Option<MappedPart>) -> Result<(), Errno> {
    let (flags, fd, offset, is_writable) = match part {
        Some(MappedPart { fd, offset, is_writable }) => {
            (libc::MAP_SHARED | libc::MAP_NORESERVE, fd, offset, is_writable)
        }
        None => (BLANK, -1, 0, true),
    };
    let protection = register(if is_writable { WRITABLE } else { libc::PROT_READ });
    let flags = register(flags | libc::MAP_FIXED);
    // SAFETY: the caller promises the range, for which any bits are valid.
    unsafe { call(libc::SYS_mmap, [at as usize, bytes, protection, flags, register(fd), offset]) }
        .map(drop)
}

/// Keeps a mapping out of children by fork.
///
/// # Errors
/// Of madvise(2).
pub fn keep_from_children(at: *mut u8, bytes: usize) -> Result<(), Errno> {
    let words = [at as usize, bytes, register(libc::MADV_DONTFORK), 0, 0, 0];
    // SAFETY: the call changes no byte of this process's memory.
    unsafe { call(libc::SYS_madvise, words) }.map(drop)
}

/// Maps the first bytes of a file, shared with other processes.
///
/// # Errors
/// Of mmap(2).
pub fn map_shared(fd: RawFd, bytes: usize) -> Result<*mut u8, Errno> {
    map(bytes, libc::MAP_SHARED | libc::MAP_NORESERVE, fd)
}

/// Takes a mapping of [`map_shared`] back.
///
/// # Safety
/// No reference into the mapping exists.
pub unsafe fn unmap(at: *mut u8, bytes: usize) {
    // SAFETY: the caller promises that nothing uses the mapping.
    let _ = unsafe { call(libc::SYS_munmap, [at as usize, bytes, 0, 0, 0, 0]) };
}

/// Takes memory from the system for some bytes of a shared mapping, page by page, so that a later
/// access cannot fail.
///
/// # Errors
/// Of madvise(2), `MADV_POPULATE_WRITE`; `EINVAL` before Linux 5.14.
pub fn populate(at: *mut u8, bytes: usize) -> Result<(), Errno> {
    populate_by(at, bytes, MADV_POPULATE_WRITE)
}

/// The same for memory that can only be read.
///
/// # Errors
/// Of madvise(2), `MADV_POPULATE_READ`; `EINVAL` before Linux 5.14.
pub fn populate_for_reading(at: *mut u8, bytes: usize) -> Result<(), Errno> {
    populate_by(at, bytes, MADV_POPULATE_READ)
}

fn populate_by(at: *mut u8, bytes: usize, advice: i32) -> Result<(), Errno> {
    let start = at as usize & !(page_bytes() - 1);
    let length = (at as usize + bytes - start).next_multiple_of(page_bytes());
    // SAFETY: the call changes no byte of any mapping.
    unsafe { call(libc::SYS_madvise, [start, length, register(advice), 0, 0, 0]).map(drop) }
}

/// Returns the memory of some bytes of a shared mapping to the system, in whole pages. They read as
/// zeros from then on.
///
/// # Errors
/// Of madvise(2), `MADV_REMOVE`.
///
/// # Safety
/// The range lies in a mapping of this module and holds nothing but bytes that are copied.
pub unsafe fn give_back(at: *mut u8, bytes: usize) -> Result<(), Errno> {
    let start = (at as usize).next_multiple_of(page_bytes());
    let end = (at as usize + bytes) & !(page_bytes() - 1);
    let length = end.saturating_sub(start);
    // SAFETY: the caller promises that any bytes are valid there.
    unsafe { call(libc::SYS_madvise, [start, length, register(libc::MADV_REMOVE), 0, 0, 0]) }
        .map(drop)
}

/// A word that this process shares with its children by fork, once it is mapped.
#[derive(Debug)]
pub struct FamilyWord {
    at: AtomicPtr<AtomicU64>,
}

impl FamilyWord {
    /// A word that is not mapped yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { at: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// The word; `None` where it is not mapped.
    #[must_use]
    pub fn get(&self) -> Option<&'static AtomicU64> {
        let at = self.at.load(Ordering::Acquire);
        // SAFETY: null, or a page that `map` mapped and that is never taken back, also not in a
        // child; atomics have any bits.
        unsafe { at.as_ref() }
    }

    /// Maps the word, unless it is mapped; whether it is.
    pub fn map(&self) -> bool {
        if self.get().is_some() {
            return true;
        }
        let Ok(new) = map_for_children(PAGE_BYTES) else { return false };
        let (null, new) = (core::ptr::null_mut(), new.cast());
        let set = self.at.compare_exchange(null, new, Ordering::AcqRel, Ordering::Relaxed);
        if set.is_err() {
            // SAFETY: exactly the page just mapped, of which no reference exists.
            unsafe { unmap(new.cast(), PAGE_BYTES) };
        }
        true
    }

    /// Moves the word into the first of these cells that is free; this cell is free then.
    pub fn move_to(&self, cells: &[Self]) {
        let at = self.at.swap(core::ptr::null_mut(), Ordering::AcqRel);
        if let Some(free) = cells.iter().find(|cell| cell.get().is_none()) {
            free.at.store(at, Ordering::Release);
        }
    }
}

impl Default for FamilyWord {
    fn default() -> Self {
        Self::new()
    }
}

/// Pages that were readable when they were last asked for; 0 is none.
static READABLE_PAGES: [AtomicUsize; 256] = [const { AtomicUsize::new(0) }; 256];

/// Whether [`is_readable`] may ask the kernel.
static PROBES: AtomicBool = AtomicBool::new(true);

/// Says whether [`is_readable`] may ask the kernel: a process that has limited its system calls may
/// not. Unknown memory counts as readable then.
pub fn set_probing(on: bool) {
    PROBES.store(on, Ordering::Relaxed);
}

/// Whether the program can read its own memory here. Where it cannot, the real call must follow,
/// which fails with `EFAULT`.
///
/// A page that could be read once counts as readable from then on, so that a repeated call asks
/// nothing. A program that unmaps the page and then passes its address gets a signal.
#[must_use]
pub fn is_readable<T>(at: *const T, count: usize) -> bool {
    let Some(bytes) = count.checked_mul(size_of::<T>()) else { return false };
    if bytes == 0 {
        return true;
    }
    let Some(end) = at.addr().checked_add(bytes) else { return false };
    let first = at.addr() / PAGE_BYTES;
    (first..end.div_ceil(PAGE_BYTES)).all(|page| {
        let known = &READABLE_PAGES[page % READABLE_PAGES.len()];
        // No program has the first page: address 0 stands for no memory at all.
        if known.load(Ordering::Relaxed) == page || page == 0 {
            return page != 0;
        }
        if !PROBES.load(Ordering::Relaxed) {
            return true;
        }
        let is_readable = probe(page * PAGE_BYTES);
        if is_readable {
            known.store(page, Ordering::Relaxed);
        }
        is_readable
    })
}

/// Lets the kernel read eight bytes: it reads a signal set before it refuses an unknown operation.
fn probe(at: usize) -> bool {
    const NO_OPERATION: i32 = -1;
    let words = [register(NO_OPERATION), at, 0, MASK_BYTES, 0, 0];
    // SAFETY: the call changes no mask, and answers `EFAULT` where it cannot read.
    let answer = unsafe { call(libc::SYS_rt_sigprocmask, words) };
    answer != Err(libc::EFAULT)
}

/// Descriptors that have an entry in an [`FdTable`]; calls on larger numbers go to the kernel.
pub const FD_LIMIT: usize = 1 << 20;

/// An atomic integer that [`FdTable`] may hold: zeros are valid.
pub trait TableWord: private::Sealed {}
impl TableWord for AtomicU32 {}
impl TableWord for AtomicU64 {}

mod private {
    pub trait Sealed {}
    impl Sealed for super::AtomicU32 {}
    impl Sealed for super::AtomicU64 {}
}

/// One atomic word for each descriptor, in memory that a fork copies and that takes no room until
/// it is used.
#[derive(Debug)]
pub struct FdTable<W: TableWord> {
    words: AtomicPtr<W>,
}

impl<W: TableWord> FdTable<W> {
    /// A table that is not mapped yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { words: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// Maps the table, in the constructor. Without it every look-up finds nothing. A table that is
    /// mapped stays as it is: tests prepare it at the same time.
    pub fn map(&self) {
        let none = core::ptr::null_mut();
        if self.words.load(Ordering::Acquire).is_null()
            && let Ok(at) = map_blank(FD_LIMIT * size_of::<W>())
        {
            // A thread that was faster leaves this mapping unused; pages without use take no room.
            let (swap, fail) = (Ordering::AcqRel, Ordering::Relaxed);
            let _ = self.words.compare_exchange(none, at.cast(), swap, fail);
        }
    }

    /// The word of a descriptor.
    #[inline]
    pub fn get(&self, fd: RawFd) -> Option<&'static W> {
        let words = self.words.load(Ordering::Acquire);
        let index = usize::try_from(fd).ok()?;
        if words.is_null() || index >= FD_LIMIT {
            return None;
        }
        // SAFETY: the mapping has FD_LIMIT words, begins at a page and is never taken back; the
        // words are atomics, for which the zeros of new pages are valid.
        Some(unsafe { &*words.add(index) })
    }
}

impl<W: TableWord> Default for FdTable<W> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_returns_in_whole_pages_of_this_machine() {
        // SAFETY: sysconf(3) takes an integer.
        let told = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page = page_bytes();
        assert_eq!(usize::try_from(told), Ok(page));
        let at = map(3 * page, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1).unwrap();
        // A range that begins and ends inside of pages has one page whole.
        assert_eq!(populate(at.wrapping_add(1), 3 * page - 2), Ok(()), "all three of them");
        // SAFETY: three mapped pages that nothing refers to.
        unsafe { at.write_bytes(7, 3 * page) };
        // SAFETY: the range is in them.
        assert_eq!(unsafe { give_back(at.wrapping_add(1), 3 * page - 2) }, Ok(()));
        // SAFETY: as above.
        let bytes = unsafe { core::slice::from_raw_parts(at, 3 * page) };
        let zeros = |range: core::ops::Range<usize>| bytes[range].iter().all(|byte| *byte == 0);
        assert!(bytes[..page].iter().all(|byte| *byte == 7) && zeros(page..2 * page));
        assert!(bytes[2 * page..].iter().all(|byte| *byte == 7));
    }

    #[test]
    fn memory_is_readable_where_each_of_its_pages_is() {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let page = page_bytes();
        let pages = map(3 * page, flags, -1).unwrap();
        let middle = pages.wrapping_add(page);
        // SAFETY: the page was just mapped, and nothing refers to it.
        let refused = unsafe { call(libc::SYS_mprotect, [middle.addr(), page, 0, 0, 0, 0]) };
        assert_eq!(refused, Ok(0));
        for _asked_before in [false, true] {
            assert!(is_readable(pages, page) && !is_readable(pages, page + 1));
            assert!(!is_readable(middle, 1) && is_readable(middle, 0));
            assert!(is_readable(middle.wrapping_add(page), page));
        }
        assert!(!is_readable(core::ptr::without_provenance::<u64>(8), 1));
        assert!(!is_readable(core::ptr::without_provenance::<u8>(usize::MAX - 3), 4096));
        assert!(!is_readable(pages.cast::<u64>(), usize::MAX));
    }

    #[test]
    fn a_table_has_a_word_for_each_descriptor_up_to_its_limit() {
        let table = FdTable::<AtomicU32>::new();
        assert!(table.get(3).is_none(), "a table that is not mapped");
        table.map();
        table.get(3).unwrap().store(7, Ordering::Relaxed);
        table.map();
        assert_eq!(table.get(3).unwrap().load(Ordering::Relaxed), 7);
        let last = i32::try_from(FD_LIMIT).unwrap() - 1;
        assert_eq!(table.get(last).unwrap().load(Ordering::Relaxed), 0);
        assert!(table.get(last + 1).is_none() && table.get(-1).is_none());
    }
}
