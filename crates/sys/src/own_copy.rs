//! Copies within this process whose ranges may be unmapped.
//!
//! # Safety
//! The kernel checks both ranges of each call, and a party vouched for them.
#![allow(unsafe_code)]

use crate::copy_range::{CopySource, CopyTarget};
use crate::process_copy::copied;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::Errno;

/// A copier within this process. The kernel makes the copies. It copies through a pipe if a seccomp
/// filter forbids process_vm_readv(2) on the own memory.
#[derive(Debug, Default)]
pub struct OwnCopy {
    pipe: Option<(OwnedFd, OwnedFd)>,
}

impl OwnCopy {
    /// Copies out of private memory into shared memory, up to the shorter length and to the first
    /// unmapped byte. Returns the copied bytes.
    ///
    /// # Errors
    /// `FAULT` if no byte could be copied; `MFILE`, `NFILE` if the copy needs a pipe and there is
    /// none.
    pub fn copy_out(
        &mut self,
        from: &CopySource<'_>,
        into: &CopyTarget<'_>,
    ) -> Result<usize, Errno> {
        let bytes = from.bytes().min(into.bytes());
        if self.pipe.is_none() {
            let local = libc::iovec { iov_len: bytes, ..into.local() };
            let remote = libc::iovec { iov_len: bytes, ..from.local() };
            let pid = crate::process_id();
            // SAFETY: the kernel checks both ranges, and a party vouched for both.
            let result = unsafe {
                libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0)
            };
            if let Some(ended) = self.unless_filtered(result)? {
                return ended;
            }
        }
        self.copy_by_pipe(from, into, bytes)
    }

    /// Copies out of shared memory into private memory. The kernel walks the pages of the remote
    /// side of a call, which takes four times as long for shared pages. So the remote side is
    /// always the private memory.
    ///
    /// # Errors
    /// Those of [`copy_out`](Self::copy_out).
    pub fn copy_in(
        &mut self,
        from: &CopySource<'_>,
        into: &CopyTarget<'_>,
    ) -> Result<usize, Errno> {
        let bytes = from.bytes().min(into.bytes());
        if self.pipe.is_none() {
            let local = libc::iovec { iov_len: bytes, ..from.local() };
            let remote = libc::iovec { iov_len: bytes, ..into.local() };
            let pid = crate::process_id();
            // SAFETY: the kernel checks both ranges, and a party vouched for both.
            let result = unsafe {
                libc::process_vm_writev(pid, &raw const local, 1, &raw const remote, 1, 0)
            };
            if let Some(ended) = self.unless_filtered(result)? {
                return ended;
            }
        }
        self.copy_by_pipe(from, into, bytes)
    }

    /// The result of a call. After a refusal by a filter, makes the pipe and returns `None`.
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
            let start = from.start().wrapping_add(done);
            // SAFETY: the kernel checks the range, and a party vouched for it.
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
                let start = into.start().wrapping_add(done + taken);
                // SAFETY: the kernel checks the range, and a party vouched for it.
                let read = copied(unsafe {
                    libc::read(reader.as_fd().as_raw_fd(), start.cast(), written - taken)
                });
                match read {
                    Ok(read) => taken += read,
                    Err(Errno::INTR) => {}
                    Err(errno) => {
                        // The rest in the pipe must not reach a later copy.
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
    use rustix::pipe::{PipeFlags, pipe_with};
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    Ok((crate::above_standard(reader)?, crate::above_standard(writer)?))
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;

    fn unmapped<'a>() -> CopyTarget<'a> {
        // SAFETY: an unmapped address is allowed.
        unsafe { CopyTarget::from_raw(core::ptr::without_provenance_mut(8), 100) }
    }

    #[test]
    fn own_memory_is_copied_in_both_directions() {
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
                own.copy_out(&CopySource::from(&sent[..100]), &unmapped()),
                Err(Errno::FAULT)
            );
            assert_eq!(
                own.copy_in(&CopySource::from(&sent[..100]), &unmapped()),
                Err(Errno::FAULT)
            );
            let mut got = [0; 10];
            assert_eq!(
                own.copy_out(&CopySource::from(&sent[..10]), &CopyTarget::from(&mut got[..])),
                Ok(10)
            );
            assert_eq!(got, sent[..10]);
        }
    }
}
