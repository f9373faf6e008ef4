//! A hostile member whose receiver is a proxy: blocks that are not its own do not cross nodes.

use super::{HostileLink, HostileMember, create_unmapped, number, word};
use m3ipc_area::{BlockName, LedgerWords, OwnLedgerWords, SPAN, Span};
use m3ipc_link::{Held, MessageFate, MessageKind, Payload, SlotState};
use m3ipc_test_fixture::Rng;
use std::time::Duration;

/// Names at random, after the chosen ones.
const RANDOM: u32 = 300;

impl HostileLink {
    /// Sends these bytes as the name of a block. What became of the message.
    fn try_send(&mut self, act: i32, bytes: &[u8; m3ipc_abi::BLOCK_NAME_BYTES]) -> String {
        let payload = Payload::block(bytes);
        let stamp = m3ipc_sys::ticks();
        let posted = self.link.post(MessageKind::Send, stamp, act, &[0; 40], payload);
        self.end_of(posted)
    }

    fn end_of(&mut self, posted: SlotState) -> String {
        loop {
            match self.link.fate(posted) {
                MessageFate::Open => {}
                MessageFate::Held(held) if held.is_undecided() => {}
                MessageFate::Held(Held::GivenBack) => {
                    let code = self.link.ended_by_proxy(posted).expect("a sound peer");
                    return code.map_or(0, |(_fate, code)| code.number()).to_string();
                }
                MessageFate::Taken => return "taken".to_owned(),
                MessageFate::Refused(_) => return "refused".to_owned(),
                fate => return format!("{fate:?}"),
            }
            self.ready.set(self.index_there);
            self.link.wake_peer();
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Sends each wrong name to a stand-in, and says what became of it. `pair` is the area of another
/// endpoint and the stand-in, in which that endpoint has just given a block.
pub fn attack(directory: &str, vm: &str, [slot, area, stand_in, other, pair]: [&str; 5]) {
    let (stand_in, other) = (number(stand_in), number(other));
    let mut member = HostileMember::join(directory, vm, slot, area);
    println!("ready");
    let mut link = HostileLink::to(&mut member.raw, stand_in);
    link.link.let_peer_hold();
    // The proxy joins the area with the first block, which is sound.
    let receiver = member.expected_index_of(stand_in);
    let (held, mut range) = member.allocate(4096);
    range.copy_from(&[1; 4096]).expect("writable");
    let name = member.side.give(held, receiver).expect("a member");
    println!("sound {}", link.try_send(1, &name.encode()));
    // The proxy frees it before it says so.
    member.claim_given(&name, receiver);
    println!("again {}", link.try_send(2, &name.encode()));

    let (theirs, claim) = member.held_by(other);
    let foreign = BlockName {
        number: theirs,
        generation: claim.generation,
        hop: claim.hop + 1,
        bytes: 64,
        ..name
    };
    member.claim_given(&foreign, receiver);
    println!("foreign {}", link.try_send(2, &foreign.encode()));
    println!("shared {}", link.try_send(2, &BlockName { shared: true, ..foreign }.encode()));

    let (held, _range) = member.allocate(4096);
    let name = member.side.give(held, receiver).expect("a member");
    println!("long {}", link.try_send(2, &BlockName { bytes: 4097, ..name }.encode()));
    println!("huge {}", link.try_send(2, &BlockName { bytes: u64::MAX, ..name }.encode()));
    let at = word(name.number, SPAN);
    let span = member.ledger.load(at);
    member.ledger.store(at, Span { offset: u32::MAX - 8, units: 16 }.encode());
    println!("outside {}", link.try_send(2, &name.encode()));
    member.ledger.store(at, member.peers[&other].load(word(theirs, SPAN)));
    println!("place {}", link.try_send(2, &name.encode()));
    member.ledger.store(at, span);
    println!("number {}", link.try_send(2, &BlockName { number: u32::MAX, ..name }.encode()));
    let nowhere = BlockName { area: member.info.area + 99, ..name };
    println!("area {}", link.try_send(2, &nowhere.encode()));
    let area = create_unmapped(&mut member.raw);
    println!("unmapped {}", link.try_send(2, &BlockName { area, ..name }.encode()));
    println!("bytes {}", link.try_send(2, &[0xff; 32]));

    // A block that the other endpoint has given to the proxy, in their own area.
    let pair = number(pair).cast_unsigned();
    let ends = (0..4_u32).flat_map(|at| (0..3).map(move |hop| (at / 2, at % 2, hop)));
    let ends = ends.map(|(number, generation, hop)| {
        let name = BlockName { area: pair, number, generation, hop, bytes: 64, ..name };
        link.try_send(2, &name.encode())
    });
    let ends: std::collections::BTreeSet<String> = ends.collect();
    println!("pair {ends:?}");

    let mut rng = Rng::of(0x1234_5678_9abc_def1);
    for _ in 0..RANDOM {
        let number = u32::try_from(rng.below(u64::from(member.info.numbers))).expect("a number");
        for which in 0..m3ipc_area::RECORD_WORDS {
            let near = rng.below(64) | (rng.below(4) << 40);
            let garbage = if rng.below(2) == 0 { rng.number() } else { near };
            member.ledger.store(word(number, which), garbage);
        }
        let name = BlockName {
            number: if rng.below(4) == 0 { theirs } else { number },
            generation: u32::try_from(rng.below(3)).expect("small"),
            hop: u32::try_from(rng.below(3)).expect("small"),
            bytes: rng.below(9000),
            shared: rng.below(2) == 0,
            payload: rng.below(4) == 0,
            ..name
        };
        link.try_send(3, &name.encode());
    }
    println!("done");
    std::thread::sleep(Duration::from_secs(300));
}
