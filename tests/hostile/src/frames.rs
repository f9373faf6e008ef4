//! What the attacker sends to the daemon: one script for each attack.

use crate::round::Round;
use m3ipc_test_fixture::raw::RawMember;
use m3ipc_wire::{AwaitedEvent, BindKind, RecalledPeer, Request};

/// Binds, makes a link and unbinds, as fast as the daemon serves it.
pub fn contact_flood(round: &mut Round<'_>) {
    let leave = Request::Unbind { vm: round.vm, address: round.own.address };
    let _ = round.raw.request(&leave);
    while round.lasts() {
        let Some(pages) = round.raw.bind(round.vm, None) else { continue };
        let _ = round.raw.contact(round.victim);
        let _ = round.raw.request(&Request::Unbind { vm: round.vm, address: pages.address });
    }
}

/// Frames out of order, twice, and in the names of others.
pub fn replays(round: &mut Round<'_>) {
    let bind = Request::Bind { vm: round.vm, slot: None, kind: BindKind::Process, nonce: 1 };
    let victim = RecalledPeer { address: round.victim, life: 1, was_stand_in: false };
    let reattach = |address| Request::Reattach { vm: round.vm, address, tid: None };
    let frames = [
        Request::Mapped,
        bind.clone(),
        Request::Contact(round.victim),
        Request::Contact(round.victim),
        Request::Recall(vec![victim; 500]),
        Request::Contact(round.own.address),
        reattach(round.victim),
        reattach(round.own.address),
        Request::Claim,
        Request::Unbind { vm: round.vm, address: round.victim },
        Request::Wakeup { vm: round.vm, address: round.victim },
        Request::NotifyFor {
            vm: round.vm,
            source: round.victim,
            destination: round.victim,
            bits: 1,
        },
        Request::Await(AwaitedEvent::Bind(round.victim)),
        Request::Await(AwaitedEvent::Unbind(round.victim)),
        Request::DoorbellSender(round.victim),
        Request::OpenDoorbell,
        Request::OpenDoorbell,
        Request::IsDeadlock,
        Request::Left,
        Request::Mapped,
        Request::Contact(round.victim),
        Request::Hello { version: m3ipc_wire::VERSION },
    ];
    while round.lasts() {
        let Some(raw) = RawMember::greeted(round.directory) else { continue };
        for _ in 0..40 {
            let frame = &frames[round.rng.index(frames.len())];
            let _ = raw.send_bytes(&m3ipc_wire::encode(frame), &[]);
        }
    }
}
