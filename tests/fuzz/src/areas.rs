//! Any words in the ledger of a hostile member, and any names from it, against two sound members.
//!
//! Member 1 is hostile. Its ledger changes between the calls of the others, and also between two
//! loads of one call. Members 0 and 2 keep the rules, as the library does. The daemon's view of
//! the same ledgers decides when the extent of member 1 is free.

mod memory;
mod sound;

use crate::input::Input;
use m3ipc_area::{BlockName, CLAIM, Claim, ClaimState, READING, RECORD_WORDS, SPAN, Span};
use memory::{HOSTILE, LEDGER_WORDS, Ledgers, NUMBERS, NUMBERS_OF_EXTENT, Script};
use sound::{Area, Name};

/// The most steps of one run.
const STEPS_MAX: usize = 400;

/// Runs the steps that the bytes describe.
///
/// ```
/// m3ipc_test_fuzz::areas(&[1, 2, 3, 4, 5, 6, 7, 8]);
/// ```
///
/// # Panics
/// If a sound member gets memory outside the extents, or two sound members hold the same bytes.
pub fn areas(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    Ledgers::with(|ledgers| {
        let mut area = Area::new(ledgers);
        for _ in 0..STEPS_MAX {
            if input.is_empty() {
                break;
            }
            step(&mut area, &ledgers.script, &mut input);
        }
    });
}

fn step(area: &mut Area, script: &Script, input: &mut Input<'_>) {
    let actor = input.index(2);
    match input.index(16) {
        0 | 1 => {
            let (at, value) = write(input);
            script.write(at, value);
        }
        2 => {
            let loads = input.byte();
            let (at, value) = write(input);
            script.schedule(loads, at, value);
        }
        3 | 4 => {
            let (units, align) = (u64::from(input.short()), u32::from(input.byte() % 13));
            area.allocate(actor, units * 16, 1 << align, input.byte() & 1 == 1);
        }
        5 => area.give(actor, input.index(256), u16::from(input.byte() % 4)),
        6 | 7 => {
            let (from, name) = name(area, input);
            area.accept(actor, from, &name, input.byte().is_multiple_of(8));
        }
        8 => area.take_back(actor, input.index(256)),
        9 => area.release(actor, input.index(256)),
        10 => area.share(actor, input.index(256)),
        11 => area.unshare(actor, input.index(256)),
        12 => {
            let (from, name) = name(area, input);
            area.read(actor, from, &name);
        }
        13 => area.finish(actor, input.index(256)),
        14 => area.sweep(actor),
        _ => match input.index(4) {
            0 => area.leave(actor, HOSTILE),
            1 => area.reclaim(HOSTILE),
            2 => area.ask(actor, u32::from(input.byte()), u32::from(input.byte())),
            _ => area.surrender(actor),
        },
    }
}

/// A word of the hostile ledger, and its new value: often near what a rule makes.
fn write(input: &mut Input<'_>) -> (usize, u64) {
    let number = input.index(NUMBERS as usize);
    let generation = u32::from(input.byte() / NUMBERS_OF_EXTENT / 4) * 1000;
    let claim = |input: &mut Input<'_>, states: &[ClaimState]| {
        let (state, other) = (input.pick(states), u16::from(input.byte() % 5));
        let (hop, more) = (u32::from(input.byte() % 8), u32::from(input.byte() % 4));
        Claim { state, other, hop, generation: generation + more }.encode()
    };
    use ClaimState::{Done, Given, Held, Reading, Returned, Shared};
    let (word, value) = match input.index(4) {
        0 => (CLAIM, claim(input, &[Held, Given, Given, Returned, Shared])),
        1 => (READING, claim(input, &[Reading, Done])),
        2 => {
            let (offset, units) = (u32::from(input.short()), u32::from(input.short()));
            (SPAN, Span { offset, units }.encode())
        }
        _ => return (usize::from(input.short()) % LEDGER_WORDS, input.word()),
    };
    (number * RECORD_WORDS + word, value)
}

/// A name as a message brings it, and the member behind its link.
fn name(area: &Area, input: &mut Input<'_>) -> (u16, Name) {
    let sent = area.sent(input.index(256));
    match (input.index(4), sent) {
        (0 | 1, Some((from, name))) => (from, name.encode()),
        (2, Some((_, mut name))) => {
            name.hop = name.hop.wrapping_add(u32::from(input.byte() % 4));
            name.bytes = name.bytes.wrapping_add(u64::from(input.byte()));
            name.shared = input.byte() & 1 == 1;
            (HOSTILE, name.encode())
        }
        (3, _) => {
            let mut name = [0; m3ipc_area::NAME_BYTES];
            let bytes = input.bytes(28);
            name[..bytes.len()].copy_from_slice(bytes);
            (HOSTILE, name)
        }
        _ => {
            let number = u32::from(input.byte()) % (NUMBERS + 4);
            let extent = number / u32::from(NUMBERS_OF_EXTENT);
            let name = BlockName {
                area: memory::AREA,
                number,
                generation: extent * 1000 + u32::from(input.byte() % 4),
                hop: u32::from(input.byte() % 8),
                bytes: u64::from(input.short()),
                shared: input.byte() & 1 == 1,
                payload: false,
            };
            (HOSTILE, name.encode())
        }
    }
}
