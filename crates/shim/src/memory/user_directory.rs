//! The directory of a user's files of shared memory, and the names in it.
//!
//! The directory lies in `$M3_RUNTIME_DIR` or in `/dev/shm`. Its name holds the layout version, the
//! user and the PID namespace. It and its files belong to the user, and no other user may open
//! them. The directory around it belongs to root or to the user; where others may write it, it is
//! sticky, as /dev/shm is.
//!
//! | name | content |
//! |---|---|
//! | 16 digits | the pair of the socket with this cookie; each pair has two names |
//! | `p` and a process | the armed pollers of this process |
//! | `t`, a process, a number | a pair that this process is making |
//!
//! The kernel checks each open against the user of that moment. No descriptor stays open. The end
//! of a process removes nothing: makers of later pairs remove what the dead left (see `sweep`).

use crate::kernel::file::{self, File};
use crate::kernel::{Errno, apart, process};
use crate::policy::{DIRECTORY_VARIABLE, NO_DIRECTORY, RUNTIME_VARIABLE};
use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, Ordering};
use m3ipc_sys::{CheckedPath, PathFault, UserNames};
use std::ffi::{CString, OsStr};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::layout::VERSION;

/// Effective users of one process at most, with a directory each.
const USERS_MAX: usize = 4;
/// Bytes of a path of this directory or of a file in it, with its end.
const PATH_BYTES: usize = 512;
/// Bytes of the longest name in the directory.
const NAME_BYTES: usize = 32;
/// Bytes of a small file of /proc at most. A longer map of users is not complete.
const FILE_TEXT_MAX: usize = 256;

/// The directory around those of the users, where the environment names none.
const DEFAULT_DIRECTORY: &CStr = c"/dev/shm";

/// The directory that the constructor found in the environment.
static DIRECTORY: OnceLock<Directory> = OnceLock::new();

/// Why the directory of the memory may not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectoryFault {
    /// Other users can replace what lies in it.
    Shared {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        uid: u32,
        /// Its permission bits.
        mode: u32,
    },
    /// Other users can replace what lies in a directory on the way.
    Parent {
        /// The directory on the way.
        path: PathBuf,
        /// Its owner.
        uid: u32,
        /// Its permission bits.
        mode: u32,
    },
    /// A link of another user lies on the way.
    Link {
        /// The link.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// The directory of this user in it is another user's, or others have rights to it.
    Taken {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        uid: u32,
        /// Its permission bits.
        mode: u32,
    },
    /// This user has no number of its own in its user namespace.
    User(u32),
    /// The operating system refused a step.
    System {
        /// The object of that step.
        path: PathBuf,
        /// Its error.
        errno: Errno,
    },
}

enum Directory {
    /// [`DEFAULT_DIRECTORY`].
    Default,
    /// The named one.
    Named(CString),
    /// The named one may not be used: another user can replace it.
    Refused(DirectoryFault),
}

/// Stores the directory of the files. The constructor calls this; it may allocate.
pub fn set_directory() {
    let variable = m3ipc_sys::variable;
    let named = variable(DIRECTORY_VARIABLE).or_else(|| variable(RUNTIME_VARIABLE));
    set_directory_to(named.as_deref().filter(|named| *named != NO_DIRECTORY).map(Path::new));
}

/// Stores the directory of the files, or the default one.
pub fn set_directory_to(named: Option<&Path>) {
    let _ = DIRECTORY.set(match named {
        None => Directory::Default,
        Some(named) => named_directory(named).unwrap_or_else(Directory::Refused),
    });
}

/// The directory without links. No other user can change the way to it afterwards.
fn named_directory(named: &Path) -> Result<Directory, DirectoryFault> {
    let system = |errno| DirectoryFault::System { path: named.to_owned(), errno };
    let path = match CheckedPath::open(named) {
        Ok(place) => place.path().to_owned(),
        // It may come later; each open checks its owner.
        Err(PathFault::System { errno: m3ipc_sys::Errno::NOENT, .. }) => std::path::absolute(named)
            .map_err(|cause| system(cause.raw_os_error().unwrap_or(libc::EINVAL)))?,
        Err(PathFault::System { path, errno }) => {
            return Err(DirectoryFault::System { path, errno: errno.raw_os_error() });
        }
        Err(PathFault::Link { path, uid }) => return Err(DirectoryFault::Link { path, uid }),
        Err(PathFault::Parent { path, uid, mode }) => {
            return Err(DirectoryFault::Parent { path, uid, mode });
        }
    };
    let path = CString::new(path.into_os_string().into_vec()).map_err(|_| system(libc::EINVAL))?;
    Ok(Directory::Named(path))
}

/// A path, with its end.
#[derive(Clone, Copy, Debug)]
pub struct FilePath([u8; PATH_BYTES]);

impl FilePath {
    /// The path as a string.
    #[must_use]
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or(c"")
    }
}

/// A name in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// The pair of the socket with this cookie.
    Pair(u64),
    /// The armed pollers of a process.
    Pollers(u32),
    /// A pair that a process is making, and a number.
    Unfinished(u32, u32),
}

impl Name {
    /// The name of a directory entry; `None` for other files.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = core::str::from_utf8(text).ok()?;
        if let Some(pid) = text.strip_prefix('p') {
            return pid.parse().ok().map(Self::Pollers);
        }
        if let Some(rest) = text.strip_prefix('t') {
            let (pid, number) = rest.split_once('-')?;
            return Some(Self::Unfinished(pid.parse().ok()?, number.parse().ok()?));
        }
        let is_cookie = text.len() == 16 && !text.starts_with('+');
        u64::from_str_radix(text, 16).ok().filter(|_cookie| is_cookie).map(Self::Pair)
    }

    fn write(self, mut room: &mut [u8]) -> Option<()> {
        match self {
            Self::Pair(cookie) => write!(room, "{cookie:016x}"),
            Self::Pollers(pid) => write!(room, "p{pid}"),
            Self::Unfinished(pid, number) => write!(room, "t{pid}-{number}"),
        }
        .ok()
    }
}

/// The directory of one user.
#[derive(Debug)]
pub struct UserDirectory {
    user: AtomicU32,
    claimed: AtomicU32,
    path: OnceLock<FilePath>,
}

static DIRECTORIES: [UserDirectory; USERS_MAX] = [const {
    UserDirectory {
        user: AtomicU32::new(u32::MAX),
        claimed: AtomicU32::new(0),
        path: OnceLock::new(),
    }
}; USERS_MAX];

/// Users that may not open the directory, for example after the process gave up its rights.
static REFUSED: [AtomicU32; USERS_MAX] = [const { AtomicU32::new(u32::MAX) }; USERS_MAX];
static NEXT_REFUSED: AtomicU32 = AtomicU32::new(0);

impl UserDirectory {
    /// The directory of the current effective user; makes it where it is absent.
    pub fn current() -> Option<&'static Self> {
        Self::find(IfAbsent::Make)
    }

    /// The directory of the current effective user, if there is one.
    pub fn present() -> Option<&'static Self> {
        Self::find(IfAbsent::Leave)
    }

    /// The directory of the current effective user, or why there is none; makes it where it is
    /// absent.
    ///
    /// # Errors
    /// [`DirectoryFault`].
    pub fn check() -> Result<&'static Self, DirectoryFault> {
        if let Some(directory) = Self::current() {
            return Ok(directory);
        }
        let path = match DIRECTORY.get() {
            Some(Directory::Refused(fault)) => return Err(fault.clone()),
            Some(Directory::Named(path)) => path.as_c_str(),
            None | Some(Directory::Default) => DEFAULT_DIRECTORY,
        };
        let user = process::user();
        let path = PathBuf::from(OsStr::from_bytes(path.to_bytes()));
        Err(match open(user, IfAbsent::Make) {
            Ok(_) => DirectoryFault::System { path, errno: libc::EAGAIN },
            Err(Refusal::Named) => DirectoryFault::System { path, errno: libc::EPERM },
            Err(Refusal::User) => DirectoryFault::User(user),
            Err(Refusal::Around { uid, mode }) => DirectoryFault::Shared { path, uid, mode },
            Err(Refusal::Own { name, uid, mode }) => {
                DirectoryFault::Taken { path: path.join(name), uid, mode }
            }
            Err(Refusal::System(errno)) => DirectoryFault::System { path, errno },
        })
    }

    fn find(if_absent: IfAbsent) -> Option<&'static Self> {
        let user = process::user();
        let is_known = |one: &&'static Self| one.user.load(Ordering::Acquire) == user;
        if let Some(known) = DIRECTORIES.iter().find(is_known) {
            return Some(known);
        }
        if REFUSED.iter().any(|refused| refused.load(Ordering::Relaxed) == user) {
            return None;
        }
        let opened = apart::run(|| open(user, if_absent).map_err(|refusal| refusal.errno()));
        let path = match opened.unwrap_or(Err(libc::EAGAIN)) {
            Ok(path) => path,
            // The answer will not change: each wait and each call would ask again.
            Err(libc::EACCES | libc::EPERM) => {
                let next = NEXT_REFUSED.fetch_add(1, Ordering::Relaxed) as usize % USERS_MAX;
                REFUSED[next].store(user, Ordering::Relaxed);
                return None;
            }
            Err(_) => return None,
        };
        // Two threads may claim an entry each: the first of them is found from then on.
        let free = DIRECTORIES.iter().find(|one| one.claimed.swap(1, Ordering::AcqRel) == 0)?;
        let _ = free.path.set(path);
        free.user.store(user, Ordering::Release);
        Some(free)
    }

    /// The user of the directory.
    #[must_use]
    pub fn user(&self) -> u32 {
        self.user.load(Ordering::Acquire)
    }

    /// The path of the directory.
    #[must_use]
    pub fn path(&self) -> &CStr {
        self.path.get().map_or(c"", FilePath::as_c_str)
    }

    /// The path of a file; `None` where it is too long.
    #[must_use]
    pub fn file(&self, name: Name) -> Option<FilePath> {
        let mut path = *self.path.get()?;
        let end = path.as_c_str().count_bytes();
        // One byte stays for the end.
        let room = path.0.get_mut(end..PATH_BYTES - 1)?;
        let (slash, rest) = room.split_first_mut()?;
        *slash = b'/';
        name.write(rest)?;
        Some(path)
    }

    /// Opens a file, if it is this user's and has this size.
    ///
    /// # Errors
    /// Of open(2), with the rights of the effective user; `EPERM` for another file.
    pub fn open(&self, name: Name, bytes: usize, is_writable: bool) -> Result<File, Errno> {
        let path = self.file(name).ok_or(libc::ENAMETOOLONG)?;
        let file = File::open_unlinked(path.as_c_str(), is_writable)?;
        let stat = file::stat(file.fd())?;
        let is_own = stat.st_uid == self.user() && stat.st_mode & 0o077 == 0;
        let is_file = stat.st_mode & libc::S_IFMT == libc::S_IFREG;
        let fits = usize::try_from(stat.st_size) == Ok(bytes);
        if is_own && is_file && fits { Ok(file) } else { Err(libc::EPERM) }
    }

    /// Creates a file of this size. Makes the directory again where a person removed it.
    ///
    /// # Errors
    /// Of open(2) and ftruncate(2); `EEXIST` where there is one.
    pub fn create(&self, name: Name, bytes: usize) -> Result<File, Errno> {
        let path = self.file(name).ok_or(libc::ENAMETOOLONG)?;
        let file = match File::create(path.as_c_str()) {
            Err(libc::ENOENT) => {
                open(self.user(), IfAbsent::Make).map_err(|refusal| refusal.errno())?;
                File::create(path.as_c_str())?
            }
            other => other?,
        };
        file::truncate(file.fd(), bytes)?;
        Ok(file)
    }

    /// Removes a name, where there is one.
    pub fn remove(&self, name: Name) {
        if let Some(path) = self.file(name) {
            file::remove(path.as_c_str());
        }
    }
}

/// The numbers of the PID namespace and of the time namespace, in one word: locks and pollers name
/// processes by numbers and starts, which hold within both.
///
/// # Errors
/// Of stat(2).
pub fn namespaces() -> Result<u64, Errno> {
    let pids = file::stat_at(c"/proc/self/ns/pid")?.st_ino;
    // A kernel may have no time namespaces.
    let times = file::stat_at(c"/proc/self/ns/time").map_or(0, |stat| stat.st_ino);
    Ok(pids << 32 | times & 0xffff_ffff)
}

/// The users of this process's namespace, read without allocation.
fn user_names() -> UserNames {
    let mut rooms = [[0_u8; FILE_TEXT_MAX]; 2];
    let [map, overflow] = &mut rooms;
    UserNames::of(text(c"/proc/self/uid_map", map), text(c"/proc/sys/kernel/overflowuid", overflow))
}

/// The first bytes of a small file; nothing where it cannot be read.
fn text<'a>(path: &CStr, room: &'a mut [u8]) -> &'a str {
    let bytes = File::open(path).map_or(0, |file| file.read(room));
    core::str::from_utf8(&room[..bytes]).unwrap_or("")
}

/// Why the directory of a user is not opened.
enum Refusal {
    /// The way to the named directory is not safe.
    Named,
    /// The user has no number of its own.
    User,
    /// The directory around belongs to this user, and others may write it.
    Around { uid: u32, mode: u32 },
    /// The directory with this name belongs to this user, and others have rights to it.
    Own { name: String, uid: u32, mode: u32 },
    /// A step failed.
    System(Errno),
}

impl Refusal {
    /// The answer to programs.
    fn errno(&self) -> Errno {
        if let Self::System(errno) = self { *errno } else { libc::EPERM }
    }
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self::System(errno)
    }
}

/// Opens the directory around the users' directories, if no other user can remove or replace what
/// lies in it; its path, and the first word of the names in it.
fn open_around(user: u32) -> Result<(File, &'static CStr, &'static str), Refusal> {
    let users = user_names();
    // All unmapped users of a namespace have one number: the owner of a file would not be known.
    if !users.names_one(user) {
        return Err(Refusal::User);
    }
    let (path, prefix) = match DIRECTORY.get() {
        None | Some(Directory::Default) => (DEFAULT_DIRECTORY, "m3sock"),
        Some(Directory::Named(path)) => (path.as_c_str(), "sock"),
        Some(Directory::Refused(_)) => return Err(Refusal::Named),
    };
    let directory = File::open_directory(path)?;
    let stat = file::stat(directory.fd())?;
    let is_sticky = stat.st_mode & libc::S_ISVTX != 0;
    // Root of another namespace makes the default directory.
    let is_roots = stat.st_uid == 0 || (prefix == "m3sock" && !users.names_one(stat.st_uid));
    let is_safe = stat.st_mode & 0o022 == 0 || is_sticky;
    if is_safe && (is_roots || stat.st_uid == user) {
        Ok((directory, path, prefix))
    } else {
        Err(Refusal::Around { uid: stat.st_uid, mode: stat.st_mode & 0o7777 })
    }
}

/// What becomes of an absent directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IfAbsent {
    Make,
    Leave,
}

/// The path of the directory of a user.
fn open(user: u32, if_absent: IfAbsent) -> Result<FilePath, Refusal> {
    let (around, path, prefix) = open_around(user)?;
    let mut name = [0_u8; PATH_BYTES];
    let namespace = namespaces()?;
    write!(&mut name[..PATH_BYTES - 1], "{prefix}-{VERSION}-{user}-{namespace}")
        .map_err(|_| libc::ENAMETOOLONG)?;
    let name = CStr::from_bytes_until_nul(&name).map_err(|_| libc::ENAMETOOLONG)?;
    if if_absent == IfAbsent::Make {
        match file::create_directory(around.fd(), name) {
            Ok(()) | Err(libc::EEXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    let directory = File::open_directory_at(around.fd(), name)?;
    let stat = file::stat(directory.fd())?;
    if stat.st_uid != user || stat.st_mode & 0o077 != 0 {
        let name = name.to_string_lossy().into_owned();
        return Err(Refusal::Own { name, uid: stat.st_uid, mode: stat.st_mode & 0o7777 });
    }
    let mut whole = [0_u8; PATH_BYTES];
    let mut rest = &mut whole[..PATH_BYTES - NAME_BYTES - 1];
    for part in [path.to_bytes(), b"/", name.to_bytes()] {
        rest.write_all(part).map_err(|_| libc::ENAMETOOLONG)?;
    }
    Ok(FilePath(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_survives_its_text() {
        let directory = UserDirectory {
            user: AtomicU32::new(7),
            claimed: AtomicU32::new(1),
            path: OnceLock::new(),
        };
        let mut path = [0; PATH_BYTES];
        path[..2].copy_from_slice(b"/d");
        directory.path.set(FilePath(path)).unwrap();
        for name in [
            Name::Pair(0),
            Name::Pair(u64::MAX),
            Name::Pollers(4_194_303),
            Name::Unfinished(u32::MAX, u32::MAX),
        ] {
            let file = directory.file(name).unwrap();
            let text = file.as_c_str().to_bytes().strip_prefix(b"/d/").unwrap();
            assert_eq!(Name::parse(text), Some(name));
            assert!(text.len() < NAME_BYTES);
        }
        let others = [&b"."[..], b"..", b"p", b"t1", b"t1-", b"+123456789abcdef", b"1234"];
        assert!(others.into_iter().all(|text| Name::parse(text).is_none()));
    }
}
