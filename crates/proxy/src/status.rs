//! What a running proxy tells the user of its node, at a socket in the runtime directory.
//!
//! ```text
//! proxy.sock   connect, read one JSON object, end of file; the proxy reads nothing
//! ```
//! Only root and the user of the proxy get an answer. An answer is written at once or not at all,
//! and its size is bounded by the registry, so no reader can hold up the proxy.

use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use m3ipc::runtime::{self, ConnectError, DirectoryError};
use serde::{Deserialize, Serialize};

/// The name of the socket in the runtime directory.
pub const SOCKET_NAME: &str = "proxy.sock";
/// The largest answer that a client reads.
const ANSWER_MAX_BYTES: usize = 1 << 20;
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
    /// The certificate that ends first, of this node or of the CA. None without TLS.
    #[serde(default)]
    pub certificate: Option<CertificateEnd>,
    /// The other nodes.
    pub nodes: Vec<NodeStatus>,
}

/// The end of a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateEnd {
    /// Its file in the directory of the keys.
    pub file: String,
    /// Seconds since 1970 at its end.
    pub at_s: u64,
}

/// The time before the end of a certificate in which people are warned, in seconds: 14 days.
pub const CERTIFICATE_WARNING_S: u64 = 14 * 86_400;

impl CertificateEnd {
    /// What a person must know of it now, and do. `None` if the end is far.
    #[must_use]
    pub fn warning(&self, now_s: u64) -> Option<String> {
        let left_s = self.at_s.saturating_sub(now_s);
        let when = match left_s {
            0 => "has ended: no new connection succeeds".to_owned(),
            1..172_800 => format!("ends in {} h", left_s.div_ceil(3_600)),
            _ if left_s > CERTIFICATE_WARNING_S => return None,
            _ => format!("ends in {} days", left_s / 86_400),
        };
        let file = &self.file;
        Some(format!(
            "the certificate {file} {when}; put a new {file} in its place, and send SIGHUP to the \
             proxy"
        ))
    }
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
    // The sandbox hides the capabilities of others. The mode of the socket keeps out user 0 without
    // them, and the status gives no rights.
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
    /// The runtime directory is not trusted.
    #[error(transparent)]
    Untrusted(DirectoryError),
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
    let end = Instant::now() + LIMIT;
    let connected = runtime::connect_stream(directory, SOCKET_NAME, LIMIT);
    let stream = connected.map_err(|error| match error {
        // Earlier readers of a stopped proxy wait in its queue, though they are gone.
        ConnectError::NoDaemon { cause, .. } if cause.kind() == ErrorKind::WouldBlock => {
            StatusError::Stuck { directory: directory.into(), pid: registered(directory) }
        }
        ConnectError::NoDaemon { cause, .. } if cause.kind() == ErrorKind::PermissionDenied => {
            forbidden(directory, cause)
        }
        ConnectError::NotAllowed { .. } => forbidden(directory, ErrorKind::PermissionDenied.into()),
        ConnectError::NoDaemon { cause, .. }
        | ConnectError::Directory(DirectoryError::Unusable { cause, .. }) => {
            StatusError::Absent { directory: directory.into(), cause }
        }
        ConnectError::Directory(DirectoryError::NotOurs { uid: owner, .. })
            if m3ipc_sys::user_id() != 0 && owner != m3ipc_sys::user_id() =>
        {
            StatusError::Forbidden { what: "the node of", directory: directory.into(), owner }
        }
        ConnectError::Directory(error) => StatusError::Untrusted(error),
        other => {
            StatusError::Absent { directory: directory.into(), cause: io::Error::other(other) }
        }
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
    read(stream, pid, end).map_err(|cause| match cause.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            StatusError::Stuck { directory: directory.into(), pid: Some(pid) }
        }
        // The proxy closes the connection of a user that may not ask.
        ErrorKind::PermissionDenied if uid != m3ipc_sys::user_id() => others(),
        _ => silent(cause),
    })
}

/// The error of a user that may not connect.
fn forbidden(directory: &Path, cause: io::Error) -> StatusError {
    let owner = |path: &Path| std::fs::metadata(path).map(|it| it.uid()).ok();
    let of_proxy = owner(&directory.join(SOCKET_NAME)).map(|owner| ("the proxy of", owner));
    match of_proxy.or_else(|| owner(directory).map(|owner| ("the node of", owner))) {
        Some((what, owner)) => StatusError::Forbidden { what, directory: directory.into(), owner },
        None => StatusError::Absent { directory: directory.into(), cause },
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

fn read(stream: OwnedFd, pid: i32, end: Instant) -> io::Result<Asked> {
    let process = m3ipc_sys::peer_pidfd(&stream)?;
    let left = end.saturating_duration_since(Instant::now());
    let text = m3ipc_sys::read_within(&stream, ANSWER_MAX_BYTES, left)?;
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
            certificate: None,
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
    fn the_end_of_a_certificate_is_told_two_weeks_before() {
        let end = CertificateEnd { file: "alpha.pem".into(), at_s: 100 * 86_400 };
        let said = |days: u64| end.warning(days * 86_400);
        assert_eq!(said(85), None);
        assert!(said(86).is_some_and(|text| text.contains("alpha.pem ends in 14 days")));
        assert!(said(99).is_some_and(|text| text.contains("ends in 24 h")));
        assert!(said(100).is_some_and(|text| text.contains("has ended")));
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
    fn a_proxy_that_answers_byte_by_byte_holds_no_reader_up() {
        let directory = directory("slow");
        let listener = UnixListener::bind(directory.join(SOCKET_NAME)).expect("it is free");
        let writer = std::thread::spawn(move || {
            let (mut reader, _) = listener.accept().expect("one asks");
            // The reader gives up, and the kernel refuses the next byte.
            while reader.write_all(b" ").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let error = ask(&directory).expect_err("no answer ends");
        assert!(matches!(error, StatusError::Stuck { .. }), "{error}");
        writer.join().expect("no panic");
        std::fs::remove_dir_all(&directory).expect("a test may write there");
    }

    #[test]
    fn a_proxy_in_a_directory_that_others_can_write_is_not_asked() {
        let directory = directory("open");
        let _socket = StatusSocket::listen(&directory).expect("the directory is ours");
        let mode = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(&directory, mode).expect("own files");
        let error = ask(&directory).expect_err("anybody may have made that socket");
        assert!(matches!(error, StatusError::Untrusted(_)), "{error}");
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
