//! Where `libm3sock.so` lies.

use crate::fail::{Fail, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

const NAME: &str = "libm3sock.so";
/// Says where it lies, in place of the search.
const VARIABLE: &str = "M3_SOCK_LIBRARY";
/// Debian's folder for libraries.
#[cfg(target_arch = "x86_64")]
const MULTIARCH: &str = "../lib/x86_64-linux-gnu/m3ipc";
#[cfg(not(target_arch = "x86_64"))]
const MULTIARCH: &str = "../lib/aarch64-linux-gnu/m3ipc";
/// From the folder of this program.
const PLACES: [&str; 4] = ["", "../lib/m3ipc", "../lib64/m3ipc", MULTIARCH];

/// The library.
pub fn find() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE).filter(|named| !named.is_empty()) {
        return fit(Path::new(&named)).ok_or_else(|| {
            Fail::plain(format!(
                "{VARIABLE} names {}, which is no file that a preload can name",
                Path::new(&named).display()
            ))
        });
    }
    let program = std::env::current_exe()
        .map_err(|cause| Fail::system("cannot tell where m3 lies", cause))?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    PLACES.iter().find_map(|place| fit(&folder.join(place).join(NAME))).ok_or_else(|| {
        Fail::plain(format!("{NAME} is neither beside {} nor in lib/m3ipc", program.display())).next(format!(
            "build it with `cargo build --release`, install it with `make install`, or name it in {VARIABLE}"
        ))
    })
}

/// A whole path; the loader takes colons and spaces for ends of names.
fn fit(path: &Path) -> Option<PathBuf> {
    let path = path.canonicalize().ok()?;
    let text = path.to_str()?;
    (path.is_file() && !text.contains([':', ' ', '\t', '\n'])).then_some(path)
}

/// The libraries that were to be loaded, and then ours.
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
    fn libraries_of_others_stay_first() {
        assert_eq!(appended(None, Path::new("/a/b.so")), "/a/b.so");
        assert_eq!(appended(Some("/x.so".into()), Path::new("/a/b.so")), "/x.so:/a/b.so");
        assert_eq!(appended(Some("".into()), Path::new("/b.so")), "/b.so");
    }
}
