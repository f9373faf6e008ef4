//! Sockets: byte streams between two processes.
//!
//! ```text
//! sock-stream   client ══messages══> server, end of stream, <── number of bytes
//! sock-trip     client ──request──> server ──answer──> client: awake, asleep, by epoll
//! sock-connect  client connects: the call, and the first answer
//! sock-bulk     the program iperf3, with its own client and server
//! ```
//! Both sides use the same calls for every socket: those of the C library for the kernel's sockets
//! (a preload library sees them), those of `m3ipc-sockets` for com-sockets. The receiver checks
//! messages before the window as a whole, later ones by their numbers and by the sum of the bytes.

mod connect;
mod counters;
mod epoll;
mod iperf;
mod kinds;
mod line;
mod stream;
mod trip;

use m3ipc_report::schema::{Family, Placement, Wait};

use crate::error::Error;
use crate::job::{Load, Report, Role, Test};
use crate::payload::MESSAGE_BYTES;
use crate::run::Run;
use crate::subject::{Inherited, Opened, Site, Subject};

use iperf::Iperf;
use kinds::SocketKind;
pub use kinds::left_out;

/// A socket as a subject.
pub struct Socket(SocketKind);

/// The sockets, ours first.
const ALL: [Socket; 8] = [
    Socket(SocketKind::ComSocket),
    Socket(SocketKind::ShimUnix),
    Socket(SocketKind::ShimTcp),
    Socket(SocketKind::Unix),
    Socket(SocketKind::Tcp),
    Socket(SocketKind::Pipe),
    Socket(SocketKind::Memcpy),
    Socket(SocketKind::Ipc2),
];

/// The subjects, ours first.
pub fn all() -> Vec<&'static dyn Subject> {
    let sockets = ALL.iter().map(|subject| subject as &dyn Subject);
    sockets.chain(Iperf::ALL.iter().map(|subject| subject as &dyn Subject)).collect()
}

impl Subject for Socket {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn family(&self) -> Family {
        match self.0 {
            SocketKind::ComSocket | SocketKind::ShimUnix | SocketKind::ShimTcp => Family::Ours,
            SocketKind::Unix | SocketKind::Tcp | SocketKind::Pipe => Family::Kernel,
            SocketKind::Memcpy | SocketKind::Ipc2 => Family::Floor,
        }
    }

    fn waits(&self, load: &Load) -> &'static [Wait] {
        let trip = matches!(load.test, Test::SockTrip | Test::SockAsleep);
        let is_epoll = load.test == Test::SockEpoll;
        let takes_part = match self.0 {
            _ if load.test == Test::SockBulk => false,
            SocketKind::Pipe | SocketKind::Memcpy => load.test == Test::SockStream,
            // The floor of many connections is that of one.
            SocketKind::Ipc2 => (trip || is_epoll) && load.bytes <= MESSAGE_BYTES,
            SocketKind::ShimUnix | SocketKind::ShimTcp => kinds::library().is_some(),
            _ => true,
        };
        match self.0 {
            _ if !takes_part => &[],
            SocketKind::ShimUnix | SocketKind::ShimTcp if is_epoll => &[Wait::Block],
            SocketKind::Memcpy => &[Wait::Spin],
            SocketKind::Unix | SocketKind::Tcp | SocketKind::Pipe => &[Wait::Block],
            _ => &[Wait::Adaptive],
        }
    }

    fn placement(&self, wanted: Placement) -> Placement {
        if self.0 == SocketKind::Memcpy { Placement::Any } else { wanted }
    }

    fn open(&self, site: &Site, load: &Load) -> Result<Opened, Error> {
        self.0.open(site, load)
    }

    fn run(&self, run: &Run, inherited: Inherited) -> Result<Report, Error> {
        let (kind, test) = (self.0, run.load().test);
        match (kind, test, run.job().role) {
            (SocketKind::Memcpy, ..) => stream::within(run),
            (SocketKind::Ipc2, _, Role::Client) => trip::ask_by_ipc(run, &inherited),
            (SocketKind::Ipc2, ..) => trip::answer_by_ipc(run, &inherited),
            (_, Test::SockStream, Role::Client) => stream::send(run, kind, inherited),
            (_, Test::SockStream, _) => stream::receive(run, kind, inherited),
            (_, Test::SockConnect, Role::Client) => connect::connect(run, kind, &inherited),
            (_, Test::SockConnect, _) => connect::accept(run, kind, inherited),
            (_, _, Role::Client) => trip::ask(run, kind, &inherited),
            (_, Test::SockEpoll, _) => epoll::answer(run, kind, inherited),
            _ => trip::answer(run, kind, inherited),
        }
    }
}
