//! Any words in the file of a pair of sockets under `m3 sock run`, and any bytes in the socket.
//!
//! The pair has two ends in this process, as in the tests of the shim. The hostile end is the
//! kernel's socket beside the same file.

use crate::input::Input;
use m3ipc_shim::buffers::Buffers;
use m3ipc_shim::connection::socket::Socket;
use m3ipc_shim::kernel::socket::{cookie, receive_bytes, send_bytes};
use m3ipc_shim::memory::layout::{PAIR_BYTES, half, pair, ring_offset};
use m3ipc_shim::memory::lock::Deadline;
use m3ipc_shim::memory::user_directory::{Name, UserDirectory};
use m3ipc_shim::settings::Settings;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::Once;

/// The most steps of one run.
const STEPS_MAX: usize = 300;
/// Size of each ring in bytes.
const RING_BYTES: usize = 4096;
/// The words of a half. A lock word that names a living process makes a call wait for a second,
/// so the runs leave the two locks to the tests of the shim.
const WORDS: &[usize] = &[
    half::TAIL,
    half::WAKEUPS,
    half::SWITCHES,
    half::KERNEL,
    half::SENDING,
    half::RING_BYTES,
    half::PINNED,
    half::SUPPRESSION,
    half::SENDER_CPU,
    half::PUBLISHING,
    half::HEAD,
    half::WAKEUPS_TAKEN,
    half::KERNEL_TAKEN,
    half::ATTACHED,
    half::EDGES,
    half::POLLER_SLOT,
];
/// Bytes that are checked behind each buffer.
const BEHIND_BYTES: usize = 256;
/// A byte that no end sends: a call that writes beyond its result is seen.
const UNTOUCHED: u8 = 0xa5;

/// One end, of which the library knows the socket.
struct End {
    stream: UnixStream,
    socket: Socket,
}

impl Drop for End {
    fn drop(&mut self) {
        self.socket.forget(true);
    }
}

/// Runs the steps that the bytes describe.
///
/// ```
/// m3ipc_test_fuzz::regions(&[0, 0, 10, 0, 0, 4, 10, 0]);
/// ```
///
/// # Panics
/// If a call claims more bytes than it was given, or writes beyond those that it claims.
pub fn regions(bytes: &[u8]) {
    static PREPARED: Once = Once::new();
    PREPARED.call_once(|| {
        m3ipc_shim::prepare_tables();
        m3ipc_shim::prepare(Settings {
            ring_bytes: u32::try_from(RING_BYTES).expect("a small number"),
            upgrade_after_calls: 0,
            always_wake: false,
            spin_ns: 0,
            same_process: true,
            pins_bulk: true,
            rests: true,
            by_message: true,
            on: true,
        });
    });
    let mut input = Input::new(bytes);
    let ends = ends();
    let mut buffer = vec![0; 2 * RING_BYTES];
    // The first bytes of each direction join both ends.
    for at in [0, 1, 0, 1] {
        send(&ends[at], &mut buffer[..8]);
        receive(&ends[1 - at], &mut buffer, 8, 0);
    }
    let Some(file) = file_of(&ends[0]) else { return };
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        if input.byte().is_multiple_of(2) {
            use_socket(&ends, &mut buffer, &mut input);
        } else {
            attack(&file, &ends, &mut input);
        }
    }
}

fn ends() -> [End; 2] {
    let (one, other) = UnixStream::pair().expect("sockets");
    [one, other].map(|stream| {
        stream.set_nonblocking(true).expect("a socket");
        let socket = Socket::open(stream.as_raw_fd()).expect("a socket that can be upgraded");
        End { stream, socket }
    })
}

/// The file of the pair, as a hostile process of the user opens it.
fn file_of(end: &End) -> Option<File> {
    let cookie = cookie(end.stream.as_raw_fd()).ok()?;
    let path = UserDirectory::current()?.file(Name::Pair(cookie))?;
    let path = OsStr::from_bytes(path.as_c_str().to_bytes());
    File::options().read(true).write(true).open(path).ok()
}

fn send(end: &End, bytes: &mut [u8]) {
    let most = bytes.len();
    let mut run = [Buffers::run(bytes)];
    let outcome = end.socket.send(Some(Buffers::from_mut(&mut run)), libc::MSG_NOSIGNAL);
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let done = outcome.or_real(|| send_bytes(end.stream.as_raw_fd(), bytes, flags));
    assert!(done.unwrap_or(0) <= most, "more bytes than were given");
}

fn receive(end: &End, buffer: &mut [u8], most: usize, flags: i32) {
    buffer.fill(UNTOUCHED);
    let mut run = [Buffers::run(&mut buffer[..most])];
    let outcome = end.socket.receive(Some(Buffers::from_mut(&mut run)), flags);
    let fd = end.stream.as_raw_fd();
    let done = outcome.or_real(|| receive_bytes(fd, &mut buffer[..most], libc::MSG_DONTWAIT));
    assert!(done.unwrap_or(0) <= most, "more bytes than the buffer has");
    let behind = &buffer[most..buffer.len().min(most + BEHIND_BYTES)];
    assert!(behind.iter().all(|byte| *byte == UNTOUCHED), "written beyond the buffer");
}

/// One call of an end. The descriptors do not block.
fn use_socket(ends: &[End; 2], buffer: &mut [u8], input: &mut Input<'_>) {
    let end = &ends[input.index(2)];
    match input.index(8) {
        0..=2 => {
            let bytes = 1 + usize::from(input.short()) % (buffer.len() - 1);
            send(end, &mut buffer[..bytes]);
        }
        3..=5 => {
            let most = 1 + usize::from(input.short()) % (buffer.len() - 1);
            let flags = input.pick(&[0, 0, libc::MSG_PEEK, libc::MSG_DONTWAIT]);
            receive(end, buffer, most, flags);
        }
        6 => {
            let _ = (end.socket.has_bytes(), end.socket.readable_bytes());
            let _ = (end.socket.has_unsignalled(), end.socket.sends_in_ring());
            let _ = (end.socket.is_armed(), end.socket.peer_name());
        }
        _ => match input.index(4) {
            0 => drop(end.socket.disarm(Deadline::after(0))),
            1 => end.socket.set_edge_triggered(input.byte().is_multiple_of(2)),
            2 => end.socket.end_sending(),
            _ => end.socket.pin_or_shut_down(m3ipc_shim::pin::PinReason::Flag),
        },
    }
}

/// One step of the hostile end.
fn attack(file: &File, ends: &[End; 2], input: &mut Input<'_>) {
    let write = |at: usize, value: u64| {
        file.write_all_at(&value.to_ne_bytes(), at as u64).expect("inside the file");
    };
    match input.index(6) {
        0..=2 => {
            let at = input.pick(&pair::HALVES) + input.pick(WORDS);
            let mut word = [0; 8];
            file.read_exact_at(&mut word, at as u64).expect("inside the file");
            let value = match input.index(4) {
                0 => input.word(),
                1 => u64::from(input.short()),
                2 => u64::from_ne_bytes(word).wrapping_add(u64::from(input.byte())),
                _ => u64::from_ne_bytes(word).wrapping_sub(u64::from(input.byte())),
            };
            write(at, value);
        }
        // Each word before the rings and outside the halves.
        3 => {
            let at = 8 * (usize::from(input.byte()) % (pair::HALVES[0] / 8));
            write(at, input.word());
        }
        4 => {
            let at = ring_offset(input.index(2)) + 8 * usize::from(input.short());
            write(at.min(PAIR_BYTES - 8), input.word());
        }
        _ => {
            let fd = ends[input.index(2)].stream.as_raw_fd();
            let bytes = input.run();
            if input.byte().is_multiple_of(2) {
                let _ = send_bytes(fd, bytes, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
            } else {
                let _ = receive_bytes(fd, &mut [0; 256], libc::MSG_DONTWAIT);
            }
        }
    }
}
