//! Random orders of sends and receives on real sockets, against an exact model: a queue of bytes.
//!
//! After each call the bytes are the model's, and the descriptor is readable exactly where the
//! model has bytes.
#![allow(unsafe_code, clippy::unwrap_used)]

use m3ipc_shim::buffers::Buffers;
use m3ipc_shim::connection::socket::Socket;
use m3ipc_shim::counters::{self, Counter};
use m3ipc_shim::outcome::Outcome;
use m3ipc_shim::pin::PinReason;
use m3ipc_shim::prepare;
use m3ipc_shim::settings::Settings;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

#[derive(Clone, Debug)]
enum Step {
    Send {
        end: usize,
        bytes: usize,
        pieces: usize,
    },
    Receive {
        end: usize,
        bytes: usize,
        peek: bool,
    },
    Discard {
        end: usize,
        bytes: usize,
    },
    Ask {
        end: usize,
    },
    Pin {
        end: usize,
    },
    /// As after an exec, or in a process that received the descriptor: only the descriptor is
    /// known.
    Reopen {
        end: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![1..10_usize, 50..80_usize, 1..5000_usize, Just(70_000_usize)];
    let end = 0..2_usize;
    prop_oneof![
        8 => (end.clone(), size.clone(), 1..5_usize)
            .prop_map(|(end, bytes, pieces)| Step::Send { end, bytes, pieces }),
        8 => (end.clone(), size.clone(), any::<bool>())
            .prop_map(|(end, bytes, peek)| Step::Receive {
            end,
            bytes,
            peek: peek && bytes.is_multiple_of(3)
        }),
        1 => (end.clone(), size).prop_map(|(end, bytes)| Step::Discard { end, bytes }),
        1 => end.clone().prop_map(|end| Step::Ask { end }),
        1 => end.clone().prop_map(|end| Step::Pin { end }),
        1 => end.prop_map(|end| Step::Reopen { end }),
    ]
}

struct End {
    fd: OwnedFd,
    socket: Socket,
    /// Bytes that were sent to this end and not received.
    queue: VecDeque<u8>,
    sent: u64,
}

/// Makes the real call where the kernel must do it.
fn finish(outcome: Outcome, real: impl FnOnce() -> isize) -> Outcome {
    let real = || usize::try_from(real()).map_err(|_| libc::EAGAIN);
    outcome.or_real(real).map_or_else(Outcome::Failed, Outcome::Done)
}

impl End {
    fn new(fd: OwnedFd) -> Self {
        let socket = Socket::open(fd.as_raw_fd()).expect("a stream socket");
        Self { fd, socket, queue: VecDeque::new(), sent: 0 }
    }

    fn receive(&self, bytes: &mut [u8], flags: i32) -> Outcome {
        let part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let flags = flags | libc::MSG_DONTWAIT;
        // SAFETY: one run over a live slice that this function alone has.
        let buffers = unsafe { Buffers::from_raw(&raw const part, 1) };
        let outcome = self.socket.receive(buffers, flags);
        finish(outcome, || {
            // SAFETY: the buffer is live and of this length.
            unsafe { libc::recv(self.fd.as_raw_fd(), part.iov_base, part.iov_len, flags) }
        })
    }

    fn send(&self, bytes: &mut [u8], pieces: usize) -> Outcome {
        let length = bytes.len().div_ceil(pieces);
        let parts: Vec<_> = bytes
            .chunks_mut(length)
            .map(|piece| libc::iovec { iov_base: piece.as_mut_ptr().cast(), iov_len: piece.len() })
            .collect();
        // SAFETY: the runs lie over live slices.
        let buffers = unsafe { Buffers::from_raw(parts.as_ptr(), parts.len()) };
        let outcome = self.socket.send(buffers, libc::MSG_DONTWAIT);
        finish(outcome, || {
            // SAFETY: plain pointers and integers, for which zeros are valid.
            let mut header: libc::msghdr = unsafe { core::mem::zeroed() };
            header.msg_iov = parts.as_ptr().cast_mut();
            header.msg_iovlen = parts.len();
            // SAFETY: the header and the buffers are live.
            unsafe { libc::sendmsg(self.fd.as_raw_fd(), &raw const header, libc::MSG_DONTWAIT) }
        })
    }

    fn readable(&self) -> bool {
        let mut one = libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one live entry.
        unsafe { libc::poll(&raw mut one, 1, 0) > 0 }
    }

    /// The two sockets of TCP may take a moment to agree on a busy machine.
    fn becomes_readable(&self, readable: bool) -> bool {
        let until = Instant::now() + Duration::from_secs(20);
        while self.readable() != readable && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.readable() == readable
    }
}

fn play(fds: [OwnedFd; 2], steps: &[Step]) -> Result<(), TestCaseError> {
    let mut ends = fds.map(End::new);
    for step in steps {
        match *step {
            Step::Send { end, bytes, pieces } => {
                let start = ends[end].sent;
                let mut data: Vec<u8> = (0..bytes as u64).map(|at| byte(start + at)).collect();
                match ends[end].send(&mut data, pieces) {
                    Outcome::Done(sent) => {
                        prop_assert!(sent > 0 && sent <= bytes);
                        ends[end].sent += sent as u64;
                        ends[1 - end].queue.extend(&data[..sent]);
                    }
                    other => prop_assert_eq!(other, Outcome::Failed(libc::EAGAIN)),
                }
            }
            Step::Receive { end, bytes, peek } => {
                let mut data = vec![0; bytes];
                let arrived = ends[end].queue.is_empty() || ends[end].becomes_readable(true);
                prop_assert!(arrived, "bytes lie there, and the descriptor is not readable");
                match ends[end].receive(&mut data, if peek { libc::MSG_PEEK } else { 0 }) {
                    Outcome::Done(got) => {
                        prop_assert!(got > 0 && got <= ends[end].queue.len());
                        let same = data[..got].iter().eq(ends[end].queue.iter().take(got));
                        prop_assert!(same, "other bytes than were sent");
                        if !peek {
                            ends[end].queue.drain(..got);
                        }
                    }
                    other => {
                        prop_assert_eq!(other, Outcome::Failed(libc::EAGAIN));
                        prop_assert!(ends[end].queue.is_empty());
                    }
                }
            }
            Step::Discard { end, bytes } => {
                let end = &mut ends[end];
                let mut data = vec![0; bytes];
                if let Outcome::Done(got) = end.receive(&mut data, libc::MSG_TRUNC) {
                    prop_assert!(got <= end.queue.len());
                    end.queue.drain(..got);
                }
            }
            Step::Ask { end } => {
                let end = &ends[end];
                if let Some(waiting) = end.socket.readable_bytes() {
                    prop_assert!(waiting <= end.queue.len());
                    prop_assert_eq!(waiting == 0, end.queue.is_empty());
                }
                prop_assert!(!end.socket.has_bytes() || !end.queue.is_empty());
            }
            Step::Reopen { end } => {
                let fd = ends[end].fd.as_raw_fd();
                ends[end].socket = Socket::open(fd).expect("a stream socket");
            }
            Step::Pin { end } => {
                if steps.len().is_multiple_of(4) {
                    let end = &ends[end];
                    end.socket.pin(PinReason::Policy);
                }
            }
        }
        for end in &ends {
            prop_assert!(
                end.becomes_readable(!end.queue.is_empty()),
                "readable, or not, against the model"
            );
        }
    }
    for end in &mut ends {
        let until = Instant::now() + Duration::from_secs(20);
        while !end.queue.is_empty() && Instant::now() < until {
            let mut data = vec![0; 4096];
            if let Outcome::Done(got) = end.receive(&mut data, 0) {
                prop_assert!(got > 0 && got <= end.queue.len());
                prop_assert!(data[..got].iter().eq(end.queue.iter().take(got)));
                end.queue.drain(..got);
            }
        }
        prop_assert!(end.queue.is_empty() && end.becomes_readable(false));
    }
    for end in &ends {
        end.socket.forget(true);
    }
    Ok(())
}

fn byte(at: u64) -> u8 {
    let mixed = at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed.to_le_bytes()[6]
}

fn unix() -> [OwnedFd; 2] {
    let (one, other) = UnixStream::pair().unwrap();
    [one.into(), other.into()]
}

fn tcp() -> [OwnedFd; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    [one.into(), other.into()]
}

#[test]
fn every_order_gives_the_bytes_that_were_sent_and_the_right_readiness() {
    let home = std::env::temp_dir().join(format!("m3-call-orders-{}", std::process::id()));
    std::fs::create_dir_all(&home).unwrap();
    // SAFETY: the only thread that looks at the environment.
    unsafe { std::env::set_var("M3_RUNTIME_DIR", &home) };
    for (ring_bytes, always_wake, spin_ns, by_message) in [
        (64, false, 0, false),
        (64, true, 0, false),
        (4096, false, 1000, false),
        (64, false, 0, true),
        (4096, false, 1000, true),
    ] {
        prepare(Settings {
            ring_bytes,
            upgrade_after_calls: 0,
            always_wake,
            spin_ns,
            same_process: true,
            pins_bulk: false,
            rests: true,
            by_message,
            on: true,
        });
        let mut config = ProptestConfig::with_cases(120);
        config.failure_persistence = None;
        proptest!(config.clone(), |(steps in prop::collection::vec(step(), 1..80))| {
            play(unix(), &steps)?;
        });
        proptest!(config, |(steps in prop::collection::vec(step(), 1..60))| {
            play(tcp(), &steps)?;
        });
    }
    assert!(
        counters::read(Counter::RingBytes) > 100_000,
        "the rings carried {}",
        counters::read(Counter::RingBytes)
    );
    assert!(counters::read(Counter::Overflows) > 100 && counters::read(Counter::Corrupt) == 0);
    std::fs::remove_dir_all(&home).unwrap();
}
