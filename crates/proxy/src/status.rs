//! What a running proxy tells the user of its node, at a socket in the runtime directory.
//!
//! ```text
//! proxy.sock   connect, read one JSON object, end of file; the proxy reads nothing
//! ```
//! Only root and the user of the proxy get an answer. An answer is written at once or not at all,
//! and its size is bounded by the registry, so no reader can hold up the proxy.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// The name of the socket in the runtime directory.
pub const SOCKET_NAME: &str = "proxy.sock";
/// The largest answer that a client reads.
const ANSWER_MAX_BYTES: u64 = 1 << 20;
/// The time that a client waits.
const LIMIT: Duration = Duration::from_secs(3);
/// Readers that are served before the proxy turns to its work again.
const READERS: u32 = 4;

/// A proxy and the other nodes, as it sees them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The name of the cluster.
    pub cluster: String,
    /// The name of the own node.
    pub node: String,
    /// Its id.
    pub id: u16,
    /// Where the proxy listens.
    pub address: String,
    /// The number of its life.
    pub incarnation: u64,
    /// Seconds since 1970 at the begin of this life.
    pub since: u64,
    /// Whether the other nodes prove who they are.
    pub tls: bool,
    /// Whether the daemon of this node runs. Without it no other field but the first four counts.
    pub daemon: bool,
    /// Stand-ins for endpoints of other nodes.
    pub stand_ins: usize,
    /// The other nodes.
    pub nodes: Vec<NodeStatus>,
}

/// Another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: u16,
    /// Where its proxy listens.
    pub address: String,
    /// Whether calls can reach it.
    pub state: State,
    /// Seconds since 1970 at the begin of that state.
    pub since: u64,
    /// Why it cannot be reached, as far as this proxy knows.
    pub why: Option<String>,
    /// The number of the life of its proxy.
    pub incarnation: Option<u64>,
    /// The round trip of the connection in microseconds, as the kernel has smoothed it: with the
    /// time that the other side delays acknowledgements, so that of a call is far shorter.
    pub round_trip_us: Option<u64>,
    /// What this proxy has sent to it.
    pub sent: Traffic,
    /// What came from it.
    pub received: Traffic,
    /// How often it could be reached and then was lost.
    pub lost: u64,
}

/// Whether calls can reach a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// No connection has succeeded yet.
    #[default]
    Awaited,
    /// They can.
    Up,
    /// They could, and cannot now.
    Lost,
}

/// Packets and their bytes, without those of TLS and TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Packets: messages, answers, acknowledgements, heartbeats.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Traffic {
    /// Counts a packet.
    pub fn count(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

/// Seconds since 1970.
#[must_use]
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The socket of a running proxy.
#[derive(Debug)]
pub struct StatusSocket(UnixListener);

impl StatusSocket {
    /// Listens. An earlier socket of that name belongs to an earlier life.
    ///
    /// # Errors
    /// The runtime directory takes no socket.
    pub fn listen(directory: &Path) -> io::Result<Self> {
        let path = directory.join(SOCKET_NAME);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    /// Answers the readers that wait.
    pub fn serve(&self, status: impl Fn() -> Status) {
        for _ in 0..READERS {
            let Ok((reader, _)) = self.0.accept() else { return };
            // A reader that does not read, or that is gone, loses its answer.
            let _ = answer(reader, &status);
        }
    }
}

impl AsFd for StatusSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn answer(mut reader: UnixStream, status: &impl Fn() -> Status) -> io::Result<()> {
    let uid = m3ipc_sys::peer_user(&reader)?;
    if uid != 0 && uid != m3ipc_sys::user_id() {
        return Err(ErrorKind::PermissionDenied.into());
    }
    reader.set_nonblocking(true)?;
    let text = serde_json::to_vec(&status()).map_err(io::Error::other)?;
    reader.write_all(&text)
}

/// Why there is no status.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// Nothing listens.
    #[error(
        "no proxy serves the node of {directory} ({cause}); start one with `m3 node join`, or name \
         the node with --runtime-dir"
    )]
    Absent {
        /// The runtime directory.
        directory: PathBuf,
        /// The system's reason.
        cause: io::Error,
    },
    /// The node or its proxy belongs to another user.
    #[error(
        "{what} {directory} belongs to user {owner}, and this is user {own}; run this command as \
         that user or as root",
        own = m3ipc_sys::user_id()
    )]
    Forbidden {
        /// What belongs to that user: `the node of`, `the proxy of`.
        what: &'static str,
        /// The runtime directory.
        directory: PathBuf,
        /// The user.
        owner: u32,
    },
    /// The proxy does not answer in time.
    #[error("{}", stuck(directory, *pid))]
    Stuck {
        /// The runtime directory.
        directory: PathBuf,
        /// The process id of the proxy, if it is known.
        pid: Option<i32>,
    },
    /// The proxy gave no answer, or another one.
    #[error(
        "the proxy of {directory} gives no status: {cause}; see its log, and run this command in \
         the release of the proxy"
    )]
    Silent {
        /// The runtime directory.
        directory: PathBuf,
        /// The reason.
        cause: io::Error,
    },
}

/// A proxy that has answered.
#[derive(Debug)]
pub struct Asked {
    /// Its answer.
    pub status: Status,
    /// Its process id.
    pub pid: i32,
    /// A descriptor of its process.
    pub process: OwnedFd,
}

/// Asks the proxy of a runtime directory.
///
/// # Errors
/// There is none, or it does not answer this user in time.
pub fn ask(directory: &Path) -> Result<Asked, StatusError> {
    let connected = m3ipc_sys::connect_stream_within(&directory.join(SOCKET_NAME), LIMIT);
    let stream = connected.map(UnixStream::from).map_err(|errno| match errno {
        // Earlier readers of a stopped proxy wait in its queue, though they are gone.
        m3ipc_sys::Errno::AGAIN => {
            StatusError::Stuck { directory: directory.into(), pid: registered(directory) }
        }
        m3ipc_sys::Errno::ACCESS => forbidden(directory, errno),
        errno => StatusError::Absent { directory: directory.into(), cause: errno.into() },
    })?;
    let silent = |cause| StatusError::Silent { directory: directory.into(), cause };
    let uid = m3ipc_sys::peer_user(&stream).map_err(|errno| silent(errno.into()))?;
    let is_foreign = uid != 0 && uid != m3ipc_sys::user_id() && m3ipc_sys::user_id() != 0;
    let others =
        || StatusError::Forbidden { what: "the proxy of", directory: directory.into(), owner: uid };
    if is_foreign {
        return Err(others());
    }
    let pid = m3ipc_sys::peer_identity(&stream).map_err(|errno| silent(errno.into()))?.pid;
    read(stream, pid).map_err(|cause| match cause.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            StatusError::Stuck { directory: directory.into(), pid: Some(pid) }
        }
        // The proxy closes the connection of a user that may not ask.
        ErrorKind::PermissionDenied if uid != m3ipc_sys::user_id() => others(),
        _ => silent(cause),
    })
}

/// The error of a user that may not connect.
fn forbidden(directory: &Path, errno: m3ipc_sys::Errno) -> StatusError {
    let owner = |path: &Path| std::fs::metadata(path).map(|it| it.uid()).ok();
    let of_proxy = owner(&directory.join(SOCKET_NAME)).map(|owner| ("the proxy of", owner));
    match of_proxy.or_else(|| owner(directory).map(|owner| ("the node of", owner))) {
        Some((what, owner)) => StatusError::Forbidden { what, directory: directory.into(), owner },
        None => StatusError::Absent { directory: directory.into(), cause: errno.into() },
    }
}

/// The process id of the proxy, as the daemon of the node knows it.
fn registered(directory: &Path) -> Option<i32> {
    let mut node = m3ipc::Node::find_timeout(directory, LIMIT).ok()?;
    node.other_nodes().ok()?.proxy_pid
}

/// Why a proxy does not answer, and the next step.
fn stuck(directory: &Path, pid: Option<i32>) -> String {
    let proxy = format!("the proxy of {}", directory.display());
    match pid.filter(|pid| *pid > 0) {
        Some(pid) if m3ipc_sys::is_stopped(pid) == Ok(true) => {
            format!("{proxy} (pid {pid}) is stopped; `kill -CONT {pid}` lets it go on")
        }
        Some(pid) => format!(
            "{proxy} (pid {pid}) does not answer; if it is stopped, `kill -CONT {pid}` lets it go \
             on"
        ),
        None => format!(
            "{proxy} does not answer; if it is stopped, `kill -CONT PID` lets it go on, with its \
             pid of `pgrep m3-proxy`"
        ),
    }
}

fn read(stream: UnixStream, pid: i32) -> io::Result<Asked> {
    let process = m3ipc_sys::peer_pidfd(&stream)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let mut text = Vec::new();
    stream.take(ANSWER_MAX_BYTES).read_to_end(&mut text)?;
    if text.is_empty() {
        return Err(ErrorKind::PermissionDenied.into());
    }
    let status = serde_json::from_slice(&text).map_err(io::Error::other)?;
    Ok(Asked { status, pid, process })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(nodes: usize) -> Status {
        let node = |number: usize| NodeStatus {
            name: format!("node-{number}"),
            id: 7,
            address: "192.0.2.1:7400".into(),
            state: State::Up,
            since: 1,
            why: None,
            incarnation: Some(u64::MAX),
            round_trip_us: Some(1),
            sent: Traffic { packets: 1, bytes: u64::MAX },
            received: Traffic::default(),
            lost: 0,
        };
        Status {
            cluster: "lab".into(),
            node: "alpha".into(),
            id: 1,
            address: "192.0.2.1:7400".into(),
            incarnation: 1,
            since: 1,
            tls: true,
            daemon: true,
            stand_ins: 0,
            nodes: (0..nodes).map(node).collect(),
        }
    }

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("m3-status-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).expect("a test may write there");
        path
    }

    #[test]
    fn a_reader_gets_the_status_and_a_successor_takes_the_socket_over() {
        let directory = directory("read");
        assert!(matches!(ask(&directory), Err(StatusError::Absent { .. })));
        for nodes in [0, 2, 256] {
            let socket = StatusSocket::listen(&directory).expect("the directory is ours");
            let path = directory.clone();
            let asking = std::thread::spawn(move || ask(&path));
            while !asking.is_finished() {
                socket.serve(|| status(nodes));
            }
            let asked = asking.join().expect("no panic").expect("it answers");
            assert_eq!(
                (asked.status, asked.pid.cast_unsigned()),
                (status(nodes), std::process::id())
            );
        }
        std::fs::remove_dir_all(&directory).expect("a test may write there");
    }

    #[test]
    fn a_reader_that_does_not_read_holds_nobody_up() {
        let directory = directory("idle");
        let socket = StatusSocket::listen(&directory).expect("the directory is ours");
        let path = directory.join(SOCKET_NAME);
        let idle: Vec<UnixStream> =
            (0..3).map(|_| UnixStream::connect(&path).expect("it listens")).collect();
        // More than a socket holds: the rest is dropped with the connection.
        socket.serve(|| status(5_000));
        drop(idle);
        socket.serve(|| panic!("nobody asks"));
        std::fs::remove_dir_all(&directory).expect("a test may write there");
    }

    #[test]
    fn a_proxy_that_does_not_answer_is_named_by_its_pid() {
        let directory = directory("stuck");
        let socket = StatusSocket::listen(&directory).expect("the directory is ours");
        let error = ask(&directory).expect_err("nobody serves");
        let own = std::process::id();
        assert!(error.to_string().contains(&format!("`kill -CONT {own}`")), "{error}");
        drop(socket);
        std::fs::remove_dir_all(&directory).expect("a test may write there");
    }

    #[test]
    fn a_stopped_proxy_with_a_full_queue_holds_no_reader_up() {
        use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
        let directory = directory("full");
        let path = directory.join(SOCKET_NAME);
        let listener = socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("descriptors");
        bind(&listener, &SocketAddrUnix::new(&path).expect("a short path")).expect("it is free");
        listen(&listener, 0).expect("it is bound");
        // The queue takes one connection, and nobody accepts.
        let first = UnixStream::connect(&path).expect("there is room");
        let error = ask(&directory).expect_err("nobody accepts");
        assert!(matches!(error, StatusError::Stuck { pid: None, .. }), "{error}");
        assert!(error.to_string().contains("kill -CONT"), "{error}");
        drop((first, listener));
        std::fs::remove_dir_all(&directory).expect("a test may write there");
    }
}
