//! The daemon's home: its runtime directory, the lock that makes it the only
//! one there, and the socket.
//!
//! ```text
//! lock      held while a daemon lives (the kernel lets go at any death)
//! m3d.sock  where members knock          bells/  where bells hang (0700)
//! journal   what a successor must know         socks/  datagram sockets, domains (0700)
//! ```

use crate::settings::Settings;
use m3ipc::runtime::{self, DirectoryError};
use m3ipc_sys::Errno;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Why the daemon cannot live there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HomeError {
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error("another daemon (pid {pid}) serves {path}; use it, or end it with `m3 down`")]
    Busy { path: PathBuf, pid: String },
    #[error("{what} {path}: {cause}")]
    System { what: &'static str, path: PathBuf, cause: std::io::Error },
}

/// The runtime directory, held.
#[derive(Debug)]
pub(crate) struct Home {
    pub(crate) path: PathBuf,
    pub(crate) listener: OwnedFd,
    made: bool,
    /// A systemd socket outlives us; our own does not.
    socket_is_ours: bool,
    _lock: File,
}

impl Home {
    /// Takes the runtime directory, or tells who has it.
    pub(crate) fn open(settings: &Settings) -> Result<Self, HomeError> {
        let path = settings.runtime_dir.clone();
        let made = runtime::make(&path, if settings.system { 0o755 } else { 0o700 })?;
        let lock = lock(&path)?;
        // A killed predecessor's directory goes as ours would.
        let made = made || path.join("journal").exists();
        let bells = path.join("bells");
        runtime::make(&bells, 0o700)?;
        runtime::make(&path.join("socks"), 0o700)?;
        let (listener, socket_is_ours) = match m3ipc_sys::inherited_listener() {
            Some(listener) => (listener, false),
            None => (own_listener(&path, settings.system)?, true),
        };
        Ok(Self { path, listener, made, socket_is_ours, _lock: lock })
    }

    /// Where the journal lies.
    pub(crate) fn journal(&self) -> PathBuf {
        self.path.join("journal")
    }

    /// Where the bell of an endpoint hangs.
    pub(crate) fn bell(&self, vm: i32, address: i32) -> PathBuf {
        self.path.join("bells").join(format!("{vm}.{address}"))
    }

    /// Where datagram sockets are bound and domains are remembered.
    pub(crate) fn socks(&self) -> PathBuf {
        self.path.join("socks")
    }

    /// The file that says whose a domain is.
    pub(crate) fn domain(&self, (vm, domain): (i32, u32), uid: u32) -> PathBuf {
        self.socks().join(format!("domain.{vm}.{domain}.{uid}"))
    }

    /// Where the datagram socket of a port is bound.
    pub(crate) fn datagrams(&self, (vm, domain): (i32, u32), port: u16) -> PathBuf {
        self.socks().join(format!("{vm}.{domain}.{port}"))
    }

    /// The name under which a way from a port sends: domain and port can be read from it.
    pub(crate) fn datagrams_from(&self, (_, domain): (i32, u32), port: u16, way: u64) -> PathBuf {
        self.socks().join(format!("from.{domain}.{port}.{way}"))
    }

    /// Leaves nothing behind.
    pub(crate) fn leave(self) {
        let _ = std::fs::remove_dir_all(self.path.join("bells"));
        let _ = std::fs::remove_dir_all(self.socks());
        let _ = std::fs::remove_file(self.journal());
        if self.socket_is_ours {
            let _ = std::fs::remove_file(runtime::socket(&self.path));
        }
        // Last, and still held: whoever comes now makes a lock of its own.
        let _ = std::fs::remove_file(self.path.join("lock"));
        if self.made || !self.socket_is_ours {
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

fn system(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> HomeError {
    let path = path.to_owned();
    move |cause| HomeError::System { what, path, cause }
}

fn lock(directory: &Path) -> Result<File, HomeError> {
    let path = directory.join("lock");
    loop {
        let mut options = OpenOptions::new();
        let lock = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let lock = lock.open(&path).map_err(system("cannot open the lock", &path))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::AGAIN) => {
                let pid = std::fs::read_to_string(&path).unwrap_or_default();
                return Err(HomeError::Busy {
                    path: directory.to_owned(),
                    pid: pid.trim().to_owned(),
                });
            }
            Err(errno) => return Err(system("cannot lock", &path)(errno.into())),
        }
        // A leaving daemon may have removed the file between open and lock.
        if is_same_file(&lock, &path) {
            let pid = format!("{}\n", std::process::id());
            lock.set_len(0).map_err(system("cannot write", &path))?;
            std::io::Write::write_all(&mut &lock, pid.as_bytes())
                .map_err(system("cannot write", &path))?;
            return Ok(lock);
        }
    }
}

fn is_same_file(open: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (open.metadata(), std::fs::metadata(path)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

/// The socket is made beside its place and moved there: it never stands there without a listener.
fn own_listener(directory: &Path, for_all: bool) -> Result<OwnedFd, HomeError> {
    let path = runtime::socket(directory);
    let fresh = directory.join("m3d.sock.new");
    let _ = std::fs::remove_file(&fresh);
    let listener = m3ipc_sys::listen(&fresh)
        .map_err(|errno| system("cannot listen at", &fresh)(errno.into()))?;
    let mode = if for_all { 0o666 } else { 0o600 };
    std::fs::set_permissions(&fresh, Permissions::from_mode(mode))
        .map_err(system("cannot set the mode of", &fresh))?;
    std::fs::rename(&fresh, &path).map_err(system("cannot move the socket to", &path))?;
    Ok(listener)
}
