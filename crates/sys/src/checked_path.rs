//! Paths that no other user can change.
//!
//! The walk opens one name after the other, relative to the directory before it, and checks each
//! open object. Nothing is checked by name and used by name later, so no race is left.
//!
//! ```text
//! /          tmp              m3-1000        m3d.sock
//! owner ok   others write:    the target:    reached through the descriptor of the target
//!            sticky, owner ok the caller judges owner and mode
//! ```
//!
//! A directory on the way belongs to root or to the caller, whose user is that of
//! [`own_user`](crate::own_user). Where others can write it, it is
//! sticky: they can add names, and can neither remove nor rename the names of others. A symbolic
//! link on the way is followed if root or the caller made it. The target is no link.
//!
//! In a user namespace that does not map root, directories of root look like directories of
//! anybody. The walk then accepts unknown owners on the way, but never as root or as the caller.
//!
//! The group of a file counts as others, unless root or the caller is its only user.

use crate::packet;
use crate::user_ids::UserNames;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, fstat, fstatfs, mkdirat, openat,
    readlinkat, statat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// Symbolic links on the way at most, as in the kernel.
const LINKS_MAX: u32 = 40;
/// Permission bits of others.
const GROUP_WRITE: u32 = 0o020;
const ALL_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Why a path was not opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathFault {
    /// The operating system refused a step.
    System {
        /// The object of that step.
        path: PathBuf,
        /// Its error.
        errno: Errno,
    },
    /// The target, or a part of the way, is a symbolic link of this user.
    Link {
        /// The link.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// Other users can rename or replace what lies in this directory.
    Parent {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        uid: u32,
        /// Its permission bits.
        mode: u32,
    },
}

/// An open object at the end of a path that no other user can change.
#[derive(Debug)]
pub struct CheckedPath {
    /// Opened as a place only (`O_PATH`): no read, no write.
    fd: OwnedFd,
    stat: Stat,
    /// The path without links.
    path: PathBuf,
    /// Whether root alone can change the way to it.
    is_roots_way: bool,
    users: UserNames,
    own: Option<u32>,
}

/// The walk so far: a checked directory, and the parts of the path behind it.
struct Walk {
    fd: OwnedFd,
    stat: Stat,
    path: PathBuf,
    /// The next part last.
    rest: Vec<OsString>,
    users: UserNames,
    /// The user beside root that may own a part of the way.
    own: Option<u32>,
    is_roots_way: bool,
    links: u32,
}

impl Walk {
    fn begin(path: &Path, own: Option<u32>) -> Result<Self, PathFault> {
        let fault = |errno| PathFault::System { path: path.to_owned(), errno };
        let absolute = std::path::absolute(path)
            .map_err(|cause| fault(Errno::from_io_error(&cause).unwrap_or(Errno::INVAL)))?;
        let (fd, stat) = open_place(CWD, OsStr::new("/")).map_err(fault)?;
        let mut walk = Self {
            fd,
            stat,
            path: "/".into(),
            rest: Vec::new(),
            users: UserNames::unread(),
            own,
            is_roots_way: true,
            links: 0,
        };
        walk.push(&absolute);
        Ok(walk)
    }

    fn others_may_write(&self) -> bool {
        others_may_write(&self.fd, &self.stat, |uid| self.is_trusted(uid))
    }

    fn is_trusted(&self, uid: u32) -> bool {
        self.users.names_one(uid) && (uid == 0 || self.own == Some(uid))
    }

    fn push(&mut self, path: &Path) {
        for part in path.components().rev() {
            match part {
                Component::Normal(name) => self.rest.push(name.to_owned()),
                Component::ParentDir => self.rest.push("..".into()),
                _ => {}
            }
        }
    }

    fn open_next(&mut self) -> Result<Option<(OwnedFd, Stat, PathBuf)>, PathFault> {
        let Some(name) = self.rest.pop() else { return Ok(None) };
        self.check_way()?;
        let mut path = self.path.clone();
        if name == ".." {
            path.pop();
        } else {
            path.push(&name);
        }
        match open_place(&self.fd, &name) {
            Ok((fd, stat)) => Ok(Some((fd, stat, path))),
            Err(errno) => Err(PathFault::System { path, errno }),
        }
    }

    /// Goes on until at most so many parts are left.
    fn go_on(&mut self, left: usize) -> Result<(), PathFault> {
        while self.rest.len() > left {
            let Some((fd, stat, path)) = self.open_next()? else { break };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Symlink => self.follow(&fd, &stat, path)?,
                FileType::Directory => (self.fd, self.stat, self.path) = (fd, stat, path),
                _ => return Err(PathFault::System { path, errno: Errno::NOTDIR }),
            }
        }
        Ok(())
    }

    fn follow(&mut self, link: &OwnedFd, stat: &Stat, path: PathBuf) -> Result<(), PathFault> {
        let is_safe = !self.others_may_write();
        if !is_safe && !self.is_trusted(stat.st_uid) {
            return Err(PathFault::Link { path, uid: stat.st_uid });
        }
        self.links += 1;
        let fault = |errno| PathFault::System { path: path.clone(), errno };
        if self.links > LINKS_MAX {
            return Err(fault(Errno::LOOP));
        }
        // The text of a link such as /proc/PID/root names nothing: the kernel alone follows it.
        if fstatfs(link).map_err(fault)?.f_type == PROC_SUPER_MAGIC {
            let name = path.file_name().unwrap_or_default();
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let fd = openat(&self.fd, name, flags, Mode::empty()).map_err(fault)?;
            let stat = fstat(&fd).map_err(fault)?;
            (self.fd, self.stat, self.path, self.is_roots_way) = (fd, stat, path, false);
            return Ok(());
        }
        let target = readlinkat(link, "", Vec::new()).map_err(fault)?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            (self.fd, self.stat) = open_place(CWD, OsStr::new("/")).map_err(fault)?;
            self.path = "/".into();
        }
        self.push(&target);
        Ok(())
    }

    /// Checks the directory that the walk has reached, before it uses a name in it.
    fn check_way(&mut self) -> Result<(), PathFault> {
        let (uid, mode) = (self.stat.st_uid, self.stat.st_mode & 0o7777);
        let is_unknown = !self.users.names_one(uid);
        let others_write = self.others_may_write();
        let root_alone_writes = !others_may_write(&self.fd, &self.stat, |user| user == 0);
        self.is_roots_way &= root_alone_writes && (is_unknown || uid == 0);
        let is_safe = !others_write || mode & STICKY != 0;
        if is_safe && (is_unknown || self.is_trusted(uid)) {
            return Ok(());
        }
        Err(PathFault::Parent { path: self.path.clone(), uid, mode })
    }

    fn into_target(mut self) -> Result<CheckedPath, PathFault> {
        self.go_on(1)?;
        if let Some((fd, stat, path)) = self.open_next()? {
            if FileType::from_raw_mode(stat.st_mode).is_symlink() {
                return Err(PathFault::Link { path, uid: stat.st_uid });
            }
            (self.fd, self.stat, self.path) = (fd, stat, path);
        }
        let Self { fd, stat, path, is_roots_way, users, own, .. } = self;
        Ok(CheckedPath { fd, stat, path, is_roots_way, users, own })
    }
}

impl CheckedPath {
    /// Opens the object at `path`, and checks the way to it. A caller with more rights than its
    /// user, as [`own_user`](crate::own_user) says, trusts root alone.
    ///
    /// # Errors
    /// [`PathFault`]; `NOENT` if the target or a part of the way is absent.
    ///
    /// # Source
    /// path_resolution(7), openat(2)
    pub fn open(path: &Path) -> Result<Self, PathFault> {
        Walk::begin(path, crate::own_user())?.into_target()
    }

    /// As [`open`](Self::open), for a caller that reads and believes nothing. Root also trusts the
    /// owner of the object: nobody else can change the way to it.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_for_reading(path: &Path) -> Result<Self, PathFault> {
        let own = match crate::own_user() {
            Some(0) => statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).map_or(0, |stat| stat.st_uid),
            other => return Walk::begin(path, other)?.into_target(),
        };
        Walk::begin(path, Some(own))?.into_target()
    }

    /// Makes a directory, and opens it or the one that exists. Returns whether it is new.
    ///
    /// The caller may hold capabilities, as the daemon of a system does: the directory is its own
    /// work. A caller with [borrowed rights](crate::borrowed_rights) trusts root alone.
    ///
    /// # Errors
    /// As [`open`](Self::open), and of mkdir(2).
    pub fn make_directory(path: &Path, mode: u32) -> Result<(Self, bool), PathFault> {
        let own = crate::borrowed_rights().is_none().then(crate::user_id);
        let mut walk = Walk::begin(path, own)?;
        walk.go_on(1)?;
        let Some(name) = walk.rest.last().cloned() else { return Ok((walk.into_target()?, false)) };
        walk.check_way()?;
        let is_new = match mkdirat(&walk.fd, &name, Mode::from_raw_mode(mode)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(PathFault::System { path: walk.path.join(&name), errno }),
        };
        Ok((walk.into_target()?, is_new))
    }

    /// The owner.
    #[must_use]
    pub fn user(&self) -> u32 {
        self.stat.st_uid
    }

    /// The users of the namespace in which the walk took place.
    #[must_use]
    pub fn users(&self) -> UserNames {
        self.users
    }

    /// Whether it belongs to root or to the user that the walk trusted.
    #[must_use]
    pub fn is_roots_or_own(&self) -> bool {
        self.trusts(self.user())
    }

    /// Whether this is root or the user that the walk trusted.
    #[must_use]
    pub fn trusts(&self, uid: u32) -> bool {
        self.users.names_one(uid) && (uid == 0 || self.own == Some(uid))
    }

    /// Whether it belongs to the user that the walk trusted beside root.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.users.names_one(self.user()) && self.own == Some(self.user())
    }

    /// The permission bits.
    #[must_use]
    pub fn mode(&self) -> u32 {
        self.stat.st_mode & 0o7777
    }

    /// The path without symbolic links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode).is_dir()
    }

    /// Whether this is a plain file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode).is_file()
    }

    /// Whether users may write it that the walk did not trust: all, or those of its group. A group
    /// whose only user is trusted does not count.
    #[must_use]
    pub fn others_may_write(&self) -> bool {
        others_may_write(&self.fd, &self.stat, |uid| self.trusts(uid))
    }

    /// Whether each directory on the way belongs to root and nobody else may write it. Root alone
    /// made this object then, or gave it away.
    ///
    /// In a user namespace that does not map root, unknown owners count as root here: only the
    /// maker of the file system tree has directories such as `/` and `/run`.
    #[must_use]
    pub fn is_roots_way(&self) -> bool {
        self.is_roots_way
    }

    /// Connects to the packet socket `name` in this directory, within a time limit.
    ///
    /// # Errors
    /// As [`connect_within`](crate::connect_within).
    pub fn connect(&self, name: &str, limit: Duration) -> Result<OwnedFd, Errno> {
        self.connect_by(name, |path| packet::connect_within(path, limit))
    }

    /// The same for a stream socket.
    ///
    /// # Errors
    /// As [`connect_stream_within`](crate::connect_stream_within).
    pub fn connect_stream(&self, name: &str, limit: Duration) -> Result<OwnedFd, Errno> {
        self.connect_by(name, |path| crate::connect_stream_within(path, limit))
    }

    fn connect_by(
        &self,
        name: &str,
        connect: impl Fn(&Path) -> Result<OwnedFd, Errno>,
    ) -> Result<OwnedFd, Errno> {
        let through = format!("/proc/self/fd/{}/{name}", self.fd.as_raw_fd());
        match connect(Path::new(&through)) {
            // Without /proc, the path: no other user can change the way.
            Err(Errno::NOENT) if self.has(name) => connect(&self.path.join(name)),
            other => other,
        }
    }

    /// Whether this directory has an object of that name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Opens a plain file of this directory for reading. Waits for nothing, and follows no link.
    ///
    /// # Errors
    /// `INVAL` if the object is no plain file; others of openat(2).
    pub fn open_file(&self, name: &OsStr) -> Result<std::fs::File, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.fd, name, flags, Mode::empty())?;
        if !FileType::from_raw_mode(fstat(&file)?.st_mode).is_file() {
            return Err(Errno::INVAL);
        }
        Ok(file.into())
    }
}

/// The command that takes the right to write from others; `None` if the mode gives them none.
///
/// A group counts here, also if it has one user: the caller has found that it matters.
#[must_use]
pub fn repair_of_mode(path: &Path, mode: u32) -> Option<String> {
    let whose = match (mode & GROUP_WRITE != 0, mode & ALL_WRITE != 0) {
        (true, true) => "go",
        (true, false) => "g",
        (false, true) => "o",
        (false, false) => return None,
    };
    Some(format!("chmod {whose}-w {}", path.display()))
}

impl AsFd for CheckedPath {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn others_may_write(fd: &OwnedFd, stat: &Stat, is_trusted: impl FnOnce(u32) -> bool) -> bool {
    let group_may_write = stat.st_mode & GROUP_WRITE != 0;
    let is_of_group = || crate::only_user_of_group(stat.st_gid).is_some_and(is_trusted);
    stat.st_mode & ALL_WRITE != 0 || group_may_write && !(is_of_group() && names_no_user(fd))
}

/// Whether a file has no list of users besides its mode (acl(5)), whose mask is the group's bits.
fn names_no_user(fd: &OwnedFd) -> bool {
    let through = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let list = rustix::fs::getxattr(through, "system.posix_acl_access", &mut [0_u8; 0][..]);
    matches!(list, Err(Errno::NODATA | Errno::OPNOTSUPP))
}

fn open_place(at: impl AsFd, name: impl AsRef<OsStr>) -> Result<(OwnedFd, Stat), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = crate::above_standard(openat(at, name.as_ref(), flags, Mode::empty())?)?;
    let stat = fstat(&fd)?;
    Ok((fd, stat))
}

#[cfg(test)]
mod tests;
