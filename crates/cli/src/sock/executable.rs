//! Executables, and whether the loader can preload a library into them.

use crate::error::{CliError, Result};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Whether a program can be started with the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreloadSupport {
    /// The loader preloads the library.
    Supported,
    /// The loader does not, for this reason.
    Unsupported(String),
}

/// The deepest chain of scripts that name scripts, as in the kernel.
const SCRIPT_DEPTH_MAX: u32 = 5;
/// PT_INTERP, elf(5).
const INTERPRETER: u32 = 3;
/// Sizes of the header of a 64-bit ELF file and of a program header.
const FILE_HEADER_BYTES: usize = 64;
const PROGRAM_HEADER_BYTES: usize = 56;

/// The file of a program, found as a shell finds it.
pub fn find(name: &OsStr) -> Result<PathBuf> {
    let missing = |why: &str| {
        CliError::failure(format!("there is no program {}{why}", name.display()))
            .advice("install the program, or correct its name")
    };
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return if path.is_file() { Ok(path) } else { Err(missing("")) };
    }
    let directories = m3ipc_sys::variable("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    std::env::split_paths(&directories)
        .map(|directory| directory.join(name))
        .find(|path| {
            path.metadata()
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        })
        .ok_or_else(|| missing(" in PATH"))
}

/// Reads the headers of a program.
pub fn inspect(path: &Path) -> Result<PreloadSupport> {
    inspect_file(path, SCRIPT_DEPTH_MAX).map_err(|cause| {
        CliError::system(format!("cannot read {}", path.display()), cause)
            .advice("check the permissions of the program")
    })
}

/// The interpreter in the first line of a script.
fn interpreter(head: &[u8]) -> Option<&Path> {
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let word = line.split(u8::is_ascii_whitespace).find(|word| !word.is_empty())?;
    Some(Path::new(OsStr::from_bytes(word)))
}

/// The program that `env` would start for a script with the first line `#!/usr/bin/env NAME`.
pub fn started_by_env(path: &Path) -> Option<OsString> {
    let mut head = [0; 256];
    let read = File::open(path).and_then(|file| file.read_at(&mut head, 0)).ok()?;
    let head = &head[..read];
    if interpreter(head)?.file_name()? != "env" {
        return None;
    }
    let line = head.split(|byte| *byte == b'\n').next()?;
    let mut words = line[2..].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let (_env, name, rest) = (words.next(), words.next()?, words.next());
    // Options and variables are left to env.
    let is_plain = !name.starts_with(b"-") && !name.contains(&b'=') && rest.is_none();
    is_plain.then(|| OsStr::from_bytes(name).to_owned())
}

/// The file that the kernel runs: of a script its interpreter.
pub fn binary_of(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..SCRIPT_DEPTH_MAX {
        let mut head = [0; 256];
        let read = File::open(&path).and_then(|file| file.read_at(&mut head, 0));
        match interpreter(&head[..read.unwrap_or(0)]) {
            Some(next) => path = next.to_owned(),
            None => break,
        }
    }
    path
}

fn inspect_file(path: &Path, depth: u32) -> std::io::Result<PreloadSupport> {
    let unsupported = |why: &str| Ok(PreloadSupport::Unsupported(why.to_owned()));
    let file = match File::open(path) {
        // A program may be executable and unreadable.
        Err(cause) if cause.kind() == std::io::ErrorKind::PermissionDenied => {
            return unsupported("its file cannot be read, so its kind is unknown");
        }
        other => other?,
    };
    let mut head = [0; 256];
    let length = file.read_at(&mut head, 0)?;
    let head = &head[..length];
    if head.starts_with(b"#!") {
        return match interpreter(head) {
            Some(next) if depth > 0 => inspect_file(next, depth - 1),
            _ => unsupported("it is a script without an interpreter"),
        };
    }
    if !head.starts_with(b"\x7fELF") {
        return unsupported("it is neither an ELF file nor a script that names its interpreter");
    }
    if gains_privileges(&file.metadata()?, path) {
        return unsupported(
            "it gains privileges when it starts, so the loader ignores libraries of the caller",
        );
    }
    // EM_X86_64 or EM_AARCH64, elf(5).
    let machine = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
    if head.get(4..6) != Some(&[2, 1]) || word16(head, 18) != machine {
        return unsupported("it is built for another machine than the library");
    }
    match loader(&file, head)? {
        None => unsupported("it is linked statically, so it loads no library"),
        Some(loader) if loader.windows(4).any(|part| part == b"musl") => {
            unsupported("its C library is musl, not glibc")
        }
        Some(_) => Ok(PreloadSupport::Supported),
    }
}

/// Whether the kernel gives the program privileges beyond its caller's.
fn gains_privileges(meta: &Metadata, path: &Path) -> bool {
    let mut value = [0_u8; 64];
    meta.permissions().mode() & 0o6000 != 0
        || rustix::fs::getxattr(path, "security.capability", &mut value).is_ok()
}

/// The name of the loader in an ELF file; `None` in a statically linked file.
fn loader(file: &File, head: &[u8]) -> std::io::Result<Option<Vec<u8>>> {
    if head.len() < FILE_HEADER_BYTES {
        return Ok(None);
    }
    let (offset, count) = (word64(head, 32), usize::from(word16(head, 56)));
    let mut headers = vec![0; count.min(128) * PROGRAM_HEADER_BYTES];
    let read = file.read_at(&mut headers, offset)?;
    for header in headers[..read].chunks_exact(PROGRAM_HEADER_BYTES) {
        if u32::from(word16(header, 0)) == INTERPRETER && word16(header, 2) == 0 {
            let mut name = vec![0; 256];
            let length = file.read_at(&mut name, word64(header, 8))?;
            name.truncate(name[..length].iter().position(|byte| *byte == 0).unwrap_or(length));
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn word16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|part| part.try_into().ok()).map_or(0, u16::from_le_bytes)
}

fn word64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|part| part.try_into().ok()).map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_is_supported_and_other_files_are_not() {
        assert_eq!(inspect(&std::env::current_exe().unwrap()).unwrap(), PreloadSupport::Supported);
        let directory = std::env::temp_dir().join(format!("m3-target-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let text = directory.join("text");
        for (content, word) in [
            (&b"hello"[..], "neither"),
            (b"#!\n", "interpreter"),
            (b"\x7fELF\x01\x01", "another machine"),
        ] {
            std::fs::write(&text, content).unwrap();
            let PreloadSupport::Unsupported(why) = inspect(&text).unwrap() else {
                panic!("{content:?} is supported")
            };
            assert!(why.contains(word), "{why}");
        }
        std::fs::write(&text, format!("#!{} x\n", std::env::current_exe().unwrap().display()))
            .unwrap();
        assert_eq!(inspect(&text).unwrap(), PreloadSupport::Supported);
        assert_eq!(binary_of(&text), std::env::current_exe().unwrap());
        for (line, name) in [
            ("#!/usr/bin/env python3\n", Some("python3")),
            ("#! /usr/bin/env\tsh\nexit", Some("sh")),
            ("#!/usr/bin/env -S sh -e\n", None),
            ("#!/usr/bin/env A=b sh\n", None),
            ("#!/bin/sh x\n", None),
            ("sh", None),
        ] {
            std::fs::write(&text, line).unwrap();
            assert_eq!(started_by_env(&text).as_deref(), name.map(OsStr::new), "{line}");
        }
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(find(OsStr::new("no-such-program-anywhere")).is_err());
    }
}
