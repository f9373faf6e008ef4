//! A hostile member: it connects as any member does, and then writes random values into all memory
//! that it may write.

use m3ipc_shm::Shared;
use m3ipc_sys::Errno;
use m3ipc_test_fixture::Rng;
use m3ipc_wire::sock::{
    SOCK_BITMAPS, SOCK_CONTROL_BYTES, SOCK_HEAD_BYTES, SOCK_POOL_BYTES, SOCK_SLOT_BYTES, half,
};
use m3ipc_wire::{FromDaemon, Reply, Request, SockConnection, SockReply, SockRequest, VERSION};
use std::io::Read;
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::Ordering;

fn ask(control: &OwnedFd, request: &Request) -> (Reply, Vec<OwnedFd>) {
    m3ipc_sys::send_packet(control, &m3ipc_wire::encode(request), &[], true)
        .expect("the daemon hears");
    let mut buffer = vec![0; m3ipc_wire::REPLY_MAX_BYTES];
    loop {
        match m3ipc_sys::receive_packet(control, &mut buffer, true, true) {
            Ok(packet) => match m3ipc_wire::decode(&buffer[..packet.bytes]).expect("a frame") {
                FromDaemon::Reply(reply) => return (reply, packet.fds),
                FromDaemon::Event(_) => {}
            },
            Err(Errno::INTR) => {}
            Err(errno) => panic!("the daemon does not answer: {errno}"),
        }
    }
}

/// A member of a domain, by its control connection alone.
fn join(directory: &Path, vm: i32, domain: u32) -> OwnedFd {
    let control = m3ipc_sys::connect(&m3ipc::runtime::socket(directory)).expect("a daemon");
    ask(&control, &Request::Hello { version: VERSION });
    ask(&control, &Request::Sock(SockRequest::Join { vm, domain: Some(domain) }));
    control
}

/// Connects once, and claims bytes in the socket that never come.
pub fn claim(directory: &Path, vm: i32, domain: u32, victim: SocketAddrV4) {
    let control = join(directory, vm, domain);
    let (address, port) = (u32::from(*victim.ip()), victim.port());
    let connect = Request::Sock(SockRequest::Connect { address, port, from: 0, prepared: 0 });
    let (Reply::Sock(SockReply::Connected(connection, _)), fds) = ask(&control, &connect) else {
        panic!("no connection");
    };
    let region = Shared::map_sparse(&fds[1], SOCK_CONTROL_BYTES).expect("memory");
    let slot = SOCK_HEAD_BYTES + usize::from(connection.slot) * SOCK_SLOT_BYTES;
    let own = slot + usize::from(connection.side) * half::BYTES;
    region.word64(own + half::GIVEN).store(5, Ordering::SeqCst);
    println!("ready");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// Connects again and again, and spoils each connection in another way, without end.
pub fn spoil(directory: &Path, vm: i32, domain: u32, victim: SocketAddrV4) {
    let control = join(directory, vm, domain);
    let mut rng = Rng::of(u64::from(domain));
    let mut memory: Vec<(u64, Shared, Shared)> = Vec::new();
    println!("ready");
    loop {
        let (address, port) = (u32::from(*victim.ip()), victim.port());
        let connect = Request::Sock(SockRequest::Connect { address, port, from: 0, prepared: 7 });
        let (Reply::Sock(SockReply::Connected(connection, _)), fds) = ask(&control, &connect)
        else {
            std::thread::sleep(std::time::Duration::from_millis(1));
            continue;
        };
        if let [_, region, pool] = &fds[..] {
            let region = Shared::map_sparse(region, SOCK_CONTROL_BYTES).expect("memory");
            let pool = Shared::map_sparse(pool, SOCK_POOL_BYTES).expect("memory");
            let mapped =
                Request::Sock(SockRequest::Mapped { pair: connection.pair, side: connection.side });
            m3ipc_sys::send_packet(&control, &m3ipc_wire::encode(&mapped), &[], true)
                .expect("it hears");
            // Offered and joined, as if both were true.
            region.word64(0).store(1, Ordering::Release);
            region.word64(8).store(1, Ordering::Release);
            memory.push((connection.pair, region, pool));
        }
        if let Some((_, region, pool)) = memory.iter().find(|(pair, ..)| *pair == connection.pair) {
            attack(&mut rng, &connection, &fds[0], region, pool);
        }
        let closed = SockRequest::Closed {
            pair: connection.pair,
            side: connection.side,
            slot: connection.slot,
        };
        let closed = m3ipc_wire::encode(&Request::Sock(closed));
        m3ipc_sys::send_packet(&control, &closed, &[], true).expect("it hears");
    }
}

fn attack(
    rng: &mut Rng,
    connection: &SockConnection,
    socket: &OwnedFd,
    region: &Shared,
    pool: &Shared,
) {
    let slot = SOCK_HEAD_BYTES + usize::from(connection.slot) * SOCK_SLOT_BYTES;
    let own = slot + usize::from(connection.side) * half::BYTES;
    let words = [half::TAIL, half::GIVEN, half::SUPPRESSION, half::HEAD, half::TAKEN, half::BLOCKS];
    for round in 0..2000 {
        let value = match rng.index(4) {
            0 => rng.number(),
            1 => rng.number() % 300_000,
            2 => rng.number() % 4,
            _ => u64::MAX - rng.number() % 8,
        };
        match rng.index(7) {
            // The words with a meaning, of both directions.
            0..3 => {
                let at = slot + rng.index(2) * half::BYTES + words[rng.index(words.len())];
                region.word64(at).store(value, Ordering::SeqCst);
            }
            // Any word of the slot, and of the head.
            3 => region
                .word64(slot + 8 * rng.index(SOCK_SLOT_BYTES / 8))
                .store(value, Ordering::SeqCst),
            // Any word of the bitmaps of pollers.
            5 => region
                .word64(SOCK_BITMAPS + 8 * rng.index((SOCK_HEAD_BYTES - SOCK_BITMAPS) / 8))
                .store(value, Ordering::SeqCst),
            // A possible tail over impossible blocks.
            4 => {
                region
                    .word32(own + half::BLOCKS + 4 * rng.index(32))
                    .store(u32::try_from(value >> 40).unwrap_or(0), Ordering::SeqCst);
                region.word64(own + half::TAIL).fetch_add(rng.number() % 9000, Ordering::SeqCst);
            }
            _ => {
                let mut bytes = value.to_le_bytes().to_vec();
                bytes.resize(1 + rng.index(40), 0);
                let _ = m3ipc_sys::send_bytes(socket, &bytes, &[], false);
            }
        }
        pool.word64(8 * rng.index(SOCK_POOL_BYTES / 8)).store(value, Ordering::Relaxed);
        if round % 64 == 0 {
            std::thread::yield_now();
        }
    }
}
