//! Memory without a name: gone with its last mapping, whoever was killed.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, fstat,
    ftruncate, memfd_create,
};
use rustix::io::Errno;

/// Creates memory of `bytes` bytes that can neither shrink nor grow, with all its pages reserved.
///
/// # Errors
/// `MFILE`, `NFILE`, `NOMEM`, `NOSPC`.
///
/// # Source
/// memfd_create(2)
pub fn create_memory(name: &str, bytes: u64) -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // Before Linux 6.3 the flag is unknown.
        Err(Errno::INVAL) => memfd_create(name, flags)?,
        other => other?,
    };
    ftruncate(&memory, bytes)?;
    fallocate(&memory, FallocateFlags::empty(), 0, bytes)?;
    seal_size(&memory)?;
    Ok(memory)
}

/// Forbids any change of size, for ever.
///
/// # Errors
/// `PERM` where sealing is sealed.
pub fn seal_size(memory: impl AsFd) -> Result<(), Errno> {
    fcntl_add_seals(memory, SealFlags::SHRINK | SealFlags::GROW)
}

/// Forbids any new writable mapping and any further seal, for ever: from now
/// on only mappings that exist can write. To be called when the one writer has mapped it.
///
/// # Errors
/// `INVAL` before Linux 5.1, `PERM` where sealing is sealed.
pub fn seal_against_new_writers(memory: impl AsFd) -> Result<(), Errno> {
    fcntl_add_seals(memory, SealFlags::FUTURE_WRITE | SealFlags::SEAL)
}

/// The size of memory whose size can never change.
///
/// # Errors
/// `PERM` where its size is not sealed; `INVAL` where this is no such memory.
pub fn memory_bytes(memory: impl AsFd) -> Result<u64, Errno> {
    let seals = fcntl_get_seals(&memory)?;
    if !seals.contains(SealFlags::SHRINK | SealFlags::GROW) {
        return Err(Errno::PERM);
    }
    u64::try_from(fstat(memory)?.st_size).map_err(|_negative| Errno::INVAL)
}
