//! Any bytes as the page of a link. A hostile peer changes them once more between two polls.

use m3ipc_abi::{LONG_MAX_BYTES, PAYLOAD_BYTES};
use m3ipc_link::{LINK_BYTES, Link, LinkSide, MessageKind, TakenMessage};
use std::os::unix::fs::FileExt;

/// Length of the receive buffer that the link may use, in bytes.
const BUFFER_BYTES: usize = 256;

/// Takes and posts messages over a page with these bytes.
///
/// ```
/// m3ipc_test_fuzz::links(&[1; 64]);
/// ```
///
/// # Panics
/// If the link writes beyond its buffer, or reports a length beyond the limit.
pub fn links(bytes: &[u8]) {
    let memory = m3ipc_sys::create_memory("m3-fuzz", LINK_BYTES as u64).expect("memory");
    let page = std::fs::File::from(memory);
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let write = |bytes: &[u8]| {
        page.write_all_at(&bytes[..bytes.len().min(LINK_BYTES)], 0).expect("inside the page");
    };
    let side = if bytes.len().is_multiple_of(2) { LinkSide::Zero } else { LinkSide::One };
    let mut link = Link::map(&page, side).expect("a page of a link");
    let mut buffer = [0xaa; 300];
    for kind in [MessageKind::Request, MessageKind::Send] {
        write(first);
        let peeked = link.peek();
        write(second);
        if let Ok(Some(arrival)) = peeked
            && let Ok(taken) = link.take(arrival, &mut buffer[..BUFFER_BYTES])
        {
            check(taken, &buffer);
        }
        let _ = link.answer(MessageKind::Reply, 1, &[2; PAYLOAD_BYTES], &[3; 100]);
        let _ = (link.take_first_notification(), link.take_notifications(), link.owes_answer());
        let _ = (link.take_pulse(), link.send_pulse(1, 2), link.pending_pulses());
        if link.is_free() != Ok(true) {
            continue;
        }
        let posted = link.post(kind, 7, 8, &[9; PAYLOAD_BYTES], &[]);
        write(first);
        let _ = link.is_taken(posted);
        if let Ok(Some(arrival)) = link.peek_answer(posted)
            && let Ok(taken) = link.take(arrival, &mut buffer[..BUFFER_BYTES])
        {
            check(taken, &buffer);
        }
        let _ = link.cancel(posted);
    }
}

/// Checks that a taken message stays within its bounds.
fn check(taken: Option<TakenMessage>, buffer: &[u8; 300]) {
    if let Some(taken) = taken {
        assert!(taken.long_bytes <= LONG_MAX_BYTES);
        let behind = &buffer[BUFFER_BYTES..];
        assert!(behind.iter().all(|byte| *byte == 0xaa), "written beyond the buffer");
    }
}
