//! What the attacker does: one script for each way to break the rules.
//!
//! The attacker made the link, so it is side 0: its cell lies at 0, the
//! victim's at 0x40, their notes at 0x80 and 0xc0, their knocks at 0x100 and 0x140.

use crate::attack::Round;
use crate::frames::{contact_flood, replays};
use core::sync::atomic::Ordering::SeqCst;
use m3ipc_link::MessageKind;

/// One way.
pub type Script = fn(&mut Round<'_>);

/// All ways, by name.
pub const ALL: &[(&str, Script)] = &[
    ("random words", random_words),
    ("random faces", random_faces),
    ("chosen states", chosen_states),
    ("huge lengths", huge_lengths),
    ("flips between two reads", flips),
    ("endless knocks", knocks),
    ("endless notifications", notifications),
    ("all hints set", set_hints),
    ("all hints cleared", clear_hints),
    ("moved and eaten wakes", moved_wakes),
    ("requests never answered", never_takes),
    ("a bell that is none", no_bell),
    ("contact flood", contact_flood),
    ("replayed frames", replays),
    ("stopped in the middle", stops),
];

const CELL: usize = 0;
const VICTIMS_CELL: usize = 0x40;
const STAMP: usize = 8;
const LONG_BYTES: usize = 20;
const NOTE: usize = 0x80;
const KNOCK: usize = 0x100;
const VICTIMS_KNOCK: usize = 0x140;

/// A state word as the protocol has it.
fn state(phase: u64, kind: MessageKind, sequence: u64) -> u64 {
    phase | (kind as u64) << 2 | sequence << 8
}

const EMPTY: u64 = 0;
const FULL: u64 = 1;

fn full(kind: MessageKind, sequence: u64) -> u64 {
    state(FULL, kind, sequence)
}

fn knock(round: &Round<'_>) {
    let word = round.reach.link.word32(VICTIMS_KNOCK);
    word.fetch_add(1, SeqCst);
    m3ipc_sys::wake(word);
}

fn hint(round: &Round<'_>) {
    let index = round.reach.info.index_there as usize;
    round.reach.hints.word64(64 + 8 * (index / 64)).fetch_or(1 << (index % 64), SeqCst);
    round.reach.hints.word64(0).fetch_or(1 << (index / 64), SeqCst);
}

fn post(round: &Round<'_>, kind: MessageKind, sequence: u64) {
    round.reach.link.word64(CELL).store(full(kind, sequence), SeqCst);
    hint(round);
    knock(round);
}

fn random_words(round: &mut Round<'_>) {
    while round.lasts() {
        for _ in 0..64 {
            let (at, word) = (8 * round.dice.below(512), round.dice.next());
            round.reach.link.word64(at).store(word >> round.dice.below(64), SeqCst);
        }
        hint(round);
        knock(round);
    }
}

fn random_faces(round: &mut Round<'_>) {
    while round.lasts() {
        let (at, word) = (8 * round.dice.below(16), round.dice.next());
        round.ground.status.word64(at).store(word, SeqCst);
        round.ground.desk.word64(at).store(word, SeqCst);
        // Small words are modes and verbs.
        round.ground.status.word64(0).store((word % 4) | (word << 32), SeqCst);
        let verb = (word % 8) | (u64::from(round.victim.cast_unsigned()) << 32);
        round.ground.desk.word64(64).store(verb, SeqCst);
        post(round, MessageKind::Request, word >> 40);
    }
}

fn chosen_states(round: &mut Round<'_>) {
    let kinds = [MessageKind::Send, MessageKind::Request, MessageKind::Reply, MessageKind::Relay];
    let numbers = [0, 1, 2, u64::MAX >> 8, 1 << 55];
    while round.lasts() {
        let (kind, number) = (kinds[round.dice.below(4)], numbers[round.dice.below(5)]);
        let stamps = [0, 1, u64::MAX, m3ipc_sys::ticks()];
        round.reach.link.word64(CELL + STAMP).store(stamps[round.dice.below(4)], SeqCst);
        post(round, kind, number);
        if round.dice.below(16) == 0 {
            // What the victim posted is made taken, empty, or something that it never was.
            let phase = round.dice.next() % 4;
            round.reach.link.word64(VICTIMS_CELL).store(state(phase, kind, number), SeqCst);
        }
    }
}

fn huge_lengths(round: &mut Round<'_>) {
    let lengths = [u32::MAX, 1793, 4096, 0x8000_0000];
    round.reach.link.word32(CELL + LONG_BYTES).store(lengths[round.dice.below(4)], SeqCst);
    let mut number = 0;
    while round.lasts() {
        number += 1;
        post(round, MessageKind::Send, number);
    }
}

fn flips(round: &mut Round<'_>) {
    let cell = round.reach.link.word64(CELL);
    let length = round.reach.link.word32(CELL + LONG_BYTES);
    let mut number = 0;
    while round.lasts() {
        number += 1;
        hint(round);
        for _ in 0..200 {
            cell.store(full(MessageKind::Request, number), SeqCst);
            length.store(u32::MAX, SeqCst);
            cell.store(full(MessageKind::Send, number + 1), SeqCst);
            length.store(8, SeqCst);
            cell.store(state(EMPTY, MessageKind::Send, number), SeqCst);
        }
        knock(round);
    }
}

fn knocks(round: &mut Round<'_>) {
    while round.lasts() {
        knock(round);
    }
}

fn notifications(round: &mut Round<'_>) {
    while round.lasts() {
        round.reach.link.word32(NOTE).store(1, SeqCst);
        round.reach.link.word64(NOTE + 8).store(u64::MAX, SeqCst);
        hint(round);
        knock(round);
    }
}

fn set_hints(round: &mut Round<'_>) {
    while round.lasts() {
        (0..512).for_each(|at| round.reach.hints.word64(8 * at).store(u64::MAX, SeqCst));
        knock(round);
    }
}

fn clear_hints(round: &mut Round<'_>) {
    while round.lasts() {
        (0..512).for_each(|at| round.reach.hints.word64(8 * at).store(0, SeqCst));
    }
}

/// Sleepers on the victim's word are moved to another, woken for nothing, and
/// joined by threads that eat the wakes meant for it.
fn moved_wakes(round: &mut Round<'_>) {
    let link = &round.reach.link;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while round.lasts() {
                    let word = link.word32(VICTIMS_KNOCK);
                    let _ = m3ipc_sys::wait(word, word.load(SeqCst), 2_000_000);
                }
            });
        }
        while round.lasts() {
            m3ipc_conformance::syscalls::requeue(link.word32(VICTIMS_KNOCK), link.word32(KNOCK));
            m3ipc_sys::wake(link.word32(VICTIMS_KNOCK));
        }
    });
}

fn never_takes(round: &mut Round<'_>) {
    // It claims to sleep and to wait for the victim alone, asks, and never looks at an answer.
    let mode = 1 | u64::from(round.victim.cast_unsigned()) << 32;
    round.ground.status.word64(0).store(mode, SeqCst);
    let mut number = 0;
    while round.lasts() {
        number += 1;
        post(round, MessageKind::Request, number);
        std::thread::sleep(std::time::Duration::from_micros(200));
        // Gives up each time, so that the victim must find out at its answer.
        round.reach.link.word64(CELL).store(state(EMPTY, MessageKind::Request, number), SeqCst);
    }
}

fn no_bell(round: &mut Round<'_>) {
    let mode = 2 | u64::from(m3ipc_abi::ANY.0.cast_unsigned()) << 32;
    let mut number = 0;
    while round.lasts() {
        round.ground.status.word64(0).store(mode, SeqCst);
        number += 1;
        post(round, MessageKind::Request, number);
    }
}

/// Posts, locks the victim's words in a strange state, and stops itself.
fn stops(round: &mut Round<'_>) {
    post(round, MessageKind::Request, 1);
    round.reach.link.word32(NOTE).store(1, SeqCst);
    println!("stopping");
    let own = m3ipc_sys::open_process(m3ipc_sys::process_id()).expect("oneself");
    let _ = m3ipc_sys::signal(&own, m3ipc_sys::Signal::STOP);
}
