//! What the attacker does: one script for each way to break the rules.
//!
//! The attacker made the link, so it is side 0. Its cell lies at 0, the cell of the victim at 0x40.
//! Their notifications lie at 0x80 and 0xc0, their wake words at 0x100 and 0x140.

use crate::frames::{contact_flood, replays};
use crate::round::Round;
use crate::syscalls::requeue;
use core::sync::atomic::Ordering::SeqCst;
use m3ipc_link::MessageKind;

/// One script.
pub type Script = fn(&mut Round<'_>);

/// All scripts, by name.
pub const ALL: &[(&str, Script)] = &[
    ("random words", random_words),
    ("random pages", random_pages),
    ("chosen states", chosen_states),
    ("huge lengths", huge_lengths),
    ("flips between two reads", flips),
    ("endless wakes", wakes),
    ("endless notifications", notifications),
    ("all ready bits set", set_ready_bits),
    ("all ready bits cleared", clear_ready_bits),
    ("moved and eaten wakes", moved_wakes),
    ("requests never answered", never_takes),
    ("a doorbell that is none", no_doorbell),
    ("contact flood", contact_flood),
    ("replayed frames", replays),
    ("stopped in the middle", stops),
];

const CELL: usize = 0;
const VICTIMS_CELL: usize = 0x40;
const STAMP: usize = 8;
const LONG_BYTES: usize = 20;
const NOTE: usize = 0x80;
const WAKE: usize = 0x100;
const VICTIMS_WAKE: usize = 0x140;

/// A state word as the protocol has it.
fn state(phase: u64, kind: MessageKind, sequence: u64) -> u64 {
    phase | (kind as u64) << 2 | sequence << 8
}

const EMPTY: u64 = 0;
const FULL: u64 = 1;

fn full(kind: MessageKind, sequence: u64) -> u64 {
    state(FULL, kind, sequence)
}

fn wake(round: &Round<'_>) {
    let word = round.peer.link.word32(VICTIMS_WAKE);
    word.fetch_add(1, SeqCst);
    m3ipc_sys::wake(word);
}

fn mark_ready(round: &Round<'_>) {
    let index = round.peer.info.index_there as usize;
    round.peer.ready.word64(64 + 8 * (index / 64)).fetch_or(1 << (index % 64), SeqCst);
    round.peer.ready.word64(0).fetch_or(1 << (index / 64), SeqCst);
}

fn post(round: &Round<'_>, kind: MessageKind, sequence: u64) {
    round.peer.link.word64(CELL).store(full(kind, sequence), SeqCst);
    mark_ready(round);
    wake(round);
}

fn random_words(round: &mut Round<'_>) {
    while round.lasts() {
        for _ in 0..64 {
            let (at, word) = (8 * round.rng.index(512), round.rng.number());
            round.peer.link.word64(at).store(word >> round.rng.index(64), SeqCst);
        }
        mark_ready(round);
        wake(round);
    }
}

fn random_pages(round: &mut Round<'_>) {
    while round.lasts() {
        let (at, word) = (8 * round.rng.index(16), round.rng.number());
        round.own.status.word64(at).store(word, SeqCst);
        round.own.control.word64(at).store(word, SeqCst);
        // Small words are modes and verbs.
        round.own.status.word64(0).store((word % 4) | (word << 32), SeqCst);
        let verb = (word % 8) | (u64::from(round.victim.cast_unsigned()) << 32);
        round.own.control.word64(64).store(verb, SeqCst);
        post(round, MessageKind::Request, word >> 40);
    }
}

fn chosen_states(round: &mut Round<'_>) {
    let kinds = [MessageKind::Send, MessageKind::Request, MessageKind::Reply, MessageKind::Relay];
    let numbers = [0, 1, 2, u64::MAX >> 8, 1 << 55];
    while round.lasts() {
        let (kind, number) = (kinds[round.rng.index(4)], numbers[round.rng.index(5)]);
        let stamps = [0, 1, u64::MAX, m3ipc_sys::ticks()];
        round.peer.link.word64(CELL + STAMP).store(stamps[round.rng.index(4)], SeqCst);
        post(round, kind, number);
        if round.rng.index(16) == 0 {
            // The cell of the victim becomes taken, empty, or a state that it never had.
            let phase = round.rng.number() % 4;
            round.peer.link.word64(VICTIMS_CELL).store(state(phase, kind, number), SeqCst);
        }
    }
}

fn huge_lengths(round: &mut Round<'_>) {
    let lengths = [u32::MAX, 1793, 4096, 0x8000_0000];
    round.peer.link.word32(CELL + LONG_BYTES).store(lengths[round.rng.index(4)], SeqCst);
    let mut number = 0;
    while round.lasts() {
        number += 1;
        post(round, MessageKind::Send, number);
    }
}

fn flips(round: &mut Round<'_>) {
    let cell = round.peer.link.word64(CELL);
    let length = round.peer.link.word32(CELL + LONG_BYTES);
    let mut number = 0;
    while round.lasts() {
        number += 1;
        mark_ready(round);
        for _ in 0..200 {
            cell.store(full(MessageKind::Request, number), SeqCst);
            length.store(u32::MAX, SeqCst);
            cell.store(full(MessageKind::Send, number + 1), SeqCst);
            length.store(8, SeqCst);
            cell.store(state(EMPTY, MessageKind::Send, number), SeqCst);
        }
        wake(round);
    }
}

fn wakes(round: &mut Round<'_>) {
    while round.lasts() {
        wake(round);
    }
}

fn notifications(round: &mut Round<'_>) {
    while round.lasts() {
        round.peer.link.word32(NOTE).store(1, SeqCst);
        round.peer.link.word64(NOTE + 8).store(u64::MAX, SeqCst);
        mark_ready(round);
        wake(round);
    }
}

fn set_ready_bits(round: &mut Round<'_>) {
    while round.lasts() {
        (0..512).for_each(|at| round.peer.ready.word64(8 * at).store(u64::MAX, SeqCst));
        wake(round);
    }
}

fn clear_ready_bits(round: &mut Round<'_>) {
    while round.lasts() {
        (0..512).for_each(|at| round.peer.ready.word64(8 * at).store(0, SeqCst));
    }
}

/// Moves the sleepers of the victim's word to another word, wakes them for nothing, and adds
/// threads that take the wakes meant for the victim.
fn moved_wakes(round: &mut Round<'_>) {
    let link = &round.peer.link;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while round.lasts() {
                    let word = link.word32(VICTIMS_WAKE);
                    let _ = m3ipc_sys::wait(word, word.load(SeqCst), 2_000_000);
                }
            });
        }
        while round.lasts() {
            requeue(link.word32(VICTIMS_WAKE), link.word32(WAKE));
            m3ipc_sys::wake(link.word32(VICTIMS_WAKE));
        }
    });
}

fn never_takes(round: &mut Round<'_>) {
    // It claims to sleep and to wait for the victim alone, sends requests, and never reads an
    // answer.
    let mode = 1 | u64::from(round.victim.cast_unsigned()) << 32;
    round.own.status.word64(0).store(mode, SeqCst);
    let mut number = 0;
    while round.lasts() {
        number += 1;
        post(round, MessageKind::Request, number);
        std::thread::sleep(std::time::Duration::from_micros(200));
        // Withdraws each request, so that the victim sees it at its answer.
        round.peer.link.word64(CELL).store(state(EMPTY, MessageKind::Request, number), SeqCst);
    }
}

fn no_doorbell(round: &mut Round<'_>) {
    let mode = 2 | u64::from(m3ipc_abi::ANY.0.cast_unsigned()) << 32;
    let mut number = 0;
    while round.lasts() {
        round.own.status.word64(0).store(mode, SeqCst);
        number += 1;
        post(round, MessageKind::Request, number);
    }
}

/// Posts, leaves the link in the middle of a notification, and stops itself.
fn stops(round: &mut Round<'_>) {
    post(round, MessageKind::Request, 1);
    round.peer.link.word32(NOTE).store(1, SeqCst);
    println!("stopping");
    let own = m3ipc_sys::open_process(m3ipc_sys::process_id()).expect("oneself");
    let _ = m3ipc_sys::signal(&own, m3ipc_sys::Signal::STOP);
}
