//! Any bytes as a frame of a member, as a frame of the daemon, and as records of the journal.

use m3ipc_abi::NodeLimits;
use m3ipc_daemon::tables::{Node, Quota, Record};
use m3ipc_wire::{FromDaemon, Request, SockArrival, decode, encode};

/// Decodes the bytes in each way in which the product decodes bytes of others.
///
/// ```
/// m3ipc_test_fuzz::frames(&[0, 3]);
/// ```
///
/// # Panics
/// If a decoded frame does not survive its encoding.
pub fn frames(bytes: &[u8]) {
    if let Ok(request) = decode::<Request>(bytes) {
        assert_eq!(decode(&encode(&request)), Ok(request));
    }
    if let Ok(frame) = decode::<FromDaemon>(bytes) {
        assert_eq!(decode(&encode(&frame)), Ok(frame));
    }
    if let Ok(arrival) = decode::<SockArrival>(bytes) {
        assert_eq!(decode(&encode(&arrival)), Ok(arrival));
    }
    if let Ok(record) = decode::<Record>(bytes) {
        replay(vec![record]);
    }
    if let Ok(records) = decode::<Vec<Record>>(bytes) {
        replay(records);
    }
}

/// Replays records behind those of a fresh node, which accepts or refuses them.
fn replay(more: Vec<Record>) {
    let mut records = Node::new(0, NodeLimits::DEFAULT, Quota::default()).snapshot();
    records.extend(more);
    let _ = Node::replay(&records, Quota::default());
}
