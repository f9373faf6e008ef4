//! A hostile party: it connects as everybody does, and then writes chance into all that it may write.

use m3ipc_shm::Shared;
use m3ipc_sys::Errno;
use m3ipc_wire::sock::{
    SOCK_CONTROL_BYTES, SOCK_HEAD_BYTES, SOCK_POOL_BYTES, SOCK_SLOT_BYTES, half,
};
use m3ipc_wire::{FromDaemon, Reply, Request, SockConnection, SockReply, SockRequest, VERSION};
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::Ordering;

struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("below a usize")
    }
}

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

/// Connects again and again, and spoils each connection in another way, for ever.
pub fn spoil(directory: &Path, vm: i32, domain: u32, victim: SocketAddrV4) {
    let control = m3ipc_sys::connect(&m3ipc::runtime::socket(directory)).expect("a daemon");
    ask(&control, &Request::Hello { version: VERSION });
    ask(&control, &Request::Sock(SockRequest::Join { vm, domain: Some(domain) }));
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15 ^ u64::from(domain));
    let mut memory: Vec<(u64, Shared, Shared)> = Vec::new();
    println!("ready");
    loop {
        let (address, port) = (u32::from(*victim.ip()), victim.port());
        let connect = Request::Sock(SockRequest::Connect { address, port, from: 0, prepared: 7 });
        let (Reply::Sock(SockReply::Connected(seat, _)), fds) = ask(&control, &connect) else {
            std::thread::sleep(std::time::Duration::from_millis(1));
            continue;
        };
        if let [_, region, pool] = &fds[..] {
            let region = Shared::map_sparse(region, SOCK_CONTROL_BYTES).expect("memory");
            let pool = Shared::map_sparse(pool, SOCK_POOL_BYTES).expect("memory");
            let mapped = Request::Sock(SockRequest::Mapped { pair: seat.pair, side: seat.side });
            m3ipc_sys::send_packet(&control, &m3ipc_wire::encode(&mapped), &[], true)
                .expect("it hears");
            // Offered and joined, whatever is true.
            region.word64(0).store(1, Ordering::Release);
            region.word64(8).store(1, Ordering::Release);
            memory.push((seat.pair, region, pool));
        }
        if let Some((_, region, pool)) = memory.iter().find(|(pair, ..)| *pair == seat.pair) {
            attack(&mut chance, &seat, &fds[0], region, pool);
        }
        let closed = SockRequest::Closed { pair: seat.pair, side: seat.side, slot: seat.slot };
        let closed = m3ipc_wire::encode(&Request::Sock(closed));
        m3ipc_sys::send_packet(&control, &closed, &[], true).expect("it hears");
    }
}

fn attack(
    chance: &mut Chance,
    seat: &SockConnection,
    socket: &OwnedFd,
    region: &Shared,
    pool: &Shared,
) {
    let slot = SOCK_HEAD_BYTES + usize::from(seat.slot) * SOCK_SLOT_BYTES;
    let own = slot + usize::from(seat.side) * half::BYTES;
    let words = [half::TAIL, half::GIVEN, half::SUPPRESSION, half::HEAD, half::TAKEN, half::BLOCKS];
    for round in 0..2000 {
        let value = match chance.below(4) {
            0 => chance.next(),
            1 => chance.next() % 300_000,
            2 => chance.next() % 4,
            _ => u64::MAX - chance.next() % 8,
        };
        match chance.below(6) {
            // The words that mean something, of both ways.
            0..3 => {
                let at = slot + chance.below(2) * half::BYTES + words[chance.below(words.len())];
                region.word64(at).store(value, Ordering::SeqCst);
            }
            // Any word of the slot, and of the head.
            3 => region
                .word64(slot + 8 * chance.below(SOCK_SLOT_BYTES / 8))
                .store(value, Ordering::SeqCst),
            // A tail that could be, over blocks that could not.
            4 => {
                region
                    .word32(own + half::BLOCKS + 4 * chance.below(32))
                    .store(u32::try_from(value >> 40).unwrap_or(0), Ordering::SeqCst);
                region.word64(own + half::TAIL).fetch_add(chance.next() % 9000, Ordering::SeqCst);
            }
            _ => {
                let mut bytes = value.to_le_bytes().to_vec();
                bytes.resize(1 + chance.below(40), 0);
                let _ = m3ipc_sys::send_bytes(socket, &bytes, &[], false);
            }
        }
        pool.word64(8 * chance.below(SOCK_POOL_BYTES / 8)).store(value, Ordering::Relaxed);
        if round % 64 == 0 {
            std::thread::yield_now();
        }
    }
}
