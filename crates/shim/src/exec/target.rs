//! The program that an exec starts: whether the policy names it for this library, and its loader
//! loads the library.

use crate::kernel::file::{self, File};
use crate::kernel::{Errno, apart};
use crate::process::policy;
use core::ffi::CStr;
use std::io::Write;
use std::os::fd::RawFd;

/// Scripts that name scripts, as deep as the kernel follows them.
const DEPTH_MAX: u32 = 5;
/// Program headers that are read.
const HEADERS_MAX: usize = 64;
/// Bytes of a program header of 64-bit ELF.
const HEADER_BYTES: usize = 56;
/// Bytes of the beginning of a file that are read.
const HEAD_BYTES: usize = 256;
/// Bytes of the longest path.
const PATH_BYTES: usize = 4096;
/// `PT_INTERP`
const INTERPRETER: u32 = 3;
/// `EM_X86_64` or `EM_AARCH64`
const MACHINE: u16 = if cfg!(target_arch = "x86_64") { 62 } else { 183 };

fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

/// The start of a program file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind<'a> {
    /// A script with this interpreter.
    Script(&'a [u8]),
    /// A binary of this machine: the offset and the number of its program headers.
    Binary(u64, u16),
    /// Anything else.
    Other,
}

fn kind(head: &[u8]) -> Kind<'_> {
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or(line);
        let mut words = line.split(|byte| matches!(byte, b' ' | b'\t'));
        return words.find(|word| !word.is_empty()).map_or(Kind::Other, Kind::Script);
    }
    // 64 bits, little end first.
    let is_ours =
        head.starts_with(b"\x7fELF\x02\x01") && u16::from_le_bytes(bytes_at(head, 18)) == MACHINE;
    if !is_ours {
        return Kind::Other;
    }
    let offset = u64::from_le_bytes(bytes_at(head, 32));
    Kind::Binary(offset, u16::from_le_bytes(bytes_at(head, 56)))
}

/// The offset of the interpreter's name, by the first program header that has one.
fn interpreter(headers: &[u8], count: u16) -> Option<u64> {
    let mut headers = headers.chunks_exact(HEADER_BYTES).take(usize::from(count));
    let header = headers.find(|header| u32::from_le_bytes(bytes_at(header, 0)) == INTERPRETER)?;
    Some(u64::from_le_bytes(bytes_at(header, 8)))
}

/// Whether a loader of this name takes our library: another C library's would refuse or misuse it.
fn is_glibc(loader: &[u8]) -> bool {
    let name = loader.split(|byte| *byte == 0).next().unwrap_or(loader);
    !name.windows(4).any(|part| part == b"musl")
}

fn read_at(fd: RawFd, bytes: &mut [u8], offset: u64) -> usize {
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    file::read_at(fd, bytes, offset).unwrap_or(0)
}

/// Whether the policy names a program by the name of its file, behind all links.
fn is_named(fd: RawFd) -> bool {
    let (mut link, mut room) = ([0_u8; 40], [0_u8; PATH_BYTES]);
    let written = write!(&mut link[..39], "/proc/thread-self/fd/{fd}");
    let Ok(link) = CStr::from_bytes_until_nul(&link) else { return false };
    let length = file::read_link(link, &mut room).unwrap_or(0);
    let name = room[..length].rsplit(|byte| *byte == b'/').next().unwrap_or(&[]);
    written.is_ok() && policy::loads_into(name)
}

/// Whether the loader of this file loads the library, and the policy names its program.
fn loads(fd: RawFd, depth: u32, is_named: fn(RawFd) -> bool) -> bool {
    let mut head = [0_u8; HEAD_BYTES];
    let length = read_at(fd, &mut head, 0);
    if depth == 0 {
        return false;
    }
    match kind(&head[..length]) {
        Kind::Other => false,
        Kind::Script(path) => {
            let mut name = [0_u8; HEAD_BYTES];
            name[..path.len()].copy_from_slice(path);
            let Ok(name) = CStr::from_bytes_until_nul(&name) else { return false };
            let opened = || File::open_at(libc::AT_FDCWD, name);
            let loads = || opened().is_ok_and(|file| loads(file.fd(), depth - 1, is_named));
            apart::run(loads).unwrap_or(false)
        }
        // A privileged program takes no library of its caller.
        Kind::Binary(..) if file::has_privileges(fd) || !is_named(fd) => false,
        Kind::Binary(offset, count) => {
            let mut headers = [0_u8; HEADERS_MAX * HEADER_BYTES];
            let read = read_at(fd, &mut headers, offset);
            let Some(name) = interpreter(&headers[..read], count) else { return false };
            let mut loader = [0_u8; 128];
            let length = read_at(fd, &mut loader, name);
            is_glibc(&loader[..length])
        }
    }
}

/// Whether the program at a path loads the library. A program that cannot be read does not. Where
/// there is no file, the exec fails (a search for a program tries many names), and no socket has to
/// be given up.
#[must_use]
pub fn loads_path(directory: RawFd, path: &CStr) -> bool {
    // A directory of the program is in its table alone.
    if directory != libc::AT_FDCWD && path.to_bytes().first() != Some(&b'/') {
        return loads_opened(File::open_at(directory, path));
    }
    apart::run(|| loads_opened(File::open_at(libc::AT_FDCWD, path))).unwrap_or(false)
}

fn loads_opened(opened: Result<File, Errno>) -> bool {
    match opened {
        Ok(file) => loads(file.fd(), DEPTH_MAX, is_named),
        Err(errno) => matches!(
            errno,
            libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG | libc::ELOOP | libc::EFAULT
        ),
    }
}

/// Whether the program of a descriptor loads the library.
#[must_use]
pub fn loads_fd(fd: RawFd) -> bool {
    loads(fd, DEPTH_MAX, is_named)
}

/// Whether the program of this name loads the library; `search` is the value of `PATH`.
#[must_use]
pub fn loads_name(name: &CStr, search: Option<&[u8]>) -> bool {
    let bytes = name.to_bytes();
    if bytes.contains(&b'/') {
        return loads_path(libc::AT_FDCWD, name);
    }
    apart::run(|| loads_found(bytes, search)).unwrap_or(false)
}

fn loads_found(name: &[u8], search: Option<&[u8]>) -> bool {
    for directory in search.unwrap_or(b"/bin:/usr/bin").split(|byte| *byte == b':') {
        let mut path = [0_u8; PATH_BYTES];
        let directory = if directory.is_empty() { b"." } else { directory };
        let Some(path) = join(directory, name, &mut path) else { continue };
        if let Ok(file) = File::open_at(libc::AT_FDCWD, path) {
            return loads(file.fd(), DEPTH_MAX, is_named);
        }
    }
    // There is no such program.
    true
}

fn join<'a>(directory: &[u8], name: &[u8], path: &'a mut [u8]) -> Option<&'a CStr> {
    let end = directory.len() + 1 + name.len();
    if end >= path.len() {
        return None;
    }
    path[..directory.len()].copy_from_slice(directory);
    path[directory.len()] = b'/';
    path[directory.len() + 1..end].copy_from_slice(name);
    CStr::from_bytes_until_nul(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_names_its_interpreter() {
        assert_eq!(kind(b"#! /bin/sh -e\nexit"), Kind::Script(b"/bin/sh"));
        assert_eq!(kind(b"#!\n"), Kind::Other);
        assert_eq!(kind(b"MZ"), Kind::Other);
    }

    #[test]
    fn a_binary_of_another_machine_is_another_kind() {
        let mut head = [0_u8; 64];
        head[..6].copy_from_slice(b"\x7fELF\x02\x01");
        head[18..20].copy_from_slice(&MACHINE.to_le_bytes());
        head[32] = 64;
        head[56] = 3;
        assert_eq!(kind(&head), Kind::Binary(64, 3));
        head[18] ^= 1;
        assert_eq!(kind(&head), Kind::Other);
    }

    #[test]
    fn the_interpreter_is_found_among_the_first_headers() {
        let mut headers = [0_u8; 3 * HEADER_BYTES];
        headers[2 * HEADER_BYTES] = 3;
        headers[2 * HEADER_BYTES + 8] = 77;
        assert_eq!((interpreter(&headers, 3), interpreter(&headers, 2)), (Some(77), None));
        assert!(is_glibc(b"/lib64/ld-linux-x86-64.so.2\0"));
        assert!(!is_glibc(b"/lib/ld-musl-x86_64.so.1\0"));
    }

    #[test]
    fn this_program_loads_the_library_and_a_missing_one_costs_nothing() {
        let loads = |path: &CStr| loads(File::open(path).unwrap().fd(), DEPTH_MAX, |_fd| true);
        assert!(loads(c"/proc/self/exe") && loads(c"/bin/sh") && !loads(c"/etc/passwd"));
        assert!(!loads_path(libc::AT_FDCWD, c"/proc/self/exe"), "the policy names no program");
        assert!(loads_path(libc::AT_FDCWD, c"/no/such/file"));
        assert!(!loads_name(c"sh", None) && loads_name(c"no-such-program", Some(b":/bin")));
        let mut path = [0; 8];
        assert_eq!(join(b"/bin", b"sh", &mut path), Some(c"/bin/sh"));
        assert_eq!(join(b"/bin", b"ash", &mut path), None);
    }
}
