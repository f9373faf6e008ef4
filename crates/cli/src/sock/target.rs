//! What a program is: whether a library can be put in front of its C library.

use crate::fail::{Fail, Result};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Whether a program can have the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It can.
    Ours,
    /// It cannot, for this reason.
    Not(String),
}

/// Scripts that name scripts: as deep as the kernel goes.
const DEPTH: u32 = 5;
const INTERPRETER: u32 = 3;
/// Sizes of a 64-bit ELF file's header and of each of its program headers.
const HEAD: usize = 64;
const PROGRAM_HEADER: usize = 56;

/// The file that a name stands for, as a shell finds it.
pub fn find(name: &OsStr) -> Result<PathBuf> {
    let missing = |why: &str| {
        Fail::plain(format!("there is no program {}{why}", name.display()))
            .next("is it installed, and spelled so?")
    };
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return if path.is_file() { Ok(path) } else { Err(missing("")) };
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    std::env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|path| {
            path.metadata()
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        })
        .ok_or_else(|| missing(" in PATH"))
}

/// Looks at a program.
pub fn look(path: &Path) -> Result<Fit> {
    look_at(path, DEPTH)
        .map_err(|cause| Fail::system(format!("cannot look at {}", path.display()), cause))
}

fn look_at(path: &Path, depth: u32) -> std::io::Result<Fit> {
    let not = |why: &str| Ok(Fit::Not(why.to_owned()));
    let file = match File::open(path) {
        // It may be run and not be read.
        Err(cause) if cause.kind() == std::io::ErrorKind::PermissionDenied => {
            return not("its file cannot be read, so nobody can tell what it is");
        }
        other => other?,
    };
    let mut head = [0; 256];
    let length = file.read_at(&mut head, 0)?;
    let head = &head[..length];
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or(line);
        let word = line.split(u8::is_ascii_whitespace).find(|word| !word.is_empty());
        return match word {
            Some(word) if depth > 0 => look_at(Path::new(OsStr::from_bytes(word)), depth - 1),
            _ => not("it is a script without an interpreter"),
        };
    }
    if !head.starts_with(b"\x7fELF") {
        return not("it is neither an ELF file nor a script that names its interpreter");
    }
    if privileged(&file.metadata()?, path) {
        return not(
            "it runs with more rights than its caller, and the loader then takes no libraries from the caller",
        );
    }
    let machine = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
    if head.get(4..6) != Some(&[2, 1]) || word16(head, 18) != machine {
        return not("it is made for another kind of machine than this library");
    }
    match loader(&file, head)? {
        None => not("it is linked statically: there is no C library to stand in front of"),
        Some(loader) if loader.windows(4).any(|part| part == b"musl") => {
            not("its C library is musl, not glibc")
        }
        Some(_) => Ok(Fit::Ours),
    }
}

/// Whether the kernel gives it rights beyond its caller's.
fn privileged(meta: &Metadata, path: &Path) -> bool {
    let mut value = [0_u8; 64];
    meta.permissions().mode() & 0o6000 != 0
        || rustix::fs::getxattr(path, "security.capability", &mut value).is_ok()
}

/// The loader that an ELF file names.
fn loader(file: &File, head: &[u8]) -> std::io::Result<Option<Vec<u8>>> {
    if head.len() < HEAD {
        return Ok(None);
    }
    let (offset, count) = (word64(head, 32), usize::from(word16(head, 56)));
    let mut headers = vec![0; count.min(128) * PROGRAM_HEADER];
    let read = file.read_at(&mut headers, offset)?;
    for header in headers[..read].chunks_exact(PROGRAM_HEADER) {
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
    fn this_program_fits_and_what_is_no_program_does_not() {
        assert_eq!(look(&std::env::current_exe().unwrap()).unwrap(), Fit::Ours);
        let folder = std::env::temp_dir().join(format!("m3-target-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let text = folder.join("text");
        for (content, word) in [
            (&b"hello"[..], "neither"),
            (b"#!\n", "interpreter"),
            (b"\x7fELF\x01\x01", "kind of machine"),
        ] {
            std::fs::write(&text, content).unwrap();
            let Fit::Not(why) = look(&text).unwrap() else { panic!("{content:?} fits") };
            assert!(why.contains(word), "{why}");
        }
        std::fs::write(&text, format!("#!{} x\n", std::env::current_exe().unwrap().display()))
            .unwrap();
        assert_eq!(look(&text).unwrap(), Fit::Ours);
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(find(OsStr::new("no-such-program-anywhere")).is_err());
    }
}
