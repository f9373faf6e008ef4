//! Mappings of shared memory: a window for each socket, and the pollers of this process.
//!
//! ```text
//!   window of a socket   | the pair: words, two rings | poller words | poller bits |
//!                          file of the pair             files of the peer's pollers
//! ```
//!
//! A window is mapped while its socket has a pair, and blank memory before and after. The socket's
//! last close in this process takes the pair out of reach. So a process can reach the pairs of
//! its own sockets, and no others, whatever its users were before.
//!
//! The words of the peer's poller cannot be written here: their descriptor was open for reading
//! alone. Otherwise a peer could claim that no thread of an event loop sleeps.
//!
//! # Safety
//! The addresses of a window stay mapped for the life of the process, so references to words in it
//! live for ever. Words are atomics: any bits are valid, also the zeros of blank memory. Ring bytes
//! are only copied, by machine code. A process of the same user may truncate a file and thereby
//! kill the processes that map it; it may send them a signal as well.
#![allow(unsafe_code)]

use super::layout::{
    PAIR_BYTES, POLLER_BITS, POLLER_BITS_BYTES, POLLER_FILE_BYTES, POLLER_WORDS_BYTES,
    RING_BYTES_MAX, half, pair, ring_offset,
};
use crate::buffers::Piece;
use crate::kernel::Errno;
use crate::kernel::file::File;
use crate::kernel::memory::{self, MappedPart, PAGE_BYTES, page_bytes};
use core::ops::Range;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use m3ipc_sys::fork_generation;

/// Offset of the words of the peer's pollers in a window.
#[inline]
fn peer_words() -> usize {
    PAIR_BYTES.next_multiple_of(page_bytes())
}

/// Offset of the bits of one of the peer's pollers.
#[inline]
fn peer_bits() -> usize {
    peer_words() + page_bytes()
}

/// Bytes of a window.
fn window_bytes() -> usize {
    peer_bits() + page_bytes()
}

/// Words of one half.
pub type HalfWords = [AtomicU64; half::BYTES / 8];

/// The window of a socket: addresses that stay its own.
#[derive(Debug, Default)]
pub struct Window {
    base: AtomicPtr<u8>,
    /// The same address while the socket has a pair; null before and after.
    pair: AtomicPtr<u8>,
}

impl Window {
    /// A window without addresses; it gets them at its first use.
    pub const fn new() -> Self {
        let none = core::ptr::null_mut();
        Self { base: AtomicPtr::new(none), pair: AtomicPtr::new(none) }
    }

    fn base(&self) -> Result<*mut u8, Errno> {
        let known = self.base.load(Ordering::Acquire);
        if !known.is_null() {
            return Ok(known);
        }
        let new = memory::map_blank(window_bytes())?;
        self.base.store(new, Ordering::Release);
        Ok(new)
    }

    /// The pair of the socket.
    #[inline]
    pub fn pair(&self) -> Option<PairMemory> {
        let base = self.pair.load(Ordering::Acquire);
        (!base.is_null()).then_some(PairMemory { base })
    }

    /// Gives the socket the pair that [`map_pair`](Self::map_pair) mapped.
    pub fn set_pair(&self, memory: PairMemory) {
        self.pair.store(memory.base, Ordering::Release);
    }

    /// Takes the pair from the socket, whose later calls find none. The memory stays mapped.
    pub fn take_pair(&self) -> Option<PairMemory> {
        let base = self.pair.swap(core::ptr::null_mut(), Ordering::AcqRel);
        (!base.is_null()).then_some(PairMemory { base })
    }

    /// Maps a pair, for the one thread that joins the socket to it.
    ///
    /// # Errors
    /// Of mmap(2).
    pub fn map_pair(&self, file: &File) -> Result<PairMemory, Errno> {
        let base = self.base()?;
        let part = MappedPart { fd: file.fd(), offset: 0, is_writable: true };
        // SAFETY: the first bytes of this window, in whole pages.
        unsafe { memory::replace(base, PAIR_BYTES, Some(part))? };
        Ok(PairMemory { base })
    }

    /// Takes the pair and the peer's pollers out of reach.
    pub fn clear(&self) {
        let base = self.base.load(Ordering::Acquire);
        if !base.is_null() {
            // SAFETY: this whole window. Where the kernel has no memory for the change, the old
            // mapping stays, and the next pair replaces it.
            let _ = unsafe { memory::replace(base, window_bytes(), None) };
        }
    }
}

/// The mapped memory of a pair.
#[derive(Clone, Copy, Debug)]
pub struct PairMemory {
    base: *mut u8,
}

// SAFETY: all access to the memory is atomic, or a copy by machine code that allows for races.
unsafe impl Send for PairMemory {}
// SAFETY: as for `Send`.
unsafe impl Sync for PairMemory {}

impl PairMemory {
    /// The word at an offset of the first page.
    ///
    /// # Panics
    /// Where the word does not lie in the page, aligned: offsets are our own constants.
    #[inline]
    pub fn word(self, offset: usize) -> &'static AtomicU64 {
        assert!(offset + 8 <= PAGE_BYTES && offset.is_multiple_of(8), "word outside the pair");
        // SAFETY: inside the window and aligned (just checked); a window stays mapped.
        unsafe { &*self.base.wrapping_add(offset).cast::<AtomicU64>() }
    }

    /// The words of one half.
    #[inline]
    pub fn half_words(self, side: usize) -> &'static HalfWords {
        // SAFETY: both halves lie in the first page of the window, which stays mapped; a half
        // begins at a multiple of 512 bytes.
        unsafe { &*self.base.wrapping_add(pair::HALVES[side & 1]).cast::<HalfWords>() }
    }

    /// The ring of one half.
    #[inline]
    pub fn ring(self, side: usize) -> RingMemory {
        RingMemory(self.base.wrapping_add(ring_offset(side)))
    }

    /// Maps the words of the peer's pollers for reading, and a page of their bits for writing. The
    /// peer names the file and the place in it: both pages come from the system here, so that no
    /// access to them can fail.
    ///
    /// # Errors
    /// Of mmap(2) and madvise(2).
    pub fn map_peer(self, words: &File, bits: &File, poller: usize) -> Result<(), Errno> {
        let words = MappedPart { fd: words.fd(), offset: 0, is_writable: false };
        let page = page_bytes();
        let offset = bits_offset(poller) / page * page;
        let (words_at, bits_at) =
            (self.base.wrapping_add(peer_words()), self.base.wrapping_add(peer_bits()));
        let bits = MappedPart { fd: bits.fd(), offset, is_writable: true };
        // SAFETY: two pages of this window behind the pair.
        unsafe {
            memory::replace(words_at, page, Some(words))?;
            memory::replace(bits_at, page, Some(bits))?;
        }
        memory::populate_for_reading(words_at, page)?;
        memory::populate(bits_at, page)
    }

    /// A word of the peer's pollers, for loads alone, after [`map_peer`](Self::map_peer).
    ///
    /// # Panics
    /// Where the word does not lie in the page, aligned.
    #[inline]
    pub fn peer_word(self, offset: usize) -> &'static AtomicU64 {
        assert!(offset + 8 <= PAGE_BYTES && offset.is_multiple_of(8), "word outside the page");
        // SAFETY: inside the window and aligned (just checked); a window stays mapped. A load of
        // this size reads memory that cannot be written.
        unsafe { &*self.base.wrapping_add(peer_words() + offset).cast::<AtomicU64>() }
    }

    /// The word of the peer's bits that holds the bit of a slot.
    #[inline]
    pub fn peer_bits(self, poller: usize, slot: usize) -> &'static AtomicU64 {
        let offset = (bits_offset(poller) + slot / 64 * 8) % page_bytes();
        // SAFETY: inside the last page of the window, which stays mapped; a multiple of 8 bytes.
        unsafe { &*self.base.wrapping_add(peer_bits() + offset).cast::<AtomicU64>() }
    }
}

/// The offset of the bits of a poller in their file.
fn bits_offset(poller: usize) -> usize {
    POLLER_BITS + poller * POLLER_BITS_BYTES
}

/// The file of this process's own pollers, mapped whole. A child by fork has no mapping of it.
#[derive(Clone, Copy, Debug)]
pub struct OwnPollers {
    base: *mut u8,
}

impl OwnPollers {
    /// Maps the file.
    ///
    /// # Errors
    /// Of mmap(2) and madvise(2).
    pub fn map(file: &File) -> Result<Self, Errno> {
        let base = memory::map_shared(file.fd(), POLLER_FILE_BYTES)?;
        let ready = memory::populate(base, POLLER_WORDS_BYTES)
            .and_then(|()| memory::keep_from_children(base, POLLER_FILE_BYTES));
        if let Err(errno) = ready {
            // SAFETY: exactly the mapping just made, of which no reference exists.
            unsafe { memory::unmap(base, POLLER_FILE_BYTES) };
            return Err(errno);
        }
        Ok(Self { base })
    }

    /// The word at an offset.
    ///
    /// # Panics
    /// Where the word does not lie in the file, aligned.
    #[inline]
    pub fn word(self, offset: usize) -> &'static AtomicU64 {
        assert!(offset + 8 <= POLLER_FILE_BYTES && offset.is_multiple_of(8), "word outside");
        // SAFETY: inside the mapping and aligned (just checked); it is never taken back.
        unsafe { &*self.base.wrapping_add(offset).cast::<AtomicU64>() }
    }

    /// Takes memory from the system for the bits of a poller, so that no access to them can fail.
    ///
    /// # Errors
    /// Of madvise(2).
    pub fn reserve_bits(self, poller: usize) -> Result<(), Errno> {
        memory::populate(self.base.wrapping_add(bits_offset(poller)), POLLER_BITS_BYTES)
    }

    /// The words of a poller's bits.
    #[inline]
    pub fn bits(self, poller: usize, word: usize) -> &'static AtomicU64 {
        self.word(bits_offset(poller) + 8 * word)
    }
}

/// A cell for the mapped file of the process's pollers.
#[derive(Debug, Default)]
pub struct PollersCell {
    base: AtomicPtr<u8>,
    /// The fork generation of the process that mapped the file.
    generation: AtomicU32,
}

impl PollersCell {
    /// An empty cell.
    pub const fn new() -> Self {
        Self { base: AtomicPtr::new(core::ptr::null_mut()), generation: AtomicU32::new(0) }
    }

    /// The file, where this very process mapped it.
    #[inline]
    pub fn get(&self) -> Option<OwnPollers> {
        let base = self.base.load(Ordering::Acquire);
        let is_own = self.generation.load(Ordering::Relaxed) == fork_generation();
        (!base.is_null() && is_own).then_some(OwnPollers { base })
    }

    /// Fills the cell, unless another thread did. Not without a fork generation: a child could not
    /// tell its parent's mapping from its own.
    pub fn set(&self, pollers: OwnPollers) -> Option<OwnPollers> {
        let generation = fork_generation();
        if generation == 0 {
            return None;
        }
        let null = core::ptr::null_mut();
        let before = self.base.load(Ordering::Acquire);
        if !before.is_null() && self.get().is_none() {
            // The parent's address, which is not mapped here.
            let _ = self.base.compare_exchange(before, null, Ordering::AcqRel, Ordering::Relaxed);
        }
        self.generation.store(generation, Ordering::Relaxed);
        // Release: pairs with `get`.
        let _ = self.base.compare_exchange(null, pollers.base, Ordering::AcqRel, Ordering::Relaxed);
        self.get()
    }
}

/// The bytes of one ring: 64 KiB that the peer may write at any time.
#[derive(Clone, Copy, Debug)]
pub struct RingMemory(*mut u8);

impl RingMemory {
    /// Takes memory from the system for some bytes of the ring, so that a later access cannot fail.
    ///
    /// # Errors
    /// `ENOMEM`, `ENOSPC`, `EFAULT`; `EINVAL` before Linux 5.14.
    pub fn reserve(self, part: Range<usize>) -> Result<(), Errno> {
        let (start, end) = (part.start.min(RING_BYTES_MAX), part.end.min(RING_BYTES_MAX));
        memory::populate(self.0.wrapping_add(start), end.saturating_sub(start))
    }

    /// Returns memory of the ring to the system, from this byte of the ring to its end.
    ///
    /// # Errors
    /// Of madvise(2), `MADV_REMOVE`: the memory stays. `EINVAL` for locked memory.
    pub fn give_back(self, from: usize) -> Result<(), Errno> {
        let start = from.min(RING_BYTES_MAX);
        // SAFETY: a ring lies in its window and holds copied bytes alone.
        unsafe { memory::give_back(self.0.wrapping_add(start), RING_BYTES_MAX - start) }
    }

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
