//! The checks of a runtime directory and of its daemon.

use super::SYSTEM_DIRECTORY;
use crate::control::RequestLimit;
use m3ipc_abi::Code;
use m3ipc_sys::{CheckedPath, Errno, PathFault};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why a runtime directory cannot be used.
///
/// ```
/// use m3ipc::runtime::{DirectoryError, make};
///
/// match make("/nonexistent/node".as_ref(), 0o700) {
///     Err(DirectoryError::Unusable { path, .. }) => println!("no directory {}", path.display()),
///     other => panic!("{other:?}"),
/// }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// The directory cannot be made or read.
    #[error(
        "the runtime directory {} cannot be used: {cause}; name another one in M3_RUNTIME_DIR",
        path.display()
    )]
    Unusable {
        /// The directory, or the part of the way to it.
        path: PathBuf,
        /// The error of the operating system.
        cause: std::io::Error,
    },
    /// Another user owns the directory or may write in it.
    #[error(
        "the runtime directory {} is not trusted: user {uid} owns it (mode {mode:o}), this process \
         is user {own}, and a false daemon there could read and write its memory; {advice}",
        path.display(),
        own = m3ipc_sys::user_id(),
        advice = advice(path, &repair(path, *uid, *mode).unwrap_or_else(|| OTHER.to_owned()))
    )]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// The user id of its owner.
        uid: u32,
        /// Its permission bits.
        mode: u32,
    },
    /// The directory, or a part of the way to it, belongs to the user of this program, and the
    /// program has more rights than that user.
    #[error(
        "the runtime directory is not trusted: {} belongs to user {uid}, and this program has more \
         rights than that user ({rights}), so it uses a node of root or of the system only; start \
         the node of the system as root: `systemctl start m3d`, or `m3d --system`",
        path.display()
    )]
    MoreRights {
        /// The directory or the part of the way.
        path: PathBuf,
        /// The user id of its owner.
        uid: u32,
        /// The additional rights, as in `it holds capabilities`.
        rights: &'static str,
    },
    /// The directory is a symbolic link, or a link of another user leads to it.
    #[error(
        "the runtime directory is not trusted: {} is a symbolic link of user {uid}; {advice}",
        path.display(),
        advice = advice(path, REMOVE)
    )]
    Link {
        /// The link.
        path: PathBuf,
        /// The user id of its owner.
        uid: u32,
    },
    /// Another user can replace the directory.
    #[error(
        "the runtime directory is not trusted: users other than this one can replace what lies in \
         {} (owner {uid}, mode {mode:o}); {advice}",
        path.display(),
        advice = advice(path, &repair(path, *uid, *mode).unwrap_or_else(|| OTHER.to_owned()))
    )]
    Replaceable {
        /// The directory on the way.
        path: PathBuf,
        /// The user id of its owner.
        uid: u32,
        /// Its permission bits.
        mode: u32,
    },
}

const OTHER: &str = "name another directory in M3_RUNTIME_DIR";
const REMOVE: &str = "remove it, or name a directory of your own in M3_RUNTIME_DIR";

/// The permission bit of a directory in which each user owns its files, stat(2).
const STICKY: u32 = 0o1000;

/// The next step for a directory of root or of this user that others may write.
fn repair(path: &Path, uid: u32, mode: u32) -> Option<String> {
    // A sticky directory is shared on purpose, as /tmp is.
    let is_roots_or_own = (uid == 0 || uid == m3ipc_sys::user_id()) && mode & STICKY == 0;
    let repair = m3ipc_sys::repair_of_mode(path, mode).filter(|_repair| is_roots_or_own)?;
    Some(format!("run `{repair}`, or {OTHER}"))
}

/// The next step for a directory of another user: `next`, unless the environment names the
/// directory by mistake.
fn advice<'a>(path: &Path, next: &'a str) -> &'a str {
    let inherited =
        m3ipc_sys::variable("XDG_RUNTIME_DIR").is_some_and(|base| path.starts_with(base));
    if inherited { "unset XDG_RUNTIME_DIR, which su and sudo -E leave behind" } else { next }
}

impl DirectoryError {
    fn of(fault: PathFault) -> Self {
        if let PathFault::Link { path, uid } | PathFault::Parent { path, uid, .. } = &fault
            && let Some(rights) = rights_beyond(*uid)
        {
            return Self::MoreRights { path: path.clone(), uid: *uid, rights };
        }
        match fault {
            PathFault::System { path, errno } => Self::Unusable { path, cause: errno.into() },
            PathFault::Link { path, uid } => Self::Link { path, uid },
            PathFault::Parent { path, uid, mode } => Self::Replaceable { path, uid, mode },
        }
    }

    fn not_ours(place: &CheckedPath) -> Self {
        let (path, uid, mode) = (place.path().to_owned(), place.user(), place.mode());
        match rights_beyond(uid) {
            Some(rights) if !place.others_may_write() => Self::MoreRights { path, uid, rights },
            _ => Self::NotOurs { path, uid, mode },
        }
    }
}

/// The rights of this program beyond those of its effective user, if that is this user.
fn rights_beyond(uid: u32) -> Option<&'static str> {
    m3ipc_sys::extra_rights().filter(|_rights| uid != 0 && uid == m3ipc_sys::user_id())
}

/// Why a daemon of this user is not trusted.
fn relation(uid: u32) -> String {
    match rights_beyond(uid) {
        Some(rights) => format!("and this program has more rights than that user ({rights})"),
        None => format!("not to this user ({}) or root", m3ipc_sys::user_id()),
    }
}

/// Why there is no connection to a daemon.
///
/// ```
/// use m3ipc::runtime::{self, ConnectError};
///
/// let absent = runtime::connect("/nonexistent".as_ref());
/// assert!(matches!(absent, Err(ConnectError::NoDaemon { .. })));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The directory is absent, or not trusted.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// No daemon answers.
    #[error("no node daemon answers at {}: {cause}; start one with `m3 up`", path.display())]
    NoDaemon {
        /// Its socket.
        path: PathBuf,
        /// The error of the operating system.
        cause: std::io::Error,
    },
    /// The runtime directory belongs to another user, and this process may not enter it.
    #[error(
        "the node of {} belongs to user {uid}, and this process, of user {own}, may not enter its \
         directory; run it as that user, or name another directory in M3_RUNTIME_DIR",
        path.display(),
        own = m3ipc_sys::user_id()
    )]
    NotAllowed {
        /// The runtime directory.
        path: PathBuf,
        /// The user id of its owner.
        uid: u32,
    },
    /// A daemon of another user answers.
    #[error(
        "the daemon in {} is not trusted: it belongs to user {uid}, {relation}, and could read and \
         write the memory of this process; end that daemon, or name another directory in \
         M3_RUNTIME_DIR",
        path.display(),
        relation = relation(*uid)
    )]
    ForeignDaemon {
        /// The runtime directory.
        path: PathBuf,
        /// The user id of the daemon.
        uid: u32,
    },
}

impl ConnectError {
    /// The code of the C contract.
    ///
    /// ```
    /// let error = m3ipc::runtime::connect("/tmp".as_ref()).unwrap_err();
    /// assert_eq!(error.code(), m3ipc::Code::BadDir);
    /// ```
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::ForeignDaemon { .. } => Code::BadOwner,
            Self::NotAllowed { .. } => Code::Privileges,
            Self::Directory(error) if !matches!(error, DirectoryError::Unusable { .. }) => {
                Code::BadDir
            }
            _ => match self.errno() {
                Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => Code::NoMem,
                Some(Errno::ACCESS) => Code::Privileges,
                _ => Code::DrvsInit,
            },
        }
    }

    /// The error of the operating system, if it gave one.
    pub(crate) fn errno(&self) -> Option<Errno> {
        match self {
            Self::Directory(DirectoryError::Unusable { cause, .. })
            | Self::NoDaemon { cause, .. } => Errno::from_io_error(cause),
            Self::NotAllowed { .. } => Some(Errno::ACCESS),
            _ => None,
        }
    }
}

/// A runtime directory that passed the checks.
struct AcceptedDirectory {
    place: CheckedPath,
    /// Whether root alone decides who owns the directory.
    is_system: bool,
}

impl AcceptedDirectory {
    fn open(directory: &Path) -> Result<Self, DirectoryError> {
        let place = CheckedPath::open(directory).map_err(DirectoryError::of)?;
        if !place.is_directory() {
            let cause = Errno::NOTDIR.into();
            return Err(DirectoryError::Unusable { path: place.path().to_owned(), cause });
        }
        let is_system = place.path() == Path::new(SYSTEM_DIRECTORY) && place.is_roots_way();
        if place.others_may_write() || !(is_system || place.is_roots_or_own()) {
            return Err(DirectoryError::not_ours(&place));
        }
        Ok(Self { place, is_system })
    }

    /// Whether a daemon of this user may serve the directory.
    ///
    /// A user namespace may map neither root nor the user of the system's daemon. Their numbers are
    /// then unknown; in the system's directory only those two can have made a socket.
    fn accepts(&self, uid: u32) -> bool {
        let users = self.place.users();
        let is_systems = || uid == self.place.user() || !users.names_one(uid);
        self.place.trusts(uid) || (self.is_system && is_systems())
    }
}

/// Checks a runtime directory: whether a daemon there would be trusted.
///
/// ```
/// use m3ipc::runtime::{self, DirectoryError};
///
/// // Each user can write there.
/// assert!(matches!(runtime::check("/tmp".as_ref()), Err(DirectoryError::NotOurs { .. })));
/// ```
///
/// # Errors
/// [`DirectoryError`].
pub fn check(directory: &Path) -> Result<(), DirectoryError> {
    AcceptedDirectory::open(directory).map(drop)
}

/// Connects to the daemon of a runtime directory, after a check of both.
///
/// ```
/// # let node = m3ipc::test::node();
/// let socket = m3ipc::runtime::connect(node.directory())?;
/// # Ok::<(), m3ipc::runtime::ConnectError>(())
/// ```
///
/// # Errors
/// [`ConnectError`].
pub fn connect(directory: &Path) -> Result<OwnedFd, ConnectError> {
    connect_within(directory, RequestLimit::ANSWER.left())
}

/// As [`connect`], within a time limit: the queue of a stopped daemon may be full.
pub(crate) fn connect_within(directory: &Path, limit: Duration) -> Result<OwnedFd, ConnectError> {
    let no_daemon = |cause| ConnectError::NoDaemon { path: super::socket(directory), cause };
    let accepted = AcceptedDirectory::open(directory).map_err(|error| match error {
        DirectoryError::Unusable { cause, .. } if cause.kind() == ErrorKind::NotFound => {
            no_daemon(cause)
        }
        other => other.into(),
    })?;
    let socket = accepted.place.connect(m3ipc_wire::SOCKET_NAME, limit);
    let socket = socket.map_err(|errno| match (errno, accepted.place.user()) {
        (Errno::ACCESS, uid) if uid != m3ipc_sys::user_id() => {
            ConnectError::NotAllowed { path: directory.to_owned(), uid }
        }
        _ => no_daemon(errno.into()),
    })?;
    let uid = m3ipc_sys::peer_user(&socket).map_err(|errno| no_daemon(errno.into()))?;
    if accepted.accepts(uid) {
        Ok(socket)
    } else {
        Err(ConnectError::ForeignDaemon { path: directory.to_owned(), uid })
    }
}

/// Connects to the stream socket `name` of a runtime directory, after a check of the directory,
/// within a time limit. The caller checks the user at the other end.
///
/// ```
/// use m3ipc::runtime::{ConnectError, connect_stream};
/// use std::time::Duration;
///
/// # let node = m3ipc::test::node();
/// // This node has no proxy.
/// let absent = connect_stream(node.directory(), "proxy.sock", Duration::from_secs(1));
/// assert!(matches!(absent, Err(ConnectError::NoDaemon { .. })));
/// ```
///
/// # Errors
/// [`ConnectError`].
pub fn connect_stream(
    directory: &Path,
    name: &str,
    limit: Duration,
) -> Result<OwnedFd, ConnectError> {
    let accepted = AcceptedDirectory::open(directory)?;
    accepted.place.connect_stream(name, limit).map_err(|errno| {
        match (errno, accepted.place.user()) {
            (Errno::ACCESS, uid) if uid != m3ipc_sys::user_id() => {
                ConnectError::NotAllowed { path: directory.to_owned(), uid }
            }
            _ => ConnectError::NoDaemon { path: directory.join(name), cause: errno.into() },
        }
    })
}

/// Makes a runtime directory, or checks an existing one: this user must own it, and no other user
/// may write in it or replace it. Returns whether the directory is new.
///
/// ```
/// let directory = std::env::temp_dir().join(format!("m3-doc-{}", std::process::id()));
/// assert!(m3ipc::runtime::make(&directory, 0o700)?);
/// assert!(!m3ipc::runtime::make(&directory, 0o700)?);
/// # std::fs::remove_dir(&directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`DirectoryError`].
pub fn make(path: &Path, mode: u32) -> Result<bool, DirectoryError> {
    let (place, is_new) = CheckedPath::make_directory(path, mode).map_err(DirectoryError::of)?;
    if !place.is_directory() {
        let cause = Errno::NOTDIR.into();
        return Err(DirectoryError::Unusable { path: place.path().to_owned(), cause });
    }
    if !place.is_own() || place.others_may_write() {
        return Err(DirectoryError::not_ours(&place));
    }
    Ok(is_new)
}
