//! The path of `libm3sock.so`.

use crate::error::{CliError, Result};
use m3ipc::runtime::check_program;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

const NAME: &str = "libm3sock.so";
/// The variable that names the file, in place of the search.
pub const VARIABLE: &str = "M3_SOCK_LIBRARY";
/// Debian's directory for libraries.
#[cfg(target_arch = "x86_64")]
const MULTIARCH: &str = "../lib/x86_64-linux-gnu/m3ipc";
#[cfg(not(target_arch = "x86_64"))]
const MULTIARCH: &str = "../lib/aarch64-linux-gnu/m3ipc";
/// Directories of the search, relative to the directory of this program.
const SEARCH_PATHS: [&str; 4] = ["", "../lib/m3ipc", "../lib64/m3ipc", MULTIARCH];

/// Finds the library.
pub fn find() -> Result<PathBuf> {
    if let Some(named) = m3ipc_sys::variable(VARIABLE) {
        return preloadable(Path::new(&named)).ok_or_else(|| {
            CliError::failure(format!(
                "{VARIABLE} names {}, which is absent or has a space or a colon in its path",
                Path::new(&named).display()
            ))
            .advice("name an existing file that LD_PRELOAD can name")
        });
    }
    let program = std::env::current_exe()
        .map_err(|cause| CliError::system("cannot find the program m3", cause))?;
    let directory = program.parent().unwrap_or(Path::new("/"));
    let candidates = SEARCH_PATHS.iter().map(|path| directory.join(path).join(NAME));
    let mut reasons = String::new();
    for path in candidates.filter_map(|path| preloadable(&path)) {
        match check_program(&path) {
            Ok(()) => return Ok(path),
            Err(reason) => reasons.push_str(&format!("; {} {reason}", path.display())),
        }
    }
    let what = format!(
        "neither beside {} nor in ../lib/m3ipc is a {NAME} that no other user can replace{reasons}",
        program.display()
    );
    Err(CliError::failure(what).advice(format!(
        "build it with `cargo build --release`, install it with `make install`, or name the file \
         in {VARIABLE}"
    )))
}

/// The absolute path of a file that LD_PRELOAD can name: spaces and colons separate names.
fn preloadable(path: &Path) -> Option<PathBuf> {
    let path = path.canonicalize().ok()?;
    let text = path.to_str()?;
    (path.is_file() && !text.contains([':', ' ', '\t', '\n'])).then_some(path)
}

/// The value of LD_PRELOAD: the earlier libraries, then this library.
pub fn appended(before: Option<OsString>, library: &Path) -> OsString {
    let mut list = before.filter(|list| !list.is_empty()).unwrap_or_default();
    if !list.is_empty() {
        list.push(":");
    }
    list.push(library);
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_libraries_stay_first() {
        assert_eq!(appended(None, Path::new("/a/b.so")), "/a/b.so");
        assert_eq!(appended(Some("/x.so".into()), Path::new("/a/b.so")), "/x.so:/a/b.so");
        assert_eq!(appended(Some("".into()), Path::new("/b.so")), "/b.so");
    }
}
