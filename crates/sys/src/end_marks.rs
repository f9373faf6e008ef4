//! End marks: words of shared pages that the kernel marks when this process ends.
//!
//! A sleeper on such a word learns of the end of this process at once, also after a kill. The
//! kernel walks the robust list of each ending thread. It sets `FUTEX_OWNER_DIED` in the words that
//! the list names and that hold the id of the thread, and wakes a sleeper of each.
//!
//! The C library keeps the list of its robust mutexes in the mutexes. A process that shares the
//! page could change it. Here the list is private: its nodes lie in memory of this process, at the
//! same distance from each other as the words.
//!
//! ```text
//! nodes of all rows    | node of row 0, of row 1, ... | node of row 0, of row 1, ... |   private
//!                            │ distance of row 0            │ (futex_offset)
//! pages of row 0       | page of slot 0: word         | page of slot 1: word         |   shared
//! ```
//!
//! A row is a thread that never ends before its process, with a list of its own. A slot without a
//! page shows a zero page, whose word names no thread.
//!
//! # Safety
//! The kernel reads list and pages at the end of a thread, so both stay mapped as long as the
//! process. The size of a page is sealed, so no other process can take it away. Other code of this
//! process never gets a pointer into them.
//!
//! # Source
//! set_robust_list(2); Documentation/locking/robust-futex-ABI.rst of Linux
#![allow(unsafe_code)]

use crate::{LIVENESS_OWNER_MASK, LIVENESS_WAITERS};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};
use std::sync::mpsc;

/// The size of the memory with a mark, in bytes: one page, or less where pages are larger.
const MEMORY_BYTES: usize = 4096;
/// The pages of a row. The kernel walks at most 2,048 entries of a list.
const SLOTS: usize = 256;
/// The number of rows. Further pages get no mark.
const ROWS_MAX: usize = 8;
/// The distance between the nodes of two rows, in bytes. The kernel takes bit 0 of an address for
/// a flag.
const NODE_BYTES: usize = 16;
const STACK_BYTES: usize = 32 * 1024;

const _: () = assert!(ROWS_MAX * NODE_BYTES <= MEMORY_BYTES && SLOTS <= 2048);

/// `struct robust_list_head` of the kernel.
#[derive(Debug)]
#[repr(C)]
struct ListHead {
    /// Address of the first node, or of this head.
    next: AtomicUsize,
    /// From a node to its word, in bytes.
    offset: usize,
    pending: usize,
}

/// A range of memory that stays mapped as long as the process.
#[derive(Clone, Copy, Debug)]
struct Range(NonNull<u8>);

// SAFETY: the range belongs to the process, not to a thread, and is reached by atomics only.
unsafe impl Send for Range {}

/// How many marks were made.
static MADE: AtomicU64 = AtomicU64::new(0);

/// The marks of this process.
#[derive(Debug)]
pub struct EndMarks {
    word_offset: usize,
    /// The distance between two slots: a page of the system, in bytes.
    page_bytes: usize,
    nodes: Option<Range>,
    rows: Vec<Row>,
    free: Vec<EndMark>,
    /// A number that no others of the process have.
    number: u64,
    /// Whether a row could not start: no other one is tried, since each try reserves addresses.
    is_refused: bool,
}

/// A thread, its list, and the pages whose words the list names.
#[derive(Debug)]
struct Row {
    pages: Range,
    page_bytes: usize,
    head: &'static ListHead,
    thread: u32,
    /// Slots that are in the list; none leaves it.
    linked: usize,
}

/// One page with a mark.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the page stays mapped until `remove`"]
pub struct EndMark {
    /// The number of its marks.
    marks: u64,
    row: usize,
    slot: usize,
}

impl EndMarks {
    /// No marks. Each page will have its word at this offset.
    ///
    /// # Errors
    /// `INVAL` if the word does not lie in a page, aligned.
    pub fn new(word_offset: usize) -> Result<Self, Errno> {
        let page_bytes = usize::try_from(crate::page_bytes()).map_err(|_| Errno::INVAL)?;
        Self::with_pages(word_offset, page_bytes)
    }

    /// The same on a system with pages of this size.
    fn with_pages(word_offset: usize, page_bytes: usize) -> Result<Self, Errno> {
        let inside = word_offset < MEMORY_BYTES && word_offset.is_multiple_of(size_of::<u32>());
        if !inside {
            return Err(Errno::INVAL);
        }
        let (rows, free) = (Vec::new(), Vec::new());
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        Ok(Self { word_offset, page_bytes, nodes: None, rows, free, number, is_refused: false })
    }

    /// Starts the thread of the first row, so that no later call waits for that.
    ///
    /// # Errors
    /// `NOMEM`; `AGAIN` if no thread can be started. A later [`add`](Self::add) tries again.
    pub fn prepare(&mut self) -> Result<(), Errno> {
        if self.rows.is_empty() { self.start_row() } else { Ok(()) }
    }

    /// Maps this page, and sets its word to the one that the kernel marks.
    ///
    /// # Errors
    /// `PERM` if the size of the memory is not sealed; `INVAL` if it is not 4,096 bytes; `NOSPC` if
    /// the rows are full; `NOMEM`; `AGAIN` if no thread can be started.
    pub fn add(&mut self, memory: impl AsFd) -> Result<EndMark, Errno> {
        if crate::memory_bytes(&memory)? != MEMORY_BYTES as u64 {
            return Err(Errno::INVAL);
        }
        let mark = self.take_slot()?;
        let word_offset = self.word_offset;
        let row = &self.rows[mark.row];
        if let Err(errno) = row.map(mark.slot, memory) {
            self.free.push(mark);
            return Err(errno);
        }
        row.word(mark.slot, word_offset).store(row.thread | LIVENESS_WAITERS, Ordering::Release);
        Ok(mark)
    }

    /// Clears the word of this page, wakes its sleeper, and unmaps the page. A mark that others
    /// made changes nothing.
    pub fn remove(&mut self, mark: EndMark) {
        let own = mark.marks == self.number;
        let Some(row) = self.rows.get(mark.row).filter(|_| own) else { return };
        let word = row.word(mark.slot, self.word_offset);
        word.store(0, Ordering::Release);
        // A sleeper must not count on this word any longer.
        crate::wake(word);
        // A page that cannot be unmapped has a word of 0: its slot is given up.
        if row.unmap(mark.slot).is_ok() {
            self.free.push(mark);
        }
    }

    fn take_slot(&mut self) -> Result<EndMark, Errno> {
        if let Some(mark) = self.free.pop() {
            return Ok(mark);
        }
        if self.rows.last().is_none_or(|row| row.linked == SLOTS) {
            self.start_row()?;
        }
        let (row, nodes) = (self.rows.len() - 1, self.nodes.ok_or(Errno::NOMEM)?);
        let slot = self.rows[row].link_next(nodes, row);
        Ok(EndMark { marks: self.number, row, slot })
    }

    fn start_row(&mut self) -> Result<(), Errno> {
        let number = self.rows.len();
        if number == ROWS_MAX || self.is_refused {
            return Err(Errno::NOSPC);
        }
        let nodes = match self.nodes {
            Some(nodes) => nodes,
            None => {
                *self.nodes.insert(reserve(self.page_bytes, ProtFlags::READ | ProtFlags::WRITE)?)
            }
        };
        let row = Row::start(nodes, number, self.word_offset, self.page_bytes);
        self.is_refused = row.is_err();
        self.rows.push(row?);
        Ok(())
    }
}

impl Row {
    fn start(
        nodes: Range,
        number: usize,
        word_offset: usize,
        page_bytes: usize,
    ) -> Result<Self, Errno> {
        let pages = reserve(page_bytes, ProtFlags::READ)?;
        let first = pages.0.addr().get().wrapping_add(word_offset);
        let offset = first.wrapping_sub(node_address(nodes, number, 0));
        let head = ListHead { next: AtomicUsize::new(0), offset, pending: 0 };
        let head: &'static ListHead = Box::leak(Box::new(head));
        head.next.store(core::ptr::from_ref(head).expose_provenance(), Ordering::Release);
        let (registered, is_registered) = mpsc::sync_channel(1);
        let run = move || {
            let thread = register(head).map(|()| crate::thread_id().cast_unsigned());
            if thread.is_err() || registered.send(thread).is_err() {
                return;
            }
            // The end of this thread means the end of the process to all sleepers.
            loop {
                std::thread::park();
            }
        };
        let builder = std::thread::Builder::new().name("end-marks".into()).stack_size(STACK_BYTES);
        builder.spawn(run).map_err(|_| Errno::AGAIN)?;
        let thread = is_registered.recv().unwrap_or(Err(Errno::NOSYS))?;
        Ok(Self { pages, page_bytes, head, thread: thread & LIVENESS_OWNER_MASK, linked: 0 })
    }

    /// Links the next slot. The walk of the kernel may run at any time and finds a whole list.
    fn link_next(&mut self, nodes: Range, number: usize) -> usize {
        let slot = self.linked;
        let address = node_address(nodes, number, slot * self.page_bytes);
        let node = core::ptr::with_exposed_provenance_mut::<usize>(address);
        // SAFETY: the node lies inside `nodes`, which is writable, aligned and never unmapped.
        let node = unsafe { AtomicUsize::from_ptr(node) };
        node.store(self.head.next.load(Ordering::Relaxed), Ordering::Relaxed);
        self.head.next.store(address, Ordering::Release);
        self.linked += 1;
        slot
    }

    fn page(&self, slot: usize) -> *mut u8 {
        self.pages.0.as_ptr().wrapping_add(slot % SLOTS * self.page_bytes)
    }

    fn word(&self, slot: usize, word_offset: usize) -> &AtomicU32 {
        // SAFETY: the slot has a writable page (both callers), the word is aligned and lies in the
        // page (checked in `EndMarks::new`), and any bits are valid.
        unsafe { AtomicU32::from_ptr(self.page(slot).wrapping_add(word_offset).cast()) }
    }

    /// Maps a page that is present: the walk of an ending thread needs no memory for it.
    fn map(&self, slot: usize, memory: impl AsFd) -> Result<(), Errno> {
        let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::POPULATE;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the page of this slot is our own reservation, to which no reference exists.
        unsafe { mmap(self.page(slot).cast(), MEMORY_BYTES, protection, flags, memory, 0) }
            .map(drop)
    }

    fn unmap(&self, slot: usize) -> Result<(), Errno> {
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: as for `map`.
        unsafe { mmap_anonymous(self.page(slot).cast(), MEMORY_BYTES, ProtFlags::READ, flags) }
            .map(drop)
    }
}

fn node_address(nodes: Range, row: usize, slot_offset: usize) -> usize {
    nodes.0.as_ptr().expose_provenance() + slot_offset + row * NODE_BYTES
}

/// Reserves the range of a row's pages, or of the nodes.
fn reserve(page_bytes: usize, protection: ProtFlags) -> Result<Range, Errno> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
    let start =
        unsafe { mmap_anonymous(core::ptr::null_mut(), SLOTS * page_bytes, protection, flags)? };
    NonNull::new(start.cast()).map(Range).ok_or(Errno::NOMEM)
}

/// Makes this the robust list of the calling thread, in place of that of the C library.
fn register(head: &'static ListHead) -> Result<(), Errno> {
    let head = core::ptr::from_ref(head);
    // SAFETY: the head and all nodes stay as long as the process. This thread locks no robust
    // mutex, so the C library needs no list for it.
    let set = unsafe { libc::syscall(libc::SYS_set_robust_list, head, size_of::<ListHead>()) };
    if set == 0 { Ok(()) } else { Err(crate::errno::last_error()) }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests;
