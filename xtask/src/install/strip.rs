//! Separates debug information from programs: a small file to run, and a `.debug` file beside.
//!
//! The small file names the other (`.gnu_debuglink`), and debuggers find it below `lib/debug`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::Error;

/// The two files that a program becomes.
pub struct Separated {
    pub program: Vec<u8>,
    /// Nothing where the file is a script, which has no debug information.
    pub debug: Option<Vec<u8>>,
}

/// Separates a program or a shared library.
///
/// # Errors
/// Where the file cannot be read, or objcopy is missing or fails.
pub fn separate(objcopy: &str, from: &Path) -> Result<Separated, Error> {
    let content = fs::read(from).map_err(|e| Error::read(from, e))?;
    if !content.starts_with(b"\x7fELF") {
        return Ok(Separated { program: content, debug: None });
    }
    let folder = OwnFolder::beside(from)?;
    let debug = folder.path_of(from, "debug");
    let program = folder.path_of(from, "stripped");
    copy(objcopy, &["--only-keep-debug", "--compress-debug-sections"], from, &debug)?;
    // The link holds a checksum of the debug file, so that file must exist before.
    let link = format!("--add-gnu-debuglink={}", debug.display());
    copy(objcopy, &["--strip-all", &link], from, &program)?;
    let read = |path: &PathBuf| fs::read(path).map_err(|e| Error::read(path, e));
    Ok(Separated { program: read(&program)?, debug: Some(read(&debug)?) })
}

/// A static library without debug information.
///
/// # Errors
/// Where objcopy is missing or fails, or its output cannot be read.
pub fn archive(objcopy: &str, from: &Path) -> Result<Vec<u8>, Error> {
    let content = fs::read(from).map_err(|e| Error::read(from, e))?;
    if !content.starts_with(b"!<arch>") {
        return Ok(content);
    }
    let folder = OwnFolder::beside(from)?;
    let stripped = folder.path_of(from, "stripped");
    copy(objcopy, &["--strip-debug"], from, &stripped)?;
    fs::read(&stripped).map_err(|e| Error::read(&stripped, e))
}

/// A folder of its own, until it is dropped: two installs may run at once.
struct OwnFolder(PathBuf);

impl OwnFolder {
    fn beside(file: &Path) -> Result<Self, Error> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let folder = file.with_file_name(format!("separated.{}.{serial}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|e| Error::write(&folder, e))?;
        Ok(Self(folder))
    }

    /// The name of a file with an ending added: `name.debug`.
    fn path_of(&self, file: &Path, ending: &str) -> PathBuf {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        self.0.join(format!("{name}.{ending}"))
    }
}

impl Drop for OwnFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn copy(objcopy: &str, options: &[&str], from: &Path, to: &Path) -> Result<(), Error> {
    let status =
        Command::new(objcopy).args(options).arg(from).arg(to).status().map_err(|source| {
            Error::Start { program: format!("{objcopy} (of binutils)"), source }
        })?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Failed {
        command: format!("{objcopy} {} {}", options.join(" "), from.display()),
        status,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_smaller_and_names_its_debug_file() {
        let folder = std::env::temp_dir().join(format!("m3-xtask-strip-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the temporary folder can be made");
        let program = folder.join("test");
        // This test's own program has debug information.
        fs::copy(std::env::current_exe().expect("a test has a path"), &program).expect("a copy");
        let whole = fs::metadata(&program).expect("it was copied").len();
        let Ok(separated) = separate("objcopy", &program) else {
            println!("SKIP debug information: objcopy is not installed");
            return;
        };
        assert!((separated.program.len() as u64) < whole);
        let debug = separated.debug.expect("an ELF file has a debug file");
        assert!(debug.starts_with(b"\x7fELF"));
        let link = b"test.debug\0";
        assert!(separated.program.windows(link.len()).any(|window| window == link));
        // Several at once, as installs of one build are.
        std::thread::scope(|scope| {
            let separates =
                || separate("objcopy", &program).map(|it| it.program).expect("as before");
            let several = [(); 6].map(|()| scope.spawn(separates));
            for other in several {
                assert!(other.join().expect("no panic") == separated.program);
            }
        });
        assert_eq!(fs::read_dir(&folder).expect("it is there").count(), 1, "files are left");
        let _ = fs::remove_dir_all(&folder);
    }

    #[test]
    fn a_script_stays_as_it_is() {
        let path = std::env::temp_dir().join(format!("m3-xtask-script-{}", std::process::id()));
        fs::write(&path, "#!/bin/sh\n").expect("it can be written");
        let separated = separate("objcopy", &path).expect("a script needs no tool");
        assert!(separated.program == b"#!/bin/sh\n" && separated.debug.is_none());
        let _ = fs::remove_file(&path);
    }
}
