//! Memory of the program: the runs of bytes that one data call names, and a position in them.
//!
//! A program passes addresses and lengths. Two runs may overlap, a run may be uninitialised, and
//! another thread of the program may write it meanwhile. So a run never becomes a slice of Rust:
//! bytes move between a run and a ring by machine code, or by the kernel.
//!
//! # Safety
//! The maker of [`Buffers`] vouches that each run may be read (for a send) or written (for a
//! receive) as long as the value lives. All code behind that is safe: it can only shorten runs.
#![allow(unsafe_code)]

use core::marker::PhantomData;
use libc::iovec;

/// Runs that one call may have, as in the kernel (`UIO_MAXIOV`).
pub const RUNS_MAX: usize = 1024;

/// Runs that [`IovCursor::remaining`] gives where a position lies within a run.
pub const RUNS_AT_ONCE: usize = 16;

/// The runs of bytes that one call reads or writes.
#[derive(Clone, Copy, Debug)]
pub struct Buffers<'a> {
    runs: &'a [iovec],
    total: usize,
    _lent: PhantomData<&'a mut [u8]>,
}

impl<'a> Buffers<'a> {
    /// The runs of a call, where the kernel would take their number and sizes.
    ///
    /// # Safety
    /// `runs` is null or points to `count` runs. Each run is null, or valid for the direction of
    /// the call for `'a`, as readv(2) and writev(2) demand. The value goes to calls of that
    /// direction alone.
    #[must_use]
    pub unsafe fn from_raw(runs: *const iovec, count: usize) -> Option<Self> {
        if runs.is_null() || count == 0 || count > RUNS_MAX {
            return None;
        }
        // SAFETY: not null, and the caller promises `count` runs; the bound keeps the size small.
        let runs = unsafe { core::slice::from_raw_parts(runs, count) };
        let total = runs.iter().try_fold(0_usize, |sum, run| sum.checked_add(run.iov_len))?;
        (total <= isize::MAX.unsigned_abs()).then_some(Self { runs, total, _lent: PhantomData })
    }

    /// The runs before the first null one; `None` where they hold no byte.
    #[must_use]
    pub fn addressed(self) -> Option<Self> {
        let is_null = |run: &iovec| run.iov_len > 0 && run.iov_base.is_null();
        let Some(first_null) = self.runs.iter().position(is_null) else {
            return (self.total > 0).then_some(self);
        };
        let runs = self.runs.get(..first_null).unwrap_or(&[]);
        let total = runs.iter().map(|run| run.iov_len).sum();
        (total > 0).then_some(Self { runs, total, ..self })
    }

    /// The runs, where they hold a byte and none of them is null.
    #[must_use]
    pub fn all_addressed(self) -> Option<Self> {
        self.addressed().filter(|addressed| addressed.total == self.total)
    }

    /// A run over memory of this library.
    #[must_use]
    pub fn run(bytes: &mut [u8]) -> LentRun<'_> {
        LentRun {
            run: iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() },
            _lent: PhantomData,
        }
    }

    /// Buffers over one run of this library.
    #[must_use]
    pub fn from_mut(run: &'a mut [LentRun<'_>; 1]) -> Self {
        let runs = core::slice::from_ref(&run[0].run);
        Self { runs, total: run[0].run.iov_len, _lent: PhantomData }
    }

    /// Bytes of all runs.
    #[must_use]
    pub fn total(&self) -> usize {
        self.total
    }

    /// The runs, for the kernel.
    #[must_use]
    pub fn runs(&self) -> &'a [iovec] {
        self.runs
    }
}

/// A run over memory of this library.
#[derive(Debug)]
pub struct LentRun<'a> {
    run: iovec,
    _lent: PhantomData<&'a mut [u8]>,
}

/// A piece of a run, for a copy.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    start: *mut u8,
    bytes: usize,
    _lent: PhantomData<&'a mut [u8]>,
}

impl Piece<'_> {
    /// Bytes of the piece.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The first byte; valid for [`bytes`](Self::bytes), in the direction of the call.
    #[must_use]
    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }
}

/// A position in the runs of a call.
#[derive(Clone, Debug)]
pub struct IovCursor<'a> {
    runs: &'a [iovec],
    /// Bytes of the first run that are done.
    within: usize,
    left: usize,
}

impl<'a> IovCursor<'a> {
    /// The first byte of the runs.
    #[must_use]
    pub fn new(buffers: &Buffers<'a>) -> Self {
        Self { runs: buffers.runs, within: 0, left: buffers.total }
    }

    /// Ends the runs after so many bytes at most.
    #[must_use]
    pub fn limited(self, most: usize) -> Self {
        Self { left: self.left.min(most), ..self }
    }

    /// Bytes from here to the end.
    #[must_use]
    pub fn left(&self) -> usize {
        self.left
    }

    /// The next piece of at most `most` bytes; the position moves behind it.
    pub fn next(&mut self, most: usize) -> Option<Piece<'a>> {
        loop {
            let first = self.runs.first()?;
            let rest = first.iov_len.saturating_sub(self.within);
            if rest == 0 {
                self.runs = &self.runs[1..];
                self.within = 0;
                continue;
            }
            let bytes = rest.min(most);
            let start = first.iov_base.cast::<u8>().wrapping_add(self.within);
            self.within += bytes;
            self.left = self.left.saturating_sub(bytes);
            return Some(Piece { start, bytes, _lent: PhantomData });
        }
    }

    /// Moves over some bytes.
    pub fn skip(&mut self, mut bytes: usize) {
        while bytes > 0 {
            match self.next(bytes) {
                Some(piece) => bytes -= piece.bytes,
                None => return,
            }
        }
    }

    /// The remaining runs, for the kernel: all of them, or the first sixteen.
    #[must_use]
    pub fn remaining<'b>(&'b self, copies: &'b mut [iovec; RUNS_AT_ONCE]) -> Buffers<'b> {
        if self.within == 0 {
            return Buffers { runs: self.runs, total: self.left, _lent: PhantomData };
        }
        let mut count = 0;
        for (to, from) in copies.iter_mut().zip(self.runs) {
            *to = *from;
            count += 1;
        }
        let first = &mut copies[0];
        first.iov_base = first.iov_base.cast::<u8>().wrapping_add(self.within).cast();
        first.iov_len = first.iov_len.saturating_sub(self.within);
        let runs = copies.get(..count).unwrap_or(&[]);
        let total = runs.iter().map(|run| run.iov_len).sum();
        Buffers { runs, total, _lent: PhantomData }
    }

    /// Some bytes of this library, and the first of the remaining runs behind them.
    #[must_use]
    pub fn remaining_behind<'b>(
        &'b self,
        before: &'b mut [u8],
        copies: &'b mut [iovec; RUNS_AT_ONCE],
    ) -> Buffers<'b> {
        let mut rest = no_runs();
        let rest = self.remaining(&mut rest);
        let first = iovec { iov_base: before.as_mut_ptr().cast(), iov_len: before.len() };
        let mut count = 0;
        for (to, from) in copies.iter_mut().zip([&first].into_iter().chain(rest.runs)) {
            *to = *from;
            count += 1;
        }
        let runs = copies.get(..count).unwrap_or(&[]);
        let total = runs.iter().map(|run| run.iov_len).sum();
        Buffers { runs, total, _lent: PhantomData }
    }
}

/// Empty runs, for [`IovCursor::remaining`].
#[must_use]
pub const fn no_runs() -> [iovec; RUNS_AT_ONCE] {
    [iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; RUNS_AT_ONCE]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(lists: &mut [Vec<u8>]) -> Vec<iovec> {
        lists
            .iter_mut()
            .map(|list| iovec { iov_base: list.as_mut_ptr().cast(), iov_len: list.len() })
            .collect()
    }

    fn buffers(runs: &[iovec]) -> Option<Buffers<'_>> {
        // SAFETY: each run is a vector that outlives the buffers, or no memory is touched.
        unsafe { Buffers::from_raw(runs.as_ptr(), runs.len()) }
    }

    #[test]
    fn a_cursor_steps_through_its_runs() {
        let mut lists = [vec![1; 3], vec![], vec![2; 5]];
        let runs = runs(&mut lists);
        let mut cursor = IovCursor::new(&buffers(&runs).unwrap());
        assert_eq!(cursor.left(), 8);
        assert_eq!(cursor.next(2).map(|piece| piece.bytes()), Some(2));
        assert_eq!(cursor.next(9).map(|piece| piece.bytes()), Some(1));
        cursor.skip(1);
        let mut copies = no_runs();
        assert_eq!((cursor.left(), cursor.remaining(&mut copies).total()), (4, 4));
        cursor.skip(100);
        assert!(cursor.left() == 0 && cursor.next(1).is_none());
        assert_eq!(IovCursor::new(&buffers(&runs).unwrap()).limited(5).left(), 5);
    }

    #[test]
    fn runs_that_the_kernel_refuses_are_no_buffers() {
        let mut byte = 0_u8;
        let at = (&raw mut byte).cast();
        let run = |iov_base, iov_len| iovec { iov_base, iov_len };
        assert!(buffers(&[]).is_none());
        assert!(buffers(&[run(at, usize::MAX), run(at, 1)]).is_none(), "an overflow");
        assert!(buffers(&vec![run(at, 1); RUNS_MAX + 1]).is_none(), "too many runs");
        assert_eq!(buffers(&[run(at, 1)]).unwrap().total(), 1);
    }

    #[test]
    fn runs_have_addresses_before_the_first_null_one() {
        let mut byte = 0_u8;
        let at = (&raw mut byte).cast();
        let run = |iov_base, iov_len| iovec { iov_base, iov_len };
        let (some, null) = (|bytes| run(at, bytes), core::ptr::null_mut());
        let runs = [some(1), run(null, 0), some(0), run(null, 5), some(1)];
        let all = buffers(&runs).unwrap();
        assert_eq!((all.total(), all.addressed().unwrap().total()), (7, 1));
        assert!(all.all_addressed().is_none());
        assert_eq!(buffers(&runs[..3]).unwrap().all_addressed().unwrap().total(), 1);
        assert!(buffers(&[run(null, 1)]).unwrap().addressed().is_none(), "a null run alone");
        assert!(buffers(&[some(0)]).unwrap().addressed().is_none(), "no byte");
    }
}
