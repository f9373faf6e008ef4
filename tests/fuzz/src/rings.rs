//! Any bytes in the memory and in the socket of a com-socket, from its partner.

mod daemon;

use crate::input::Input;
use daemon::Partner;
use m3ipc_sockets::{Direction, Errno, ReceiveOptions, Stream};
use m3ipc_wire::sock::{
    SOCK_BLOCK_BYTES, SOCK_CONTROL_BYTES, SOCK_CREDITS, SOCK_HEAD_BYTES, SOCK_POOL_BLOCKS,
    SOCK_POOL_BYTES, half,
};
use std::sync::atomic::Ordering;

/// The most steps of one run.
const STEPS_MAX: usize = 300;
/// The longest buffer of a call, and the bytes that are checked behind each result.
const CALL_BYTES: usize = 1 << 16;
const BEHIND_BYTES: usize = 256;
/// The slot of the connection, and its two directions: out of the sound side, and into it.
const OUT: usize = SOCK_HEAD_BYTES;
const IN: usize = SOCK_HEAD_BYTES + half::BYTES;
/// The words with a meaning.
const WORDS: &[usize] =
    &[half::TAIL, half::GIVEN, half::SUPPRESSION, half::HEAD, half::TAKEN, half::SENDER_CPU];
/// A byte that no partner sends in its place: a call that writes beyond its result is seen.
const UNTOUCHED: u8 = 0xa5;

/// Runs the steps that the bytes describe.
///
/// ```
/// m3ipc_test_fuzz::rings(&[0, 100, 0, 1, 100, 0]);
/// ```
///
/// # Panics
/// If a call claims more bytes than it was given, or writes beyond those that it claims.
pub fn rings(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (stream, partner) = daemon::connect();
    let mut buffer = vec![0; CALL_BYTES + BEHIND_BYTES];
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        if input.byte().is_multiple_of(2) {
            use_stream(&stream, &mut buffer, &mut input);
        } else {
            attack(&partner, &mut input);
        }
    }
}

/// One call of the sound side. It never waits.
fn use_stream(stream: &Stream, buffer: &mut [u8], input: &mut Input<'_>) {
    let options = |peek| ReceiveOptions { wait: false, peek };
    match input.index(8) {
        0..=2 => receive(stream, buffer, usize::from(input.short()) + 1, options(false)),
        3 => receive(stream, buffer, usize::from(input.short()) + 1, options(true)),
        4 | 5 => {
            let bytes = usize::from(input.short()) + 1;
            if let Ok(sent) = stream.send(&buffer[..bytes], false) {
                assert!(sent <= bytes, "more bytes than were given");
            }
        }
        6 => {
            let _ = (stream.available(), stream.is_taken(), stream.wakeups());
            let _ = stream.set_nonblocking(input.byte().is_multiple_of(2));
        }
        _ => {
            let _ = stream.shutdown(input.pick(&[Direction::Send, Direction::Receive]));
        }
    }
}

fn receive(stream: &Stream, buffer: &mut [u8], bytes: usize, options: ReceiveOptions) {
    buffer[..bytes + BEHIND_BYTES].fill(UNTOUCHED);
    match stream.receive(&mut buffer[..bytes], options) {
        Ok(got) => {
            assert!(got <= bytes, "more bytes than the buffer has");
            let behind = &buffer[got..got + BEHIND_BYTES];
            assert!(behind.iter().all(|byte| *byte == UNTOUCHED), "written beyond the result");
        }
        Err(errno) => assert_ne!(errno, Errno::FAULT),
    }
}

/// One step of the partner.
fn attack(partner: &Partner, input: &mut Input<'_>) {
    let control = &partner.control;
    match input.index(9) {
        0 | 1 => {
            let at = input.pick(&[OUT, IN]) + input.pick(WORDS);
            let word = control.word64(at);
            let value = match input.index(4) {
                0 => input.word(),
                1 => u64::from(input.short()),
                2 => word.load(Ordering::Relaxed).wrapping_add(u64::from(input.short())),
                _ => control
                    .word64(input.pick(&[OUT, IN]) + input.pick(WORDS))
                    .load(Ordering::Relaxed),
            };
            word.store(value, Ordering::SeqCst);
        }
        2 => {
            let at = usize::from(input.short()) % (SOCK_CONTROL_BYTES / 8);
            control.word64(8 * at).store(input.word(), Ordering::SeqCst);
        }
        3 => {
            let at = IN + half::BLOCKS + 4 * input.index(SOCK_CREDITS);
            control.word32(at).store(u32::from(input.short()), Ordering::SeqCst);
        }
        4 => send_as_a_sound_partner(partner, input),
        5 => {
            let bytes = input.run();
            let _ = m3ipc_sys::send_bytes(&partner.socket, bytes, &[], false);
        }
        6 => {
            let tail = control.word64(IN + half::TAIL).load(Ordering::Relaxed);
            let behind = tail.wrapping_add(u64::from(input.byte())) & u64::from(u32::MAX);
            let count = input.pick(&[0, 1, 8, 100, 4096, 65_536, 65_537]);
            let head = (behind << 32 | count).to_le_bytes();
            let body = [7; 4096];
            let body = &body[..usize::from(input.short()) % body.len()];
            let _ = m3ipc_sys::send_bytes(&partner.socket, &head, body, false);
        }
        7 => {
            let flags = m3ipc_sys::ReceiveFlags { wait: false, peek: false };
            let mut bytes = [0; 8192];
            let count = usize::from(input.short()) % bytes.len();
            let _ = m3ipc_sys::receive_bytes(&partner.socket, &mut bytes[..count], flags);
        }
        _ => {
            if input.byte().is_multiple_of(4) {
                let direction = input.pick(&[Direction::Send, Direction::Receive]);
                let _ = m3ipc_sys::shut_down(&partner.socket, direction);
            }
            let at = usize::from(input.short()) % (SOCK_POOL_BYTES / 8);
            partner.pool.word64(8 * at).store(input.word(), Ordering::Relaxed);
        }
    }
}

/// Publishes bytes as the rules say, so that the sound side takes them.
fn send_as_a_sound_partner(partner: &Partner, input: &mut Input<'_>) {
    let control = &partner.control;
    let tail = control.word64(IN + half::TAIL).load(Ordering::Relaxed);
    let first = tail / SOCK_BLOCK_BYTES as u64;
    let end = tail.wrapping_add(u64::from(input.short()));
    let last = end / SOCK_BLOCK_BYTES as u64;
    for at in first..=last.min(first.saturating_add(SOCK_CREDITS as u64)) {
        let index = usize::try_from(at % SOCK_CREDITS as u64).expect("a small number");
        let block = usize::from(input.byte()) % SOCK_POOL_BLOCKS;
        let block = u32::try_from(block).expect("a small number");
        control.word32(IN + half::BLOCKS + 4 * index).store(block, Ordering::Relaxed);
    }
    control.word64(IN + half::TAIL).store(end, Ordering::SeqCst);
    let wakeup = [0; 8];
    let _ = m3ipc_sys::send_bytes(&partner.socket, &wakeup, &[], false);
}
