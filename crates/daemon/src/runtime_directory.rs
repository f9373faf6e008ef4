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
//!
//! The end of the daemon removes these files and no others. So a daemon serves no directory that
//! holds anything else: see [`contents`].

mod contents;
mod error;

use crate::settings::Settings;
use error::failed;
use m3ipc::runtime;
use m3ipc_sys::Errno;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

pub(crate) use error::RuntimeDirectoryError;

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
        if !made {
            contents::check(&path)?;
        }
        let lock = lock(&path)?;
        // A killed predecessor made the directory for us, too.
        let is_ours = made || path.join(contents::JOURNAL).exists();
        runtime::make(&path.join(contents::DOORBELLS), 0o700)?;
        runtime::make(&path.join(contents::SOCKETS), 0o700)?;
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
        Self::journal_of(&self.path)
    }

    pub(crate) fn journal_of(directory: &Path) -> PathBuf {
        directory.join(contents::JOURNAL)
    }

    /// The path of an endpoint's doorbell receiver.
    pub(crate) fn doorbell(&self, vm: i32, address: i32) -> PathBuf {
        self.path.join(contents::DOORBELLS).join(format!("{vm}.{address}"))
    }

    /// The directory of datagram sockets and domain files.
    pub(crate) fn sockets(&self) -> PathBuf {
        self.path.join(contents::SOCKETS)
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
        if !is_same_file(&self.lock, &self.path.join(contents::LOCK)) {
            return;
        }
        contents::remove(&self.path, |name| match name {
            contents::LOCK => false,
            contents::PROXY_SOCKET | contents::PROXY_LOG | contents::PROXY_LOG_FORMER => !has_proxy,
            m3ipc_wire::SOCKET_NAME => self.socket_is_ours,
            _ => true,
        });
        // The lock goes last, while we hold it: a daemon that starts now makes its own lock.
        let _ = std::fs::remove_file(self.path.join(contents::LOCK));
        if self.is_ours || !self.socket_is_ours {
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

fn lock(directory: &Path) -> Result<File, RuntimeDirectoryError> {
    let path = directory.join(contents::LOCK);
    loop {
        let mut options = OpenOptions::new();
        let lock = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let lock = lock.open(&path).map_err(failed("open the lock", &path))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::AGAIN) => {
                let pid = std::fs::read_to_string(&path).unwrap_or_default();
                let peer = runtime::connect(directory).ok().map(m3ipc_sys::peer_identity);
                let whose = match peer {
                    Some(Ok(peer)) if peer.pid != 1 => format!("pid {}", peer.pid),
                    Some(Err(Errno::SRCH)) => "in another PID namespace".to_owned(),
                    // systemd made the socket, or there is none yet.
                    _ => format!("pid {}", pid.trim()),
                };
                return Err(RuntimeDirectoryError::Busy { path: directory.to_owned(), whose });
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
