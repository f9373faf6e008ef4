//! Memory without a name. It ends with its last mapping, whichever process was killed.

#[cfg(not(miri))]
use crate::descriptors::above_standard;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    FallocateFlags, SealFlags, SeekFrom, fallocate, fcntl_add_seals, fcntl_get_seals, fstat, seek,
};
#[cfg(not(miri))]
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;

#[cfg(not(miri))]
fn create_empty(name: &str, flags: MemfdFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let made = match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // Linux before 6.3 does not know the flag.
        Err(Errno::INVAL) => memfd_create(name, flags),
        other => other,
    };
    above_standard(made?)
}

/// Creates memory of `bytes` bytes with all its pages, and adds seals. The reservation of the pages
/// sets the size.
#[cfg(not(miri))]
fn create_reserved(name: &str, bytes: u64, seals: SealFlags) -> Result<OwnedFd, Errno> {
    let memory = create_empty(name, MemfdFlags::empty())?;
    fallocate(&memory, FallocateFlags::empty(), 0, bytes)?;
    fcntl_add_seals(&memory, seals)?;
    Ok(memory)
}

/// Creates memory of `bytes` bytes. Its size and its seals are sealed, and all its pages are
/// reserved. A process that gets the descriptor can add no seal, and so bars nobody.
///
/// # Errors
/// `MFILE`, `NFILE`, `NOMEM`, `NOSPC`.
///
/// # Source
/// memfd_create(2)
#[cfg(not(miri))]
pub fn create_memory(name: &str, bytes: u64) -> Result<OwnedFd, Errno> {
    create_reserved(name, bytes, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
}

/// As [`create_memory`], and open to more seals: for memory whose one writer maps it before
/// [`seal_against_new_writers`]. Until then that writer alone gets the descriptor.
///
/// # Errors
/// As [`create_memory`].
#[cfg(not(miri))]
pub fn create_sealable_memory(name: &str, bytes: u64) -> Result<OwnedFd, Errno> {
    create_reserved(name, bytes, SealFlags::SHRINK | SealFlags::GROW)
}

/// Creates memory of `bytes` bytes: see [`crate::miri_memory`].
///
/// # Errors
/// `INVAL`, `NOMEM`, `MFILE`.
#[cfg(miri)]
pub fn create_sealable_memory(_name: &str, bytes: u64) -> Result<OwnedFd, Errno> {
    crate::miri_memory::create(bytes)
}

/// Creates memory of `bytes` bytes: see [`crate::miri_memory`].
///
/// # Errors
/// `INVAL`, `NOMEM`, `MFILE`.
#[cfg(miri)]
pub fn create_memory(_name: &str, bytes: u64) -> Result<OwnedFd, Errno> {
    crate::miri_memory::create(bytes)
}

/// Creates memory of `bytes` bytes. Its size is sealed, and it has no pages yet: they come with
/// [`reserve_memory`], or with the first access. More seals may follow; the creator ends that with
/// [`seal_seals`] or [`seal_against_new_writers`].
///
/// # Errors
/// `MFILE`, `NFILE`, `NOMEM`; others if `huge` is set and the system has no huge pages of
/// 2 MiB.
///
/// # Source
/// memfd_create(2)
#[cfg(not(miri))]
pub fn create_sparse(name: &str, bytes: u64, huge: bool) -> Result<OwnedFd, Errno> {
    // The default size of huge pages differs from machine to machine.
    let of_2_mib = MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
    let flags = if huge { of_2_mib } else { MemfdFlags::empty() };
    let memory = create_empty(name, flags)?;
    ftruncate(&memory, bytes)?;
    seal_size(&memory)?;
    Ok(memory)
}

/// Creates memory of `bytes` bytes: see [`crate::miri_memory`].
///
/// # Errors
/// `INVAL`, `NOMEM`, `MFILE`.
#[cfg(miri)]
pub fn create_sparse(_name: &str, bytes: u64, _huge: bool) -> Result<OwnedFd, Errno> {
    crate::miri_memory::create(bytes)
}

/// Reserves the pages of a range, so that a later access cannot fail.
///
/// # Errors
/// `NOMEM`, `NOSPC`.
pub fn reserve_memory(memory: impl AsFd, offset: u64, bytes: u64) -> Result<(), Errno> {
    fallocate(memory, FallocateFlags::KEEP_SIZE, offset, bytes)
}

/// Gives the pages of a range back to the system. The range then reads as zeros.
///
/// # Errors
/// `PERM` if the memory is sealed against writing.
pub fn release_memory(memory: impl AsFd, offset: u64, bytes: u64) -> Result<(), Errno> {
    fallocate(memory, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, bytes)
}

/// The first byte at or behind `offset` that has a page; `None` if no such byte has one. Memory
/// without a page reads as zeros, but a read through a mapping takes a page for it.
///
/// # Errors
/// `BADF` if the descriptor is no memory.
///
/// # Source
/// lseek(2), SEEK_DATA
pub fn next_page(memory: impl AsFd, offset: u64) -> Result<Option<u64>, Errno> {
    match seek(memory, SeekFrom::Data(offset)) {
        Ok(at) => Ok(Some(at)),
        Err(Errno::NXIO) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Forbids any change of size, for ever.
///
/// # Errors
/// `PERM` if further seals are forbidden.
pub fn seal_size(memory: impl AsFd) -> Result<(), Errno> {
    fcntl_add_seals(memory, SealFlags::SHRINK | SealFlags::GROW)
}

/// Forbids any further seal, for ever.
///
/// # Errors
/// `PERM` if further seals are forbidden already.
pub fn seal_seals(memory: impl AsFd) -> Result<(), Errno> {
    fcntl_add_seals(memory, SealFlags::SEAL)
}

/// Forbids new writable mappings and further seals, for ever. Only present mappings can write from
/// now on. Call it after the one writer has mapped the memory.
///
/// # Errors
/// `INVAL` before Linux 5.1; `PERM` if further seals are forbidden.
pub fn seal_against_new_writers(memory: impl AsFd) -> Result<(), Errno> {
    fcntl_add_seals(memory, SealFlags::FUTURE_WRITE | SealFlags::SEAL)
}

/// Forbids any writing and further seals, for ever. The kernel refuses while a process has the
/// memory mapped for writing.
///
/// # Errors
/// `BUSY` while a writable mapping exists; `PERM` if further seals are forbidden.
pub fn seal_against_writing(memory: impl AsFd) -> Result<(), Errno> {
    fcntl_add_seals(memory, SealFlags::WRITE | SealFlags::SEAL)
}

/// Whether no process can write this memory, now or ever.
///
/// # Errors
/// `INVAL` if the descriptor is no memfd.
pub fn is_sealed_against_writing(memory: impl AsFd) -> Result<bool, Errno> {
    Ok(fcntl_get_seals(memory)?.contains(SealFlags::WRITE))
}

/// The size of memory with a sealed size.
///
/// # Errors
/// `PERM` if the size is not sealed; `INVAL` if the descriptor is no memfd.
#[cfg(not(miri))]
pub fn memory_bytes(memory: impl AsFd) -> Result<u64, Errno> {
    let seals = fcntl_get_seals(&memory)?;
    if !seals.contains(SealFlags::SHRINK | SealFlags::GROW) {
        return Err(Errno::PERM);
    }
    u64::try_from(fstat(memory)?.st_size).map_err(|_negative| Errno::INVAL)
}

/// The size of memory: see [`crate::miri_memory`].
///
/// # Errors
/// `INVAL` if the descriptor is no memory.
#[cfg(miri)]
pub fn memory_bytes(memory: impl AsFd) -> Result<u64, Errno> {
    crate::miri_memory::find(memory).map(|(_, bytes)| bytes as u64)
}

/// Copies a range of memory, which may be shorter if the memory ends before. Pages that nobody has
/// written read as zeros, and stay without memory.
///
/// # Errors
/// `NOMEM` if there is no memory for the copy, and those of pread(2).
pub fn copy_memory(memory: impl AsFd, range: core::ops::Range<u64>) -> Result<Vec<u8>, Errno> {
    let length = range.end.saturating_sub(range.start);
    let length = usize::try_from(length).map_err(|_too_long| Errno::NOMEM)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_no_memory| Errno::NOMEM)?;
    bytes.resize(length, 0);
    let mut done = 0;
    while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match rustix::io::pread(&memory, rest, range.start.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(more) => done += more,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

/// The number that identifies this memory on the machine: its inode number.
///
/// # Errors
/// Those of fstat(2).
pub fn memory_id(memory: impl AsFd) -> Result<u64, Errno> {
    Ok(fstat(memory)?.st_ino)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn no_process_can_add_a_seal_to_memory_of_sealed_seals() {
        let memory = create_memory("m3-test", 4096).unwrap();
        assert_eq!(seal_against_writing(&memory), Err(Errno::PERM));
        assert_eq!(seal_against_new_writers(&memory), Err(Errno::PERM));
        let page = create_sealable_memory("m3-test", 4096).unwrap();
        seal_against_new_writers(&page).unwrap();
        assert_eq!(seal_against_writing(&page), Err(Errno::PERM));
    }

    #[test]
    fn a_copy_of_memory_gives_no_pages_to_it() {
        let memory = create_sparse("m3-test", 64 * 1024, false).unwrap();
        assert_eq!(copy_memory(&memory, 4096..12_288), Ok(vec![0; 8192]));
        assert_eq!(next_page(&memory, 0), Ok(None));
        assert_eq!(copy_memory(&memory, 60 * 1024..100 * 1024), Ok(vec![0; 4096]));
    }

    #[test]
    fn only_written_memory_has_pages() {
        use std::os::unix::fs::FileExt;
        let memory = create_sparse("m3-test", 64 * 1024, false).unwrap();
        assert_eq!(next_page(&memory, 0), Ok(None));
        let file = std::fs::File::from(memory);
        file.write_all_at(&[1], 32 * 1024 + 7).unwrap();
        let at = next_page(&file, 0).unwrap().unwrap();
        assert!(at <= 32 * 1024 + 7 && at + 64 * 1024 > 32 * 1024);
        assert_eq!(next_page(&file, 32 * 1024 + 7), Ok(Some(32 * 1024 + 7)));
    }
}
