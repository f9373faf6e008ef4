//! The runtime directory: its lock, its socket, and the paths of its files.
//!
//! ```text
//! lock       held while a daemon lives; the kernel releases it at any death
//! m3d.sock   members connect here        doorbells/  doorbell receivers (0700)
//! journal    records for a successor     sockets/    datagram sockets, domains (0700)
//! journal.damaged  what a damaged journal held
//! proxy.sock the state of the proxy of this node, which makes it
//! m3d.log    log of a daemon that runs in the background; m3d.log.old: the lines before
//! ```

use crate::journal::DAMAGED;
use crate::log;
use crate::settings::Settings;
use m3ipc::runtime::{self, DirectoryError};
use m3ipc_sys::Errno;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Why the daemon cannot use the runtime directory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RuntimeDirectoryError {
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error("another daemon (pid {pid}) serves {path}; use it, or end it with `m3 down`")]
    Busy { path: PathBuf, pid: String },
    #[error("cannot {action} {path}: {cause}; check the space and the permissions there")]
    System { action: &'static str, path: PathBuf, cause: std::io::Error },
}

/// The runtime directory of a running daemon.
#[derive(Debug)]
pub(crate) struct RuntimeDirectory {
    pub(crate) path: PathBuf,
    pub(crate) listener: OwnedFd,
    is_ours: bool,
    /// Whether the daemon made the socket. A socket of systemd outlives the daemon.
    socket_is_ours: bool,
    /// Device and inode of the socket.
    socket_id: Option<(u64, u64)>,
    lock: File,
}

impl RuntimeDirectory {
    /// Opens the runtime directory and locks it.
    pub(crate) fn open(settings: &Settings) -> Result<Self, RuntimeDirectoryError> {
        let path = settings.runtime_dir.clone();
        let made = runtime::make(&path, if settings.system { 0o755 } else { 0o700 })?;
        let lock = lock(&path)?;
        // A killed predecessor made the directory for us, too.
        let is_ours = made || path.join("journal").exists();
        runtime::make(&path.join("doorbells"), 0o700)?;
        runtime::make(&path.join("sockets"), 0o700)?;
        let (listener, socket_is_ours) = match m3ipc_sys::inherited_listener() {
            Some(listener) => (listener, false),
            None => (create_listener(&path, settings.system)?, true),
        };
        let socket_id = id_of(&runtime::socket(&path)).unwrap_or_default();
        Ok(Self { path, listener, is_ours, socket_is_ours, socket_id, lock })
    }

    /// Whether newcomers still find this daemon: its socket lies in its place.
    pub(crate) fn is_in_place(&self) -> bool {
        // An error says nothing about the socket.
        self.socket_id.is_none()
            || id_of(&runtime::socket(&self.path)).map_or(true, |found| found == self.socket_id)
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.path.join("journal")
    }

    /// The path of an endpoint's doorbell receiver.
    pub(crate) fn doorbell(&self, vm: i32, address: i32) -> PathBuf {
        self.path.join("doorbells").join(format!("{vm}.{address}"))
    }

    /// The directory of datagram sockets and domain files.
    pub(crate) fn sockets(&self) -> PathBuf {
        self.path.join("sockets")
    }

    /// The file that reserves a domain for a user.
    pub(crate) fn domain(&self, (vm, domain): (i32, u32), uid: u32) -> PathBuf {
        self.sockets().join(format!("domain.{vm}.{domain}.{uid}"))
    }

    /// The path of a port's datagram socket.
    pub(crate) fn datagram_socket(&self, (vm, domain): (i32, u32), port: u16) -> PathBuf {
        self.sockets().join(format!("{vm}.{domain}.{port}"))
    }

    /// The path of a route's sending socket. It names the sender's domain and port.
    pub(crate) fn datagram_route(&self, (_, domain): (i32, u32), port: u16, route: u64) -> PathBuf {
        self.sockets().join(format!("from.{domain}.{port}.{route}"))
    }

    /// Removes all files of the daemon. Where the directory was removed, another daemon may have
    /// made it again. A proxy that waits for the next daemon keeps its socket: in its sandbox it
    /// cannot make another one.
    pub(crate) fn remove(self, has_proxy: bool) {
        if !is_same_file(&self.lock, &self.path.join("lock")) {
            return;
        }
        let _ = std::fs::remove_dir_all(self.path.join("doorbells"));
        let _ = std::fs::remove_dir_all(self.sockets());
        let _ = std::fs::remove_file(self.journal());
        let _ = std::fs::remove_file(self.journal().with_extension(DAMAGED));
        let _ = std::fs::remove_file(self.path.join(log::FILE_NAME));
        let _ = std::fs::remove_file(self.path.join(log::FORMER_FILE_NAME));
        if !has_proxy {
            let _ = std::fs::remove_file(self.path.join("proxy.sock"));
        }
        if self.socket_is_ours {
            let _ = std::fs::remove_file(runtime::socket(&self.path));
        }
        // The lock goes last, while we hold it: a daemon that starts now makes its own lock.
        let _ = std::fs::remove_file(self.path.join("lock"));
        if self.is_ours || !self.socket_is_ours {
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

fn failed(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(std::io::Error) -> RuntimeDirectoryError {
    let path = path.to_owned();
    move |cause| RuntimeDirectoryError::System { action, path, cause }
}

fn lock(directory: &Path) -> Result<File, RuntimeDirectoryError> {
    let path = directory.join("lock");
    loop {
        let mut options = OpenOptions::new();
        let lock = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let lock = lock.open(&path).map_err(failed("open the lock", &path))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::AGAIN) => {
                let pid = std::fs::read_to_string(&path).unwrap_or_default();
                let (path, pid) = (directory.to_owned(), pid.trim().to_owned());
                return Err(RuntimeDirectoryError::Busy { path, pid });
            }
            Err(errno) => return Err(failed("lock", &path)(errno.into())),
        }
        // A leaving daemon may have removed the file between our open and our lock.
        if is_same_file(&lock, &path) {
            let pid = format!("{}\n", std::process::id());
            lock.set_len(0).map_err(failed("write", &path))?;
            std::io::Write::write_all(&mut &lock, pid.as_bytes())
                .map_err(failed("write", &path))?;
            return Ok(lock);
        }
    }
}

fn is_same_file(open: &File, path: &Path) -> bool {
    match (open.metadata(), std::fs::metadata(path)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

/// Device and inode of the object at a path; `None` if there is none.
fn id_of(path: &Path) -> std::io::Result<Option<(u64, u64)>> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) => Ok(Some((meta.dev(), meta.ino()))),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(cause),
    }
}

/// Makes the socket under another name and moves it. Its path never exists without a listener.
fn create_listener(directory: &Path, for_all: bool) -> Result<OwnedFd, RuntimeDirectoryError> {
    let path = runtime::socket(directory);
    let new = directory.join("m3d.sock.new");
    let _ = std::fs::remove_file(&new);
    let mode = if for_all { 0o666 } else { 0o600 };
    let listener =
        m3ipc_sys::listen(&new, mode).map_err(|errno| failed("listen at", &new)(errno.into()))?;
    std::fs::rename(&new, &path).map_err(failed("move the socket to", &path))?;
    Ok(listener)
}
