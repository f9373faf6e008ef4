//! A daemon that makes each connection with a hostile partner: a thread that speaks its frames.
//!
//! The product's own `Domain` connects to it, so all code of a connection is the product's.

use m3ipc_shm::Shared;
use m3ipc_sockets::{Domain, Stream};
use m3ipc_sys::Errno;
use m3ipc_wire::sock::{SOCK_CONTROL_BYTES, SOCK_POOL_BYTES};
use m3ipc_wire::{
    FromDaemon, REQUEST_MAX_BYTES, Reply, Request, SockConnection, SockReply, SockRequest, VERSION,
    decode, encode,
};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

/// The network of the domains, and the hostile listener in it.
const NETWORK: u32 = 0xc0a8_0000;
const LISTENER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 168, 0, 3), 80);

/// What the hostile partner of the latest connection can write, and the pool that it gives.
struct Latest {
    partner: Partner,
    pool: OwnedFd,
}

static LATEST: Mutex<Option<Latest>> = Mutex::new(None);

/// The hostile partner of a connection: it may write all of this.
#[derive(Debug)]
pub(super) struct Partner {
    pub(super) control: Shared,
    pub(super) pool: Shared,
    pub(super) socket: OwnedFd,
}

fn latest() -> std::sync::MutexGuard<'static, Option<Latest>> {
    LATEST.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    static DOMAIN: Domain = join();
}

/// A new connection, and its partner.
pub(super) fn connect() -> (Stream, Partner) {
    let stream = DOMAIN.with(|domain| {
        loop {
            match domain.connect(LISTENER) {
                // This process was stopped for a while.
                Err(error) if error.errno() == Errno::TIMEDOUT => {}
                other => break other.expect("a connection"),
            }
        }
    });
    let partner = latest().take().expect("the daemon made it").partner;
    (stream, partner)
}

fn join() -> Domain {
    let name = format!("m3-fuzz-{}-{:?}", std::process::id(), std::thread::current().id());
    let directory = std::env::temp_dir().join(name);
    m3ipc_sys::CheckedPath::make_directory(&directory, 0o700).expect("a directory");
    let listener = m3ipc_sys::listen(&directory.join(m3ipc_wire::SOCKET_NAME), 0o600);
    let listener = listener.expect("a socket");
    std::thread::spawn(move || {
        loop {
            let _ = m3ipc_sys::wait_readable(&[listener.as_fd()], u64::MAX);
            if let Ok(member) = m3ipc_sys::accept(&listener) {
                std::thread::spawn(move || serve(&member));
            }
        }
    });
    let domain = Domain::enter(&directory, 0, None).expect("a domain");
    let _ = std::fs::remove_dir_all(&directory);
    domain
}

/// Answers the requests of one connection until it ends.
fn serve(member: &OwnedFd) {
    let mut buffer = vec![0; REQUEST_MAX_BYTES];
    let mut pairs = 0;
    loop {
        let packet = match m3ipc_sys::receive_packet(member, &mut buffer, true, true) {
            Ok(packet) if packet.bytes > 0 => packet,
            Err(Errno::INTR | Errno::AGAIN) => {
                let _ = m3ipc_sys::wait_readable(&[member.as_fd()], u64::MAX);
                continue;
            }
            _ => return,
        };
        let request = decode(&buffer[..packet.bytes]).expect("a frame of the library");
        let Some((reply, fds)) = answer(&request, &mut pairs) else { continue };
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        let frame = encode(&FromDaemon::Reply(reply));
        if m3ipc_sys::send_packet(member, &frame, &fds, true).is_err() {
            return;
        }
    }
}

fn answer(request: &Request, pairs: &mut u64) -> Option<(Reply, Vec<OwnedFd>)> {
    let Request::Sock(request) = request else {
        return Some(match request {
            Request::Hello { .. } => (Reply::Welcome { version: VERSION }, vec![]),
            _ => (Reply::Number(0), vec![]),
        });
    };
    let (reply, fds) = match request {
        SockRequest::Join { .. } => {
            (Reply::Sock(SockReply::Joined { domain: 0, network: NETWORK, bits: 16 }), vec![])
        }
        SockRequest::Connect { .. } => {
            *pairs += 1;
            let (connection, fds) = make(*pairs);
            (Reply::Sock(SockReply::Connected(connection, vec![])), fds)
        }
        SockRequest::PeerPool { .. } => {
            let pool = latest().as_ref().and_then(|latest| latest.pool.try_clone().ok());
            (Reply::Done, pool.into_iter().collect())
        }
        SockRequest::Mapped { .. } | SockRequest::Closed { .. } | SockRequest::Release { .. } => {
            return None;
        }
        _ => (Reply::Done, vec![]),
    };
    Some((reply, fds))
}

/// A connection in the first slot of a new pair, with the descriptors of its sound side.
fn make(pair: u64) -> (SockConnection, Vec<OwnedFd>) {
    let (socket, partner_socket) = m3ipc_sys::stream_pair().expect("sockets");
    let memory =
        |bytes: usize| m3ipc_sys::create_sparse("m3-fuzz", bytes as u64, false).expect("memory");
    let control = memory(SOCK_CONTROL_BYTES);
    let (pool, partner_pool) = (memory(SOCK_POOL_BYTES), memory(SOCK_POOL_BYTES));
    let partner = Partner {
        control: Shared::map_sparse(&control, SOCK_CONTROL_BYTES).expect("mapped"),
        pool: Shared::map_sparse(&partner_pool, SOCK_POOL_BYTES).expect("mapped"),
        socket: partner_socket,
    };
    // The pool of the partner is offered, and it says that it has mapped the other one.
    partner.control.word64(64).store(1, std::sync::atomic::Ordering::Release);
    partner.control.word64(72).store(1, std::sync::atomic::Ordering::Release);
    *latest() = Some(Latest { partner, pool: partner_pool });
    let connection = SockConnection {
        pair,
        side: 0,
        slot: 0,
        own: (NETWORK + 2, 1),
        peer: (NETWORK + 3, 80),
        by: (1, 1),
        with_pair: true,
    };
    (connection, vec![socket, control, pool])
}
