//! Any bytes as the page of a link, changed once more between two looks, as a hostile peer would.

#![no_main]

use libfuzzer_sys::fuzz_target;
use m3ipc_abi::{LONG_MAX_BYTES, PAYLOAD_BYTES};
use m3ipc_link::{Incoming, Kind, LINK_BYTES, Link, Side};
use std::os::unix::fs::FileExt;

/// What was taken lies within what one may be given.
fn check(incoming: Option<Incoming>, room: &[u8; 300]) {
    if let Some(incoming) = incoming {
        assert!(incoming.long_bytes <= LONG_MAX_BYTES);
        assert!(room[256..].iter().all(|byte| *byte == 0xaa), "written past the room");
    }
}

fuzz_target!(|bytes: &[u8]| {
    let memory = m3ipc_sys::create_memory("m3-fuzz", LINK_BYTES as u64).expect("memory");
    let page = std::fs::File::from(memory);
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let write =
        |bytes: &[u8]| page.write_all_at(&bytes[..bytes.len().min(LINK_BYTES)], 0).expect("in the page");
    let side = if bytes.len() % 2 == 0 { Side::Zero } else { Side::One };
    let mut link = Link::map(&page, side).expect("a page of a link");
    let mut room = [0xaa; 300];
    for kind in [Kind::Request, Kind::Send] {
        write(first);
        let looked = link.look();
        write(second);
        if let Ok(Some(arrival)) = looked
            && let Ok(taken) = link.take(arrival, &mut room[..256])
        {
            check(taken, &room);
        }
        let _ = link.answer(Kind::Reply, 1, &[2; PAYLOAD_BYTES], &[3; 100]);
        let _ = (link.has_notification(), link.take_notification(), link.owes_answer());
        if link.is_free() != Ok(true) {
            continue;
        }
        let posted = link.post(kind, 7, 8, &[9; PAYLOAD_BYTES], &[]);
        write(first);
        let _ = link.is_taken(posted);
        if let Ok(Some(arrival)) = link.look_for_answer(posted)
            && let Ok(taken) = link.take(arrival, &mut room[..256])
        {
            check(taken, &room);
        }
        let _ = link.withdraw(posted);
        link.give_up(posted);
    }
});
