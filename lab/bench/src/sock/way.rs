//! What is measured among sockets, and what each needs before its two sides exist.

use std::any::Any;
use std::ffi::OsString;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::pipe::{PipeFlags, pipe_with};

use super::Test;
use crate::error::Error;
use crate::job::Wait;
use crate::mechanism::{Family, Inherited, Site};
use crate::ours::OpenVm;
use crate::payload::MESSAGE_BYTES;

/// A kind of connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A com-socket, by its own calls.
    ComSocket,
    /// A Unix stream under libm3sock.
    ShimUnix,
    /// TCP over loopback under libm3sock.
    ShimTcp,
    /// A Unix stream.
    Unix,
    /// TCP over loopback, without Nagle's delay.
    Tcp,
    /// A pipe; messages one way only.
    Pipe,
    /// Copies within one process: the floor of a stream.
    Memcpy,
    /// Round trips of IPC2: the floor of a request and its answer.
    Ipc2,
}

use Way::{ComSocket, Ipc2, Memcpy, Pipe, ShimTcp, ShimUnix, Tcp, Unix};

/// All of them, ours first.
pub const ALL: [Way; 8] = [ComSocket, ShimUnix, ShimTcp, Unix, Tcp, Pipe, Memcpy, Ipc2];

/// Where the preload library is, for one that is neither beside this program nor in `../lib/m3ipc`.
const LIBRARY: &str = "M3_SOCK_LIBRARY";
const LIBRARY_NAME: &str = "libm3sock.so";
/// From the folder of this program.
const PLACES: [&str; 3] = ["", "../lib/m3ipc", "../lib64/m3ipc"];
/// Connections that may wait at a listener of ours.
pub const BACKLOG: u32 = 4_096;

/// What both sides need.
pub struct Opened {
    /// What the client gets.
    pub client: Inherited,
    /// What the server gets, where there is one.
    pub server: Option<Inherited>,
    /// What must live for as long as the measurement.
    pub keep: Option<Box<dyn Any>>,
    /// Variables of both processes' environments.
    pub environment: Vec<(OsString, OsString)>,
}

impl Way {
    /// Its name in tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ComSocket => "com-socket",
            ShimUnix => "shim-unix",
            ShimTcp => "shim-tcp",
            Unix => "unix-stream",
            Tcp => "tcp",
            Pipe => "pipe",
            Memcpy => "memcpy",
            Ipc2 => "ipc2",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        ALL.into_iter().find(|way| way.name() == name)
    }

    /// What it stands for.
    #[must_use]
    pub const fn family(self) -> Family {
        match self {
            ComSocket | ShimUnix | ShimTcp => Family::Ours,
            Unix | Tcp | Pipe => Family::Kernel,
            Memcpy | Ipc2 => Family::Floor,
        }
    }

    /// How its sides wait.
    #[must_use]
    pub const fn wait(self) -> Wait {
        match self {
            Memcpy => Wait::Spin,
            Unix | Tcp | Pipe => Wait::Block,
            ComSocket | ShimUnix | ShimTcp | Ipc2 => Wait::Adaptive,
        }
    }

    /// Whether it is under libm3sock.
    #[must_use]
    pub const fn is_shim(self) -> bool {
        matches!(self, ShimUnix | ShimTcp)
    }

    /// Whether it takes part in a test with messages of this size.
    #[must_use]
    pub fn takes_part(self, test: Test, bytes: usize) -> bool {
        match self {
            Pipe | Memcpy => test == Test::Stream,
            Ipc2 => matches!(test, Test::Trip | Test::Asleep) && bytes <= MESSAGE_BYTES,
            ShimUnix | ShimTcp => library().is_some(),
            _ => true,
        }
    }

    /// Opens what one measurement needs.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where this machine does not offer it.
    pub fn open(self, site: &Site) -> Result<Opened, Error> {
        let with = |fds: Vec<OwnedFd>, names: &[String]| Inherited { fds, names: names.to_vec() };
        let open = |client, server, keep: Option<Box<dyn Any>>| {
            Ok(Opened { client, server, keep, environment: self.environment() })
        };
        match self {
            Memcpy => open(with(vec![], &[]), None, None),
            ComSocket | Ipc2 => {
                let vm = OpenVm::at(site)?;
                let names = vm.names("server");
                open(with(vec![], &names), Some(with(vec![], &names)), Some(Box::new(vm)))
            }
            Unix | ShimUnix => {
                static NUMBER: AtomicU32 = AtomicU32::new(0);
                let number = NUMBER.fetch_add(1, Ordering::Relaxed);
                let name = format!("m3-bench-sock-{}-{number}", std::process::id());
                let address =
                    SocketAddr::from_abstract_name(&name).map_err(Error::os("name a socket"))?;
                let listener =
                    UnixListener::bind_addr(&address).map_err(Error::os("bind a Unix socket"))?;
                let names = [name];
                open(with(vec![], &names), Some(with(vec![listener.into()], &names)), None)
            }
            Tcp | ShimTcp => {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| {
                    Error::Unavailable {
                        why: format!("TCP cannot listen on 127.0.0.1: {error}"),
                        next: "bring the loopback device up (ip link set lo up)",
                    }
                })?;
                let names = [listener.local_addr().map_err(Error::os("getsockname"))?.to_string()];
                open(with(vec![], &names), Some(with(vec![listener.into()], &names)), None)
            }
            Pipe => {
                let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(Error::os("pipe"));
                let ((there_out, there_in), (back_out, back_in)) = (pipe()?, pipe()?);
                open(
                    with(vec![back_out, there_in], &[]),
                    Some(with(vec![there_out, back_in], &[])),
                    None,
                )
            }
        }
    }

    /// What makes a process one under libm3sock.
    fn environment(self) -> Vec<(OsString, OsString)> {
        let library = if self.is_shim() { library() } else { None };
        library.map(|path| ("LD_PRELOAD".into(), path.into())).into_iter().collect()
    }
}

/// The preload library: where the variable says, beside this program, or where it is installed.
fn library() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(LIBRARY) {
        return Some(PathBuf::from(path)).filter(|path| path.is_file());
    }
    let exe = std::env::current_exe().ok()?;
    let beside = exe.parent()?;
    PLACES.iter().map(|place| beside.join(place).join(LIBRARY_NAME)).find(|path| path.is_file())
}

/// Why there are no rows of sockets under the preload library, where there are none.
#[must_use]
pub fn left_out() -> Option<String> {
    let why = format!(
        "shim-unix, shim-tcp: {LIBRARY_NAME} is neither beside this program nor in ../lib/m3ipc; name it with {LIBRARY}"
    );
    library().is_none().then_some(why)
}
