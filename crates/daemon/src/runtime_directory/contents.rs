//! The contents of a runtime directory that daemons make, and no others.

use super::error::{RuntimeDirectoryError, failed};
use crate::journal;
use crate::log;
use std::fs::FileType;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

pub(super) const LOCK: &str = "lock";
pub(super) const JOURNAL: &str = "journal";
pub(super) const PROXY_SOCKET: &str = "proxy.sock";
/// The log of a proxy in the background, which makes it.
pub(super) const PROXY_LOG: &str = "proxy.log";
pub(super) const PROXY_LOG_FORMER: &str = "proxy.log.old";
pub(super) const DOORBELLS: &str = "doorbells";
pub(super) const SOCKETS: &str = "sockets";

/// The names in an error.
const NAMES_MAX: usize = 4;
/// Bytes of a lock at most: a process number.
const LOCK_MAX_BYTES: u64 = 16;

/// The kind of an entry that daemons make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryKind {
    Plain,
    Socket,
    /// A directory of sockets, and of empty files that reserve domains.
    Folder,
}

/// The entries of a runtime directory. A `.new` one gets its own name when it is complete.
const ENTRIES: [(&str, EntryKind); 13] = [
    (LOCK, EntryKind::Plain),
    (JOURNAL, EntryKind::Plain),
    ("journal.new", EntryKind::Plain),
    ("journal.damaged", EntryKind::Plain),
    (log::FILE_NAME, EntryKind::Plain),
    (log::FORMER_FILE_NAME, EntryKind::Plain),
    (m3ipc_wire::SOCKET_NAME, EntryKind::Socket),
    ("m3d.sock.new", EntryKind::Socket),
    (PROXY_SOCKET, EntryKind::Socket),
    (PROXY_LOG, EntryKind::Plain),
    (PROXY_LOG_FORMER, EntryKind::Plain),
    (DOORBELLS, EntryKind::Folder),
    (SOCKETS, EntryKind::Folder),
];

/// Checks that a directory holds nothing but entries of daemons. A directory without their lock may
/// be anybody's: a journal counts there by its title alone.
pub(super) fn check(directory: &Path) -> Result<(), RuntimeDirectoryError> {
    let mut foreign = foreign_entries(directory).map_err(failed("read", directory))?;
    if foreign.is_empty() {
        return Ok(());
    }
    foreign.sort();
    let more = foreign.len().saturating_sub(NAMES_MAX);
    foreign.truncate(NAMES_MAX);
    let mut names = foreign.join(", ");
    if more > 0 {
        names = format!("{names} and {more} more");
    }
    Err(RuntimeDirectoryError::Foreign { path: directory.to_owned(), names })
}

fn foreign_entries(directory: &Path) -> std::io::Result<Vec<String>> {
    let has_lock = is_lock(&directory.join(LOCK));
    let mut foreign = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let path = entry.path();
        let is_ours = match known(&name.to_string_lossy(), &path) {
            None => false,
            Some(_) if name == LOCK => has_lock,
            Some(_) if name == JOURNAL => has_lock || journal::has_title(&path),
            Some(EntryKind::Plain | EntryKind::Socket) => true,
            Some(EntryKind::Folder) => {
                for inner in present(std::fs::read_dir(&path))?.into_iter().flatten() {
                    let inner = inner?;
                    if !is_of_folder(&inner.file_name().to_string_lossy(), inner.file_type()?) {
                        foreign.push(format!("{:?}", Path::new(&name).join(inner.file_name())));
                    }
                }
                true
            }
        };
        if !is_ours {
            foreign.push(format!("{name:?}"));
        }
    }
    Ok(foreign)
}

/// The kind of an entry, if it has a name and the type of daemons, or has gone since.
fn known(name: &str, path: &Path) -> Option<EntryKind> {
    let (_, kind) = ENTRIES.iter().find(|(known, _)| *known == name)?;
    let Ok(found) = present(std::fs::symlink_metadata(path)) else { return None };
    let fits = found.is_none_or(|meta| match kind {
        EntryKind::Plain => meta.is_file(),
        EntryKind::Socket => meta.file_type().is_socket(),
        EntryKind::Folder => meta.is_dir(),
    });
    fits.then_some(*kind)
}

/// `None` for an object that has gone.
fn present<T>(result: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(cause),
    }
}

/// Whether an entry of a folder is a doorbell, a datagram socket or a domain: `VM.ADDRESS`,
/// `VM.DOMAIN.PORT`, `from.DOMAIN.PORT.ROUTE`, `domain.VM.DOMAIN.USER`.
fn is_of_folder(name: &str, kind: FileType) -> bool {
    let domain = name.strip_prefix("domain.");
    let numbers = domain.or(name.strip_prefix("from.")).unwrap_or(name);
    let is_number = |part: &str| part.parse::<i128>().is_ok();
    let has_type = if domain.is_some() { kind.is_file() } else { kind.is_socket() };
    has_type && numbers.split('.').all(is_number)
}

/// Whether this is the lock of a daemon: a plain file with a process number, or empty. A lock that
/// has gone, or that another user made, is one as far as this directory goes.
fn is_lock(path: &Path) -> bool {
    // The open of another kind of file may wait for ever.
    if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        return false;
    }
    let Ok(file) = std::fs::File::open(path) else { return path.symlink_metadata().is_ok() };
    let mut text = String::new();
    let read = file.take(LOCK_MAX_BYTES).read_to_string(&mut text);
    read.is_ok() && text.trim().bytes().all(|byte| byte.is_ascii_digit())
}

/// Removes the entries of daemons that `is_removed` names, and what daemons put into its folders.
pub(super) fn remove(directory: &Path, is_removed: impl Fn(&str) -> bool) {
    for (name, kind) in ENTRIES.iter().filter(|(name, _)| is_removed(name)) {
        let path = directory.join(name);
        if known(name, &path) != Some(*kind) {
            continue;
        }
        if *kind != EntryKind::Folder {
            let _ = std::fs::remove_file(&path);
            continue;
        }
        for inner in std::fs::read_dir(&path).into_iter().flatten().flatten() {
            let kind = inner.file_type();
            if kind.is_ok_and(|it| is_of_folder(&inner.file_name().to_string_lossy(), it)) {
                let _ = std::fs::remove_file(inner.path());
            }
        }
        // It stays, if anybody else put something into it.
        let _ = std::fs::remove_dir(&path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    fn folder(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("m3-dir-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        path
    }

    fn why(directory: &Path) -> String {
        check(directory).map_err(|error| error.to_string()).err().unwrap_or_default()
    }

    #[test]
    fn a_directory_with_entries_of_others_is_refused_by_their_names() {
        let path = folder("foreign");
        assert_eq!(why(&path), "", "empty");
        for (name, text) in [("thesis.txt", "words"), ("journal", "dear diary"), ("lock", "keys")] {
            std::fs::write(path.join(name), text).unwrap();
            assert!(why(&path).contains(&format!("holds \"{name}\"")), "{}", why(&path));
            std::fs::remove_file(path.join(name)).unwrap();
        }
        std::fs::create_dir(path.join("sockets")).unwrap();
        std::fs::write(path.join("sockets/photo.jpg"), "").unwrap();
        assert!(why(&path).contains("sockets/photo.jpg"), "{}", why(&path));
        std::fs::create_dir(path.join("proxy.sock")).unwrap();
        assert!(why(&path).contains("proxy.sock"), "another type: {}", why(&path));
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn the_files_of_daemons_go_and_others_stay() {
        let path = folder("own");
        for name in ["doorbells", "sockets"] {
            std::fs::create_dir(path.join(name)).unwrap();
        }
        for name in ["lock", "journal", "journal.damaged", "m3d.log", "sockets/domain.0.1.65301"] {
            std::fs::write(path.join(name), if name == "lock" { "17\n" } else { "" }).unwrap();
        }
        let sockets =
            ["m3d.sock", "proxy.sock", "doorbells/0.-35", "sockets/0.1.80", "sockets/from.1.80.7"];
        for name in sockets {
            drop(UnixListener::bind(path.join(name)).unwrap());
        }
        assert_eq!(why(&path), "");
        // Somebody put these there while the daemon ran.
        std::fs::write(path.join("thesis.txt"), "words").unwrap();
        std::fs::write(path.join("doorbells/mine"), "words").unwrap();
        remove(&path, |name| name != LOCK);
        let mut left: Vec<_> = std::fs::read_dir(&path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["doorbells", "lock", "thesis.txt"]);
        assert!(path.join("doorbells/mine").exists() && !path.join("doorbells/0.-35").exists());
        std::fs::remove_dir_all(&path).unwrap();
    }
}
