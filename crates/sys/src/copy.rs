//! Copying between the memory of processes, and within one's own without a fault.
//!
//! The kernel checks every address: what is not there ends the copy with
//! `FAULT` and the number of bytes before it. Nobody's memory is read or
//! written through a reference.
//!
//! # Safety
//! One's own side is a [`Bytes`] or a [`Room`], which somebody vouched for. The
//! other side belongs to a process that lies still by agreement; that is the caller's to see to.
#![allow(unsafe_code)]

use core::marker::PhantomData;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::Errno;

/// Bytes of this process to be read. The kernel reads them, so an address that is none is an error.
#[derive(Clone, Copy, Debug)]
pub struct CopySource<'a> {
    start: *const u8,
    bytes: usize,
    sure: bool,
    _of: PhantomData<&'a [u8]>,
}

/// Room of this process to be written. The kernel writes it, so an address that is none is an error.
#[derive(Debug)]
pub struct CopyTarget<'a> {
    start: *mut u8,
    bytes: usize,
    sure: bool,
    _of: PhantomData<&'a mut [u8]>,
}

impl<'a> From<&'a [u8]> for CopySource<'a> {
    fn from(slice: &'a [u8]) -> Self {
        Self { start: slice.as_ptr(), bytes: slice.len(), sure: true, _of: PhantomData }
    }
}

impl<'a> From<&'a mut [u8]> for CopyTarget<'a> {
    fn from(slice: &'a mut [u8]) -> Self {
        Self { start: slice.as_mut_ptr(), bytes: slice.len(), sure: true, _of: PhantomData }
    }
}

impl CopySource<'_> {
    /// Bytes at an address.
    ///
    /// # Safety
    /// That they may be read by the process as long as they are used, and are not written meanwhile, is
    /// the caller's to vouch for; an address where nothing is mapped is allowed.
    #[must_use]
    pub unsafe fn from_raw(start: *const u8, bytes: usize) -> Self {
        Self { start, bytes, sure: false, _of: PhantomData }
    }

    /// How many.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where; to be followed only where [`is_sure`](Self::is_sure).
    #[must_use]
    pub fn start(&self) -> *const u8 {
        self.start
    }

    /// Whether all of it is surely there to be read, also without the kernel's help.
    #[must_use]
    pub fn is_sure(&self) -> bool {
        self.sure
    }

    /// The same, vouched for.
    ///
    /// # Safety
    /// All of it is mapped to be read as long as it is used.
    #[must_use]
    pub unsafe fn assured(self) -> Self {
        Self { sure: true, ..self }
    }

    /// Where.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.start.addr() as u64
    }

    /// Those from `offset` on, at most so many.
    #[must_use]
    pub fn part(&self, offset: usize, bytes: usize) -> Self {
        let offset = offset.min(self.bytes);
        Self {
            start: self.start.wrapping_add(offset),
            bytes: bytes.min(self.bytes - offset),
            sure: self.sure,
            _of: PhantomData,
        }
    }

    fn local(&self) -> libc::iovec {
        libc::iovec { iov_base: self.start.cast_mut().cast(), iov_len: self.bytes }
    }
}

impl CopyTarget<'_> {
    /// Room at an address.
    ///
    /// # Safety
    /// That it may be written by the process as long as it is used, and nobody else uses it, is
    /// the caller's to vouch for; an address where nothing is mapped is allowed.
    #[must_use]
    pub unsafe fn from_raw(start: *mut u8, bytes: usize) -> Self {
        Self { start, bytes, sure: false, _of: PhantomData }
    }

    /// How many bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where; to be followed only where [`is_sure`](Self::is_sure).
    #[must_use]
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// Whether all of it is surely there to be written, also without the kernel's help.
    #[must_use]
    pub fn is_sure(&self) -> bool {
        self.sure
    }

    /// The same, vouched for.
    ///
    /// # Safety
    /// All of it is mapped to be written as long as it is used.
    #[must_use]
    pub unsafe fn assured(self) -> Self {
        Self { sure: true, ..self }
    }

    /// Where.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.start.addr() as u64
    }

    /// That from `offset` on, at most so many bytes.
    #[must_use]
    pub fn part(&mut self, offset: usize, bytes: usize) -> CopyTarget<'_> {
        let offset = offset.min(self.bytes);
        CopyTarget {
            start: self.start.wrapping_add(offset),
            bytes: bytes.min(self.bytes - offset),
            sure: self.sure,
            _of: PhantomData,
        }
    }

    fn local(&self) -> libc::iovec {
        libc::iovec { iov_base: self.start.cast(), iov_len: self.bytes }
    }
}

/// Bytes of this process at an address that came from elsewhere and was allowed (a lease, a grant, a VM whose
/// copies are open): whoever allowed it vouched for them. Where nothing is, the copy says so.
#[must_use]
pub fn lent_source<'a>(address: u64, bytes: usize) -> CopySource<'a> {
    let start = usize::try_from(address).unwrap_or(0);
    CopySource {
        start: core::ptr::with_exposed_provenance(start),
        bytes,
        sure: false,
        _of: PhantomData,
    }
}

/// Room of this process at an address that came from elsewhere and was allowed.
#[must_use]
pub fn lent_target<'a>(address: u64, bytes: usize) -> CopyTarget<'a> {
    let start = usize::try_from(address).unwrap_or(0);
    CopyTarget {
        start: core::ptr::with_exposed_provenance_mut(start),
        bytes,
        sure: false,
        _of: PhantomData,
    }
}

fn remote(address: u64, bytes: usize) -> Result<libc::iovec, Errno> {
    let address = usize::try_from(address).map_err(|_beyond| Errno::FAULT)?;
    Ok(libc::iovec { iov_base: core::ptr::with_exposed_provenance_mut(address), iov_len: bytes })
}

fn copied(result: isize) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_negative| last_error())
}

fn last_error() -> Errno {
    Errno::from_raw_os_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL))
}

/// Copies into another process, as far as its memory is there: the bytes that were copied.
///
/// # Errors
/// `FAULT` where not one byte could be copied, `SRCH`, `PERM`; what a filter of the process says.
///
/// # Source
/// process_vm_writev(2)
#[inline]
pub fn copy_to_process(pid: i32, address: u64, from: &CopySource<'_>) -> Result<usize, Errno> {
    let (local, remote) = (from.local(), remote(address, from.bytes)?);
    // SAFETY: the kernel checks both ranges; ours was vouched for, the other is the other process's.
    copied(unsafe { libc::process_vm_writev(pid, &raw const local, 1, &raw const remote, 1, 0) })
}

/// Copies out of another process, as far as its memory is there: the bytes that were copied.
///
/// # Errors
/// As [`copy_to_process`].
///
/// # Source
/// process_vm_readv(2)
#[inline]
pub fn copy_from_process(pid: i32, address: u64, into: &CopyTarget<'_>) -> Result<usize, Errno> {
    let (local, remote) = (into.local(), remote(address, into.bytes)?);
    // SAFETY: the kernel checks both ranges; ours was vouched for, the other is only read.
    copied(unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) })
}

/// Whether a process has memory still: one that ends has none from some point on, and copies no more.
/// `true` where the kernel does not say.
///
/// # Source
/// process_vm_readv(2): ESRCH
#[must_use]
pub fn has_memory(pid: i32) -> bool {
    let mut byte = [0];
    // Nothing is ever mapped there.
    copy_from_process(pid, 8, &CopyTarget::from(&mut byte[..])) != Err(Errno::SRCH)
}

/// Copies within this process, from bytes to room that may not be there. The kernel does it,
/// by a pipe where a filter forbids the process to copy its own memory.
#[derive(Debug, Default)]
pub struct OwnCopy {
    pipe: Option<(OwnedFd, OwnedFd)>,
}

impl OwnCopy {
    /// Copies out of one's own memory into shared memory: as many bytes as both hold; how many there
    /// were before an address that is none.
    ///
    /// # Errors
    /// `FAULT` where not one byte could be copied; `MFILE`, `NFILE` where a pipe is needed and none is to be had.
    pub fn copy_out(
        &mut self,
        from: &CopySource<'_>,
        into: &CopyTarget<'_>,
    ) -> Result<usize, Errno> {
        let bytes = from.bytes.min(into.bytes);
        if self.pipe.is_none() {
            let local = libc::iovec { iov_len: bytes, ..into.local() };
            let there = libc::iovec { iov_len: bytes, ..from.local() };
            let pid = crate::process_id();
            // SAFETY: the kernel checks both ranges; both were vouched for.
            let result =
                unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const there, 1, 0) };
            if let Some(ended) = self.unless_filtered(result)? {
                return ended;
            }
        }
        self.copy_by_pipe(from, into, bytes)
    }

    /// Copies out of shared memory into one's own. The kernel walks the pages of the other side of
    /// a call, which takes four times as long where they are shared: so that is always one's own.
    ///
    /// # Errors
    /// As [`copy_out`](Self::copy_out).
    pub fn copy_in(
        &mut self,
        from: &CopySource<'_>,
        into: &CopyTarget<'_>,
    ) -> Result<usize, Errno> {
        let bytes = from.bytes.min(into.bytes);
        if self.pipe.is_none() {
            let local = libc::iovec { iov_len: bytes, ..from.local() };
            let there = libc::iovec { iov_len: bytes, ..into.local() };
            let pid = crate::process_id();
            // SAFETY: the kernel checks both ranges; both were vouched for.
            let result = unsafe {
                libc::process_vm_writev(pid, &raw const local, 1, &raw const there, 1, 0)
            };
            if let Some(ended) = self.unless_filtered(result)? {
                return ended;
            }
        }
        self.copy_by_pipe(from, into, bytes)
    }

    /// How a call of the kernel has ended; where a filter refused it, from now on there is a pipe.
    fn unless_filtered(&mut self, result: isize) -> Result<Option<Result<usize, Errno>>, Errno> {
        match copied(result) {
            result @ (Ok(_) | Err(Errno::FAULT)) => Ok(Some(result)),
            Err(_filtered) => {
                self.pipe = Some(new_pipe()?);
                Ok(None)
            }
        }
    }

    fn copy_by_pipe(
        &mut self,
        from: &CopySource<'_>,
        into: &CopyTarget<'_>,
        bytes: usize,
    ) -> Result<usize, Errno> {
        let Some((reader, writer)) = &self.pipe else { return Err(Errno::BADF) };
        let mut done = 0;
        while done < bytes {
            let start = from.start.wrapping_add(done);
            // SAFETY: the kernel checks the range, which was vouched for.
            let written = copied(unsafe {
                libc::write(writer.as_fd().as_raw_fd(), start.cast(), bytes - done)
            });
            let written = match written {
                Ok(written) => written,
                Err(Errno::INTR) => continue,
                Err(errno) => return if done > 0 { Ok(done) } else { Err(errno) },
            };
            let mut taken = 0;
            while taken < written {
                let start = into.start.wrapping_add(done + taken);
                // SAFETY: the kernel checks the range, which was vouched for.
                let read = copied(unsafe {
                    libc::read(reader.as_fd().as_raw_fd(), start.cast(), written - taken)
                });
                match read {
                    Ok(read) => taken += read,
                    Err(Errno::INTR) => {}
                    Err(errno) => {
                        // What is left in the pipe belongs to no later copy.
                        self.pipe = new_pipe().ok();
                        return if done + taken > 0 { Ok(done + taken) } else { Err(errno) };
                    }
                }
            }
            done += written;
        }
        Ok(done)
    }
}

fn new_pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nowhere<'a>() -> CopyTarget<'a> {
        // SAFETY: nothing is mapped there, and the kernel says so.
        unsafe { CopyTarget::from_raw(core::ptr::without_provenance_mut(8), 100) }
    }

    #[test]
    fn own_memory_is_copied_either_way() {
        let sent: Vec<u8> = (0..200_000_u32).map(|at| (at % 251).to_le_bytes()[0]).collect();
        for pipe in [None, Some(new_pipe().unwrap())] {
            let mut own = OwnCopy { pipe };
            for bytes in [5, 4095, 65_536, 65_537, 200_000] {
                let mut got = vec![0; bytes];
                let copied = own
                    .copy_out(&CopySource::from(&sent[..bytes]), &CopyTarget::from(&mut got[..]));
                assert_eq!(copied, Ok(bytes));
                assert_eq!(got, sent[..bytes]);
                let copied = own
                    .copy_in(&CopySource::from(&sent[5..bytes]), &CopyTarget::from(&mut got[..]));
                assert_eq!(copied, Ok(bytes.saturating_sub(5)));
                assert_eq!(got[..bytes - 5], sent[5..bytes]);
            }
            assert_eq!(
                own.copy_out(&CopySource::from(&sent[..100]), &nowhere()),
                Err(Errno::FAULT)
            );
            assert_eq!(own.copy_in(&CopySource::from(&sent[..100]), &nowhere()), Err(Errno::FAULT));
            let mut got = [0; 10];
            assert_eq!(
                own.copy_out(&CopySource::from(&sent[..10]), &CopyTarget::from(&mut got[..])),
                Ok(10)
            );
            assert_eq!(got, sent[..10]);
        }
    }

    #[test]
    fn who_lives_has_memory() {
        assert!(has_memory(crate::process_id()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id().cast_signed();
        // Not waited for, it is a process without memory in the end.
        while has_memory(pid) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        child.wait().unwrap();
        assert!(!has_memory(i32::MAX));
    }

    #[test]
    fn what_is_not_there_is_told() {
        let sent = [7; 64];
        let pid = crate::process_id();
        assert_eq!(copy_to_process(pid, 8, &CopySource::from(&sent[..])), Err(Errno::FAULT));
        assert_eq!(copy_from_process(pid, 8, &nowhere()), Err(Errno::FAULT));
        let mut got = [0; 64];
        let address = sent.as_ptr().expose_provenance() as u64;
        assert_eq!(copy_from_process(pid, address, &CopyTarget::from(&mut got[..])), Ok(64));
        assert_eq!(got, sent);
    }
}
