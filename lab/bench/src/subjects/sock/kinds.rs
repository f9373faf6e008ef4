//! The kinds of sockets, and the transport of each.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;

use super::counters::Counters;
use crate::error::Error;
use crate::job::{Load, Role};
use crate::subject::{Inherited, Opened, Site};
use crate::subjects::channel;
use crate::subjects::node::BenchVm;
use crate::unique;

/// A kind of socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketKind {
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
    /// A pipe, for messages one way.
    Pipe,
    /// Copies within one process: the floor of a stream.
    Memcpy,
    /// IPC2: the floor of a request and its answer.
    Ipc2,
}

/// The variable that names the preload library.
const VARIABLE: &str = "M3_SOCK_LIBRARY";
const LIBRARY: &str = "libm3sock.so";
/// Directories of the library, relative to that of this program.
const DIRECTORIES: [&str; 3] = ["", "../lib/m3ipc", "../lib64/m3ipc"];
/// Connections that may wait at a listener.
pub const BACKLOG: u32 = 4_096;

/// The preload library: named by the variable, beside this program, or installed.
pub fn library() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(VARIABLE) {
        return Some(PathBuf::from(path)).filter(|path| path.is_file());
    }
    let exe = std::env::current_exe().ok()?;
    let own = exe.parent()?;
    let paths = DIRECTORIES.iter().map(|directory| own.join(directory).join(LIBRARY));
    paths.into_iter().find(|path| path.is_file())
}

/// The reason for missing rows of the preload library, if they are missing.
pub fn left_out() -> Option<String> {
    let why = format!(
        "shim-unix, shim-tcp, shim-iperf3: {LIBRARY} is neither beside this program nor in \
         ../lib/m3ipc; name it with {VARIABLE}"
    );
    library().is_none().then_some(why)
}

impl SocketKind {
    /// Its name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ComSocket => "com-socket",
            Self::ShimUnix => "shim-unix",
            Self::ShimTcp => "shim-tcp",
            Self::Unix => "unix-stream",
            Self::Tcp => "tcp",
            Self::Pipe => "pipe",
            Self::Memcpy => "memcpy",
            Self::Ipc2 => "ipc2",
        }
    }

    /// Opens the transport. The client starts when the server accepts connections.
    pub fn open(self, site: &Site, load: &Load) -> Result<Opened, Error> {
        let pair = |client, server| {
            Opened::default().with(Role::Server, server).then(Role::Client, client)
        };
        let named = |name: String, listener| {
            let names = vec![name];
            let server = Inherited { fds: vec![listener], names: names.clone() };
            pair(Inherited::names(names), server)
        };
        let mut opened = match self {
            Self::Memcpy => Opened::alone(Inherited::default()),
            Self::ComSocket | Self::Ipc2 => {
                let vm = BenchVm::open(site)?;
                pair(vm.inherited("server"), vm.inherited("server")).keeping(vm)
            }
            Self::Unix | Self::ShimUnix => {
                let name = format!("m3-bench-sock-{}-{}", std::process::id(), unique::number());
                let address = SocketAddr::from_abstract_name(&name);
                let address = address.map_err(Error::os("name a socket"))?;
                let listener = UnixListener::bind_addr(&address);
                named(name, listener.map_err(Error::os("bind a Unix socket"))?.into())
            }
            Self::Tcp | Self::ShimTcp => {
                let listener = channel::tcp_listener()?;
                let address = listener.local_addr().map_err(Error::os("getsockname"))?;
                named(address.to_string(), listener.into())
            }
            Self::Pipe => {
                let (client, server) = channel::pipes()?;
                pair(client.into_inherited(), server.into_inherited())
            }
        };
        if let Self::ShimUnix | Self::ShimTcp = self {
            preload(&mut opened, load)?;
        }
        Ok(opened)
    }
}

/// Lets the processes run under the preload library, where there is one, and adds its counters.
pub fn preload(opened: &mut Opened, load: &Load) -> Result<(), Error> {
    let Some(library) = library() else { return Ok(()) };
    let (counters, test) = (Counters::new()?, load.test);
    opened.environment = vec![("LD_PRELOAD".into(), library.into()), counters.variable()];
    opened.finish = Some(Box::new(move |reports, found| {
        let trips = reports.last().map_or(1, |client| client.window_trips);
        counters.add_to(&mut found.round, test, trips)
    }));
    Ok(())
}
