//! Memory of a party of a copy, and what can be wrong with it.
//!
//! # Safety
//! Every pointer given to the kernel is to a live local or to the one mapping
//! made here, which lives as long as the process.
#![allow(unsafe_code)]

use m3ipc_sys::{CopySource, CopyTarget, Errno};
use std::os::fd::AsRawFd;

const USERFAULTFD_API: libc::c_ulong = 0xc018_aa3f;
const USERFAULTFD_REGISTER: libc::c_ulong = 0xc020_aa00;

/// Memory that is mapped for itself and never unmapped but by [`Memory::unmap_half`].
#[derive(Debug)]
pub struct Memory {
    start: *mut u8,
    bytes: usize,
}

impl Memory {
    /// So many bytes, of whole pages.
    ///
    /// # Panics
    /// Where there are none.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        assert!(start != libc::MAP_FAILED, "no memory");
        Self { start: start.cast(), bytes }
    }

    /// How much it is.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where it lies.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.start.expose_provenance() as u64
    }

    /// All of it, to be copied.
    #[must_use]
    pub fn room(&self) -> CopyTarget<'static> {
        // SAFETY: it lives as long as the process; what was unmapped the kernel tells.
        unsafe { CopyTarget::from_raw(self.start, self.bytes) }
    }

    /// So many bytes of it, also where they are gone, to be copied.
    #[must_use]
    pub fn bytes_of(&self, bytes: usize) -> CopySource<'static> {
        // SAFETY: as above.
        unsafe { CopySource::from_raw(self.start, bytes) }
    }

    /// Puts bytes at its front.
    pub fn write(&mut self, bytes: &[u8]) {
        let count = bytes.len().min(self.bytes);
        // SAFETY: inside the mapping; nobody else accesses it while its owner runs.
        unsafe { self.start.copy_from_nonoverlapping(bytes.as_ptr(), count) };
    }

    /// A copy of it.
    #[must_use]
    pub fn read(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes];
        // SAFETY: as above.
        unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(self.start, self.bytes) };
        bytes
    }

    /// From its middle on it is gone.
    pub fn unmap_half(&mut self) {
        let half = self.bytes / 2;
        // SAFETY: our own mapping; nothing of that half is accessed here afterwards.
        unsafe { libc::munmap(self.start.wrapping_add(half).cast(), self.bytes - half) };
        self.bytes = half;
    }

    /// Its pages are gone, and whoever touches one waits for a filler that never comes.
    ///
    /// # Errors
    /// `PERM` where the system does not let this process do that.
    pub fn never_fill(&mut self) -> Result<(), Errno> {
        // SAFETY: an integer; the descriptor stays open as long as the process lives.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) };
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or(Errno::PERM)?;
        let mut api = [0xaa_u64, 0, 0];
        let mut range = [self.address(), self.bytes as u64, 1, 0];
        // SAFETY: our own mapping; its bytes are not needed any more.
        unsafe { libc::madvise(self.start.cast(), self.bytes, libc::MADV_DONTNEED) };
        // SAFETY: a live local of the size that the call wants.
        let agreed = unsafe { libc::ioctl(fd, USERFAULTFD_API, api.as_mut_ptr()) };
        // SAFETY: as above.
        let registered = unsafe { libc::ioctl(fd, USERFAULTFD_REGISTER, range.as_mut_ptr()) };
        if agreed == 0 && registered == 0 { Ok(()) } else { Err(Errno::PERM) }
    }
}

/// What another thread does to the second half of a party's memory, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unrest {
    /// It may not be accessed, and may again.
    Protect,
    /// Other memory comes in its place.
    Replace,
    /// The file behind it is cut, and grows again.
    Shrink,
}

impl Memory {
    /// A file's pages in place of its own.
    ///
    /// # Errors
    /// Of open(2) and mmap(2).
    pub fn map_file(&mut self, path: &std::path::Path) -> Result<(), Errno> {
        use rustix::fs::{Mode, OFlags, open};
        let file = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let (flags, protection) =
            (libc::MAP_PRIVATE | libc::MAP_FIXED, libc::PROT_READ | libc::PROT_WRITE);
        self.replace(0, flags, protection, file.as_raw_fd())
    }

    /// From now on its second half is never at rest.
    ///
    /// # Panics
    /// Where the system has no memory for that.
    pub fn unsettle(&mut self, unrest: Unrest) {
        let half = self.bytes / 2;
        let whole = self.bytes as u64;
        let file = rustix::fs::memfd_create("m3ipc-conformance", rustix::fs::MemfdFlags::CLOEXEC)
            .expect("a file in memory");
        if unrest == Unrest::Shrink {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            rustix::fs::ftruncate(&file, whole).expect("it grows");
            let flags = libc::MAP_SHARED | libc::MAP_FIXED;
            self.replace(0, flags, protection, file.as_raw_fd()).expect("mapped");
        }
        let memory = Self { start: self.start, bytes: self.bytes };
        std::thread::spawn(move || {
            for round in 0_u64.. {
                match unrest {
                    Unrest::Protect => memory.protect_half(round.is_multiple_of(2)),
                    Unrest::Replace => {
                        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
                        let _ = memory.replace(half, flags, libc::PROT_READ | libc::PROT_WRITE, -1);
                    }
                    Unrest::Shrink => {
                        let bytes = if round.is_multiple_of(2) { half as u64 } else { whole };
                        let _ = rustix::fs::ftruncate(&file, bytes);
                    }
                }
                std::thread::sleep(std::time::Duration::from_micros(50));
            }
        });
    }

    /// Puts another mapping in the place of this one from an offset on.
    fn replace(&self, from: usize, flags: i32, protection: i32, fd: i32) -> Result<(), Errno> {
        let start = self.start.wrapping_add(from).cast();
        // SAFETY: our own mapping, which nobody holds a reference into; only the kernel looks at it.
        let mapped = unsafe { libc::mmap(start, self.bytes - from, protection, flags, fd, 0) };
        if mapped == libc::MAP_FAILED { Err(Errno::NOMEM) } else { Ok(()) }
    }

    fn protect_half(&self, forbid: bool) {
        let half = self.bytes / 2;
        let protection = if forbid { libc::PROT_NONE } else { libc::PROT_READ | libc::PROT_WRITE };
        // SAFETY: our own mapping; only the kernel looks at that half.
        unsafe {
            libc::mprotect(self.start.wrapping_add(half).cast(), self.bytes - half, protection)
        };
    }
}

// SAFETY: an address and a length; what lies there is only reached by system calls from other threads.
unsafe impl Send for Memory {}

/// From now on the kernel refuses this process process_vm_readv and writev.
///
/// # Errors
/// `PERM` where no filter can be set.
pub fn refuse_copies() -> Result<(), Errno> {
    let statement = |code: u32, value: u32, yes: u8, no: u8| libc::sock_filter {
        code: u16::try_from(code).unwrap_or_default(),
        jt: yes,
        jf: no,
        k: value,
    };
    let number = |call: libc::c_long| u32::try_from(call).unwrap_or_default();
    let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let mut steps = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(equal, number(libc::SYS_process_vm_readv), 2, 0),
        statement(equal, number(libc::SYS_process_vm_writev), 1, 0),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
        statement(
            libc::BPF_RET | libc::BPF_K,
            libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned(),
            0,
            0,
        ),
    ];
    let program = libc::sock_fprog { len: 5, filter: steps.as_mut_ptr() };
    // SAFETY: integers only.
    let kept = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    // SAFETY: a program of five steps that outlives the call.
    let filtered =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    if kept == 0 && filtered == 0 { Ok(()) } else { Err(Errno::PERM) }
}
