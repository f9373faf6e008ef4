//! Files: open, read, and the properties of a descriptor.
//!
//! # Safety
//! The kernel reads and writes live locals and slices, whose lengths it gets with them.
#![allow(unsafe_code)]

use super::apart;
use super::call::{Errno, call, descriptor, register};
use core::ffi::CStr;
use core::mem::MaybeUninit;
use std::os::fd::RawFd;

/// An open file, closed when dropped.
#[derive(Debug)]
pub struct File(RawFd);

impl File {
    /// Opens a path for reading.
    ///
    /// # Errors
    /// Of open(2).
    pub fn open(path: &CStr) -> Result<Self, Errno> {
        open(libc::AT_FDCWD, path, libc::O_RDONLY, 0).map(Self)
    }

    /// Opens a path below a directory, without waiting for the other end of a FIFO.
    ///
    /// # Errors
    /// Of openat(2).
    pub fn open_at(directory: RawFd, path: &CStr) -> Result<Self, Errno> {
        open(directory, path, libc::O_RDONLY | libc::O_NONBLOCK, 0).map(Self)
    }

    /// Opens an existing file at a path for reading, and for writing where that is asked; follows
    /// no link.
    ///
    /// # Errors
    /// Of open(2).
    pub fn open_unlinked(path: &CStr, is_writable: bool) -> Result<Self, Errno> {
        let access = if is_writable { libc::O_RDWR } else { libc::O_RDONLY };
        open(libc::AT_FDCWD, path, access | libc::O_NOFOLLOW | libc::O_NONBLOCK, 0).map(Self)
    }

    /// Creates a file for reading and writing, for its owner alone.
    ///
    /// # Errors
    /// Of open(2); `EEXIST` where there is one.
    pub fn create(path: &CStr) -> Result<Self, Errno> {
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        open(libc::AT_FDCWD, path, flags, 0o600).map(Self)
    }

    /// Opens a directory to list its entries; follows no link at its end.
    ///
    /// # Errors
    /// Of open(2).
    pub fn open_list(path: &CStr) -> Result<Self, Errno> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        open(libc::AT_FDCWD, path, flags, 0).map(Self)
    }

    /// Opens a directory as a place only, for paths below it; follows no link at its end.
    ///
    /// # Errors
    /// Of open(2).
    pub fn open_directory(path: &CStr) -> Result<Self, Errno> {
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        open(libc::AT_FDCWD, path, flags, 0).map(Self)
    }

    /// Opens a directory below another one as a place only; follows no link.
    ///
    /// # Errors
    /// Of openat(2).
    pub fn open_directory_at(directory: RawFd, name: &CStr) -> Result<Self, Errno> {
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        open(directory, name, flags, 0).map(Self)
    }

    /// The descriptor.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.0
    }

    /// Reads from the position of the file; 0 at its end, and where it cannot be read.
    pub fn read(&self, bytes: &mut [u8]) -> usize {
        let words = [register(self.0), bytes.as_mut_ptr() as usize, bytes.len(), 0, 0, 0];
        // SAFETY: the kernel writes at most the length of the slice.
        unsafe { call(libc::SYS_read, words) }.unwrap_or(0)
    }

    /// The size in bytes.
    ///
    /// # Errors
    /// Of lseek(2).
    pub fn size_bytes(&self) -> Result<usize, Errno> {
        seek(self.0, 0, libc::SEEK_END)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        close(self.0);
    }
}

/// Reads the first bytes of a small file, without a descriptor of the program; 0 where it cannot be
/// read.
pub fn read_whole(path: &CStr, bytes: &mut [u8]) -> usize {
    apart::run(|| File::open(path).map_or(0, |file| file.read(bytes))).unwrap_or(0)
}

/// Reads from a descriptor.
///
/// # Errors
/// Of read(2).
pub fn read(fd: RawFd, bytes: &mut [u8]) -> Result<usize, Errno> {
    let words = [register(fd), bytes.as_mut_ptr() as usize, bytes.len(), 0, 0, 0];
    // SAFETY: the kernel writes at most the length of the slice.
    unsafe { call(libc::SYS_read, words) }
}

/// Closes a descriptor of ours.
pub fn close(fd: RawFd) {
    // SAFETY: no pointers.
    let _ = unsafe { call(libc::SYS_close, [register(fd), 0, 0, 0, 0, 0]) };
}

fn open(directory: RawFd, path: &CStr, flags: i32, mode: u32) -> Result<RawFd, Errno> {
    let (at, flags) = (path.as_ptr() as usize, register(flags | libc::O_CLOEXEC));
    let words = [register(directory), at, flags, mode as usize, 0, 0];
    // SAFETY: the path is live and ends with a zero.
    unsafe { call(libc::SYS_openat, words) }.and_then(descriptor)
}

/// Properties of an open file.
///
/// # Errors
/// Of fstat(2).
pub fn stat(fd: RawFd) -> Result<libc::stat, Errno> {
    // SAFETY: plain integers, for which zeros are valid.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    let words = [register(fd), (&raw mut stat) as usize, 0, 0, 0, 0];
    // SAFETY: the structure is live and has the layout of the kernel on 64-bit machines.
    unsafe { call(libc::SYS_fstat, words)? };
    Ok(stat)
}

/// Properties of the file at a path, without a descriptor.
///
/// # Errors
/// Of fstatat(2).
pub fn stat_at(path: &CStr) -> Result<libc::stat, Errno> {
    // SAFETY: plain integers, for which zeros are valid.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    let at = path.as_ptr() as usize;
    let words = [register(libc::AT_FDCWD), at, (&raw mut stat) as usize, 0, 0, 0];
    // SAFETY: the path ends with a zero; the structure is live, as in `stat`.
    unsafe { call(libc::SYS_newfstatat, words)? };
    Ok(stat)
}

/// Names in an open directory of tmpfs; `None` of another file system, which does not count them.
///
/// # Source
/// mm/shmem.c of Linux: `BOGO_DIRENT_SIZE`
pub fn names_in_memory(directory: RawFd) -> Option<u64> {
    const NAME_BYTES: u64 = 20;
    // SAFETY: plain integers, for which zeros are valid.
    let mut system: libc::statfs = unsafe { core::mem::zeroed() };
    let words = [register(directory), (&raw mut system) as usize, 0, 0, 0, 0];
    // SAFETY: the structure is live and has the layout of the kernel on 64-bit machines.
    unsafe { call(libc::SYS_fstatfs, words).ok()? };
    let bytes = u64::try_from(stat(directory).ok()?.st_size).ok()?;
    (system.f_type == libc::TMPFS_MAGIC).then_some(bytes / NAME_BYTES)
}

/// Whether this process may make a file of so many bytes. Without the question the kernel would
/// end the program by `SIGXFSZ`, which the program did not earn.
///
/// # Source
/// getrlimit(2): `RLIMIT_FSIZE`
fn may_have(bytes: usize) -> bool {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    let words = [0, libc::RLIMIT_FSIZE as usize, 0, (&raw mut limit) as usize, 0, 0];
    // SAFETY: the structure is live; a null pointer changes no limit.
    let asked = unsafe { call(libc::SYS_prlimit64, words) };
    asked.is_ok() && bytes as u64 <= limit.rlim_cur
}

/// Sets the size of a file in bytes.
///
/// # Errors
/// Of ftruncate(2); `EFBIG` also where the kernel would send a signal.
pub fn truncate(fd: RawFd, bytes: usize) -> Result<(), Errno> {
    if !may_have(bytes) {
        return Err(libc::EFBIG);
    }
    // SAFETY: no pointers.
    unsafe { call(libc::SYS_ftruncate, [register(fd), bytes, 0, 0, 0, 0]) }.map(drop)
}

/// Creates a directory for its owner alone.
///
/// # Errors
/// Of mkdirat(2).
pub fn create_directory(directory: RawFd, name: &CStr) -> Result<(), Errno> {
    let words = [register(directory), name.as_ptr() as usize, 0o700, 0, 0, 0];
    // SAFETY: the name is live and ends with a zero.
    unsafe { call(libc::SYS_mkdirat, words) }.map(drop)
}

/// Gives a file a second name.
///
/// # Errors
/// Of linkat(2); `EEXIST` where the name is taken.
pub fn link(path: &CStr, name: &CStr) -> Result<(), Errno> {
    let (from, to) = (path.as_ptr() as usize, name.as_ptr() as usize);
    let here = register(libc::AT_FDCWD);
    // SAFETY: the paths are live and end with a zero.
    unsafe { call(libc::SYS_linkat, [here, from, here, to, 0, 0]) }.map(drop)
}

/// Gives a file another name, which no file has yet.
///
/// # Errors
/// Of renameat2(2); `EEXIST` where the name is taken.
pub fn rename_to_new(path: &CStr, name: &CStr) -> Result<(), Errno> {
    let (from, to) = (path.as_ptr() as usize, name.as_ptr() as usize);
    let here = register(libc::AT_FDCWD);
    let words = [here, from, here, to, libc::RENAME_NOREPLACE as usize, 0];
    // SAFETY: the paths are live and end with a zero.
    unsafe { call(libc::SYS_renameat2, words) }.map(drop)
}

/// Removes a name of a file, where there is one.
pub fn remove(path: &CStr) {
    let words = [register(libc::AT_FDCWD), path.as_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the path is live and ends with a zero.
    let _ = unsafe { call(libc::SYS_unlinkat, words) };
}

/// Writes to an offset of a file; the bytes that were written.
///
/// # Errors
/// Of pwrite(2); `EFBIG` also where the kernel would send a signal.
pub fn write_at(fd: RawFd, bytes: &[u8], offset: usize) -> Result<usize, Errno> {
    if !may_have(offset.saturating_add(bytes.len())) {
        return Err(libc::EFBIG);
    }
    let words = [register(fd), bytes.as_ptr() as usize, bytes.len(), offset, 0, 0];
    // SAFETY: the kernel reads at most the length of the slice.
    unsafe { call(libc::SYS_pwrite64, words) }
}

/// Reads entries of a directory from its position on, in the kernel's form; the bytes of them.
///
/// # Errors
/// Of getdents64(2).
pub fn read_entries(fd: RawFd, bytes: &mut [u8]) -> Result<usize, Errno> {
    let words = [register(fd), bytes.as_mut_ptr() as usize, bytes.len(), 0, 0, 0];
    // SAFETY: the kernel writes at most the length of the slice.
    unsafe { call(libc::SYS_getdents64, words) }
}

/// Moves the position of a file; the new position in bytes.
///
/// # Errors
/// Of lseek(2).
pub fn seek(fd: RawFd, offset: i64, whence: i32) -> Result<usize, Errno> {
    let offset = isize::try_from(offset).map_err(|_| libc::EOVERFLOW)?.cast_unsigned();
    // SAFETY: no pointers.
    unsafe { call(libc::SYS_lseek, [register(fd), offset, register(whence), 0, 0, 0]) }
}

/// Reads from an offset of a file; the bytes that were read.
///
/// # Errors
/// Of pread(2).
pub fn read_at(fd: RawFd, bytes: &mut [u8], offset: usize) -> Result<usize, Errno> {
    let words = [register(fd), bytes.as_mut_ptr() as usize, bytes.len(), offset, 0, 0];
    // SAFETY: the kernel writes at most the length of the slice.
    unsafe { call(libc::SYS_pread64, words) }
}

/// Reads from an offset of a file into uninitialised memory; the bytes that were read.
///
/// # Errors
/// Of pread(2).
pub fn read_at_into(
    fd: RawFd,
    room: &mut [MaybeUninit<u8>],
    offset: usize,
) -> Result<&mut [u8], Errno> {
    let words = [register(fd), room.as_mut_ptr() as usize, room.len(), offset, 0, 0];
    // SAFETY: the kernel writes at most the length of the slice.
    let got = unsafe { call(libc::SYS_pread64, words) }?;
    let read = room.get_mut(..got).unwrap_or(&mut []);
    // SAFETY: pread(2) returns the number of bytes that it wrote.
    Ok(unsafe { core::slice::from_raw_parts_mut(read.as_mut_ptr().cast(), read.len()) })
}

/// The target of a symbolic link; the bytes that were written, without a zero behind them.
///
/// # Errors
/// Of readlink(2).
pub fn read_link(path: &CStr, bytes: &mut [u8]) -> Result<usize, Errno> {
    let (at, to) = (path.as_ptr() as usize, bytes.as_mut_ptr() as usize);
    let words = [register(libc::AT_FDCWD), at, to, bytes.len(), 0, 0];
    // SAFETY: the path is live and ends with a zero; the kernel writes at most the slice's length.
    unsafe { call(libc::SYS_readlinkat, words) }
}

/// Whether exec closes a descriptor; `None` where the descriptor is not open.
#[must_use]
pub fn is_close_on_exec(fd: RawFd) -> Option<bool> {
    let words = [register(fd), register(libc::F_GETFD), 0, 0, 0, 0];
    // SAFETY: no pointers.
    let flags = unsafe { call(libc::SYS_fcntl, words) }.ok()?;
    Some(flags & register(libc::FD_CLOEXEC) != 0)
}

/// Whether a descriptor does not block.
#[must_use]
pub fn is_nonblocking(fd: RawFd) -> bool {
    // SAFETY: no pointers.
    unsafe { call(libc::SYS_fcntl, [register(fd), register(libc::F_GETFL), 0, 0, 0, 0]) }
        .is_ok_and(|flags| flags & register(libc::O_NONBLOCK) != 0)
}

/// Whether a program file brings privileges: set-user-ID, set-group-ID or file capabilities.
#[must_use]
pub fn has_privileges(fd: RawFd) -> bool {
    let Ok(stat) = stat(fd) else { return true };
    let name = c"security.capability".as_ptr() as usize;
    // SAFETY: the name is live and ends with a zero; a length of 0 makes the kernel write nothing.
    let capability = unsafe { call(libc::SYS_fgetxattr, [register(fd), name, 0, 0, 0, 0]) };
    stat.st_mode & (libc::S_ISUID | libc::S_ISGID) != 0 || capability.is_ok()
}
