//! Why no connection of a program would get shared memory, for people.

use m3ipc_shim::connection::trial::{Obstacle, obstacle};
use m3ipc_shim::memory::user_directory::DirectoryFault;
use rustix::io::Errno;
use rustix::process::geteuid;
use std::path::Path;

/// What is in the way, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstruction {
    /// The cause.
    pub why: String,
    /// The next step.
    pub advice: String,
}

impl Obstruction {
    /// What is in the way of connections of this user, whose memory lies in `directory`.
    pub fn find(directory: &Path) -> Option<Self> {
        obstacle().map(|found| describe(&found, directory))
    }

    /// Cause and next step in one line.
    pub fn line(&self) -> String {
        format!("{}; {}", self.why, self.advice)
    }
}

const OTHER_DIRECTORY: &str = "name another directory in M3_RUNTIME_DIR or with --runtime-dir";

fn describe(obstacle: &Obstacle, directory: &Path) -> Obstruction {
    let shown = directory.display();
    let (why, advice) = match obstacle {
        Obstacle::Directory(fault) => return describe_directory(fault),
        Obstacle::Memory(errno) => match Errno::from_raw_os_error(*errno) {
            errno @ (Errno::NOSPC | Errno::DQUOT) => (
                format!("{shown} has no room for shared memory: {errno}"),
                format!("free some (`df {shown}`; `df -i {shown}`), or {OTHER_DIRECTORY}"),
            ),
            Errno::FBIG => (
                "the limit on the size of files is too small for shared memory".to_owned(),
                "raise it with `ulimit -f 1024` or more".to_owned(),
            ),
            errno => (
                format!("no memory can be made in {shown}: {errno}"),
                format!("{OTHER_DIRECTORY}, and check this machine with `m3 doctor`"),
            ),
        },
        Obstacle::Peers(errno) => match Errno::from_raw_os_error(*errno) {
            errno @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => (
                format!("no socket can be made: {errno}"),
                "raise the limit on descriptors with `ulimit -n`, or free some memory".to_owned(),
            ),
            errno => (
                format!("the kernel does not name the peers of sockets: {errno}"),
                "load its modules with `modprobe unix_diag` and `modprobe tcp_diag`, or allow \
                 netlink sockets in this container (sock_diag(7))"
                    .to_owned(),
            ),
        },
    };
    Obstruction { why, advice }
}

fn describe_directory(fault: &DirectoryFault) -> Obstruction {
    let (why, advice) = match fault {
        DirectoryFault::Shared { path, uid, mode } | DirectoryFault::Parent { path, uid, mode }
            if mode & 0o022 == 0 =>
        {
            let shown = path.display();
            (
                format!("user {uid} can replace files in {shown} (mode {mode:04o})"),
                OTHER_DIRECTORY.to_owned(),
            )
        }
        DirectoryFault::Shared { path, uid, mode } | DirectoryFault::Parent { path, uid, mode } => {
            let shown = path.display();
            (
                format!("other users can replace files in {shown} (mode {mode:04o}, user {uid})"),
                format!("take their rights with `chmod go-w {shown}`, or {OTHER_DIRECTORY}"),
            )
        }
        DirectoryFault::Link { path, uid } => (
            format!("user {uid} can replace the link {}", path.display()),
            OTHER_DIRECTORY.to_owned(),
        ),
        DirectoryFault::Taken { path, uid, mode } if *uid == geteuid().as_raw() => (
            format!("other users may use {} (mode {mode:04o})", path.display()),
            format!("take their rights with `chmod 700 {}`", path.display()),
        ),
        DirectoryFault::Taken { path, uid, mode } => (
            format!("{} belongs to user {uid} (mode {mode:04o})", path.display()),
            format!("remove it, or {OTHER_DIRECTORY}"),
        ),
        DirectoryFault::User(uid) => (
            format!("user {uid} is no single user in this user namespace"),
            "map the user in /proc/self/uid_map, or run the program as another user".to_owned(),
        ),
        DirectoryFault::System { path, errno } => {
            let (shown, errno) = (path.display(), Errno::from_raw_os_error(*errno));
            let next = match errno {
                Errno::NOENT => format!("make it with `mkdir -m 700 {shown}`"),
                Errno::NOSPC | Errno::DQUOT => format!("free some room, or {OTHER_DIRECTORY}"),
                _ => OTHER_DIRECTORY.to_owned(),
            };
            (format!("{shown} cannot be used: {errno}"), next)
        }
    };
    Obstruction { why, advice }
}
