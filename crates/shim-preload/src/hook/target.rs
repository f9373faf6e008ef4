//! What an exec leads to: a program that loads this library, or one that would read a socket bare.

use core::ffi::{CStr, c_char, c_int};

/// Scripts that name scripts: as deep as the kernel goes.
const DEPTH: u32 = 5;
/// Program headers that are looked at.
const HEADERS: usize = 64;
/// The largest path that is put together.
const PATH: usize = 4096;

struct File(usize);

impl File {
    unsafe fn open(folder: c_int, path: *const c_char) -> Result<Self, c_int> {
        let flags = (libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK) as usize;
        crate::raw(libc::SYS_openat, [folder as usize, path as usize, flags, 0, 0, 0]).map(Self)
    }

    unsafe fn read(&self, bytes: &mut [u8], offset: u64) -> usize {
        let words = [self.0, bytes.as_mut_ptr() as usize, bytes.len(), offset as usize, 0, 0];
        crate::raw(libc::SYS_pread64, words).unwrap_or(0)
    }

    /// Whether it brings rights of its own: then the loader takes no library from its caller.
    unsafe fn is_privileged(&self) -> bool {
        let mut stat: libc::stat = core::mem::zeroed();
        if crate::raw(libc::SYS_fstat, [self.0, &raw mut stat as usize, 0, 0, 0, 0]).is_err() {
            return true;
        }
        let words = [self.0, c"security.capability".as_ptr() as usize, 0, 0, 0, 0];
        stat.st_mode & (libc::S_ISUID | libc::S_ISGID) != 0
            || crate::raw(libc::SYS_fgetxattr, words).is_ok()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = unsafe { crate::raw(libc::SYS_close, [self.0, 0, 0, 0, 0, 0]) };
    }
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..at + N).and_then(|part| part.try_into().ok()).unwrap_or([0; N])
}

/// Whether the loader of this file will load the library.
unsafe fn loads(file: &File, depth: u32) -> bool {
    let mut head = [0_u8; 256];
    let length = file.read(&mut head, 0);
    if depth == 0 {
        return false;
    }
    if let Some(line) = head[..length].strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or(line);
        let mut words =
            line.split(|byte| *byte == b' ' || *byte == b'\t').filter(|word| !word.is_empty());
        let Some(path) = words.next() else { return false };
        let mut room = [0_u8; 256];
        room[..path.len()].copy_from_slice(path);
        return File::open(libc::AT_FDCWD, room.as_ptr().cast())
            .is_ok_and(|file| loads(&file, depth - 1));
    }
    // A binary of our own kind: 64 bits, little end first, this machine.
    let machine = if cfg!(target_arch = "x86_64") { 62_u16 } else { 183 };
    let ours =
        head.starts_with(b"\x7fELF\x02\x01") && u16::from_le_bytes(number(&head, 18)) == machine;
    if !ours || file.is_privileged() {
        return false;
    }
    let (offset, count) =
        (u64::from_le_bytes(number(&head, 32)), u16::from_le_bytes(number(&head, 56)));
    let mut headers = [0_u8; HEADERS * 56];
    let read = file.read(&mut headers, offset);
    headers[..read].chunks_exact(56).take(usize::from(count)).any(|header| {
        const INTERPRETER: u32 = 3;
        if u32::from_le_bytes(number(header, 0)) != INTERPRETER {
            return false;
        }
        let mut loader = [0_u8; 128];
        let length = unsafe { file.read(&mut loader, u64::from_le_bytes(number(header, 8))) };
        // Another C library's loader would refuse, or misuse, ours.
        !loader[..length]
            .split(|byte| *byte == 0)
            .next()
            .is_some_and(|name| name.windows(4).any(|part| part == b"musl"))
    })
}

/// Whether this program will have the library; one that cannot be read will not. Where there is none, nothing comes of
/// the exec (who looks for a program tries many names), and nothing is to be given up for it.
pub unsafe fn is_ours(folder: c_int, path: *const c_char) -> bool {
    match File::open(folder, path) {
        Ok(file) => loads(&file, DEPTH),
        Err(code) => {
            matches!(
                code,
                libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG | libc::ELOOP | libc::EFAULT
            )
        }
    }
}

/// The same for a descriptor.
pub unsafe fn is_ours_at(fd: c_int) -> bool {
    let file = core::mem::ManuallyDrop::new(File(fd as usize));
    loads(&file, DEPTH)
}

/// The same for a name that is looked for as a shell does.
pub unsafe fn is_ours_in_path(name: *const c_char) -> bool {
    let bytes = CStr::from_ptr(name).to_bytes();
    if bytes.contains(&b'/') {
        return is_ours(libc::AT_FDCWD, name);
    }
    let path = libc::getenv(c"PATH".as_ptr());
    let path = if path.is_null() { &b"/bin:/usr/bin"[..] } else { CStr::from_ptr(path).to_bytes() };
    for folder in path.split(|byte| *byte == b':') {
        let mut room = [0_u8; PATH];
        let folder = if folder.is_empty() { b"." } else { folder };
        let end = folder.len() + 1 + bytes.len();
        if end >= PATH {
            continue;
        }
        room[..folder.len()].copy_from_slice(folder);
        room[folder.len()] = b'/';
        room[folder.len() + 1..end].copy_from_slice(bytes);
        if let Ok(file) = File::open(libc::AT_FDCWD, room.as_ptr().cast()) {
            return loads(&file, DEPTH);
        }
    }
    // There is none.
    true
}
