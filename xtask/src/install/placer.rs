//! Writes each file under a temporary name beside its path, then renames it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// For programs and libraries.
pub const PROGRAM: u32 = 0o755;
/// For everything else.
pub const TEXT: u32 = 0o644;

/// Writes below one folder, and counts.
pub struct Placer {
    root: PathBuf,
    count: usize,
}

impl Placer {
    /// Everything goes below `root`.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), count: 0 }
    }

    /// How many files and links were placed.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Writes a file with this content to an absolute path, which is relative to the root.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn file(&mut self, to: &Path, content: &[u8], mode: u32) -> Result<(), Error> {
        self.put(to, |beside| {
            fs::write(beside, content)?;
            fs::set_permissions(beside, Permissions::from_mode(mode))
        })
    }

    /// Makes a symbolic link that says `text`.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn link(&mut self, to: &Path, text: &str) -> Result<(), Error> {
        self.put(to, |beside| symlink(text, beside))
    }

    fn put(
        &mut self,
        to: &Path,
        make: impl FnOnce(&Path) -> std::io::Result<()>,
    ) -> Result<(), Error> {
        let path = self.root.join(relative(to));
        let folder = path.parent().unwrap_or(&self.root);
        make_folders(folder).map_err(|e| Error::write(folder, e))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let beside = path.with_file_name(format!(".{name}.new"));
        match fs::remove_file(&beside) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::write(&beside, e));
            }
            _ => {}
        }
        make(&beside)
            .and_then(|()| fs::rename(&beside, &path))
            .map_err(|e| Error::write(&path, e))?;
        println!("  {}", path.display());
        self.count += 1;
        Ok(())
    }
}

/// Makes the absent folders of a path. Everybody may read them, whatever the mask of the installer.
fn make_folders(path: &Path) -> std::io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(above) = path.parent() {
        make_folders(above)?;
    }
    match fs::create_dir(path) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        made => made.and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o755))),
    }
}

/// A path without its leading `/`, to be put below another.
pub fn relative(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const ROOT: &str = "M3_TEST_ROOT";

    #[test]
    fn folders_are_readable_under_any_mask() {
        // The mask is that of a whole process.
        if let Some(root) = std::env::var_os(ROOT) {
            Placer::new(Path::new(&root)).file(Path::new("/usr/lib/one"), b"", TEXT).unwrap();
            return;
        }
        let root = std::env::temp_dir().join(format!("m3-placer-{}", std::process::id()));
        let name = "install::placer::tests::folders_are_readable_under_any_mask";
        let mut child = Command::new("sh");
        child.args(["-c", "umask 077; exec \"$@\"", "sh"]).arg(std::env::current_exe().unwrap());
        assert!(child.args(["--exact", name]).env(ROOT, &root).output().unwrap().status.success());
        for path in ["usr", "usr/lib"] {
            let mode = fs::metadata(root.join(path)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o755, "{path}");
        }
        fs::remove_dir_all(&root).unwrap();
    }
}
