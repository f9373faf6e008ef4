//! Any bytes as a frame of a member, as a frame of the daemon, and as a record of the journal.

#![no_main]

use libfuzzer_sys::fuzz_target;
use m3ipc_abi::NodeLimits;
use m3ipc_daemon::tables::{Node, Quota, Record};
use m3ipc_wire::{FromDaemon, Request, decode, encode};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = decode::<Request>(bytes) {
        assert_eq!(decode(&encode(&request)), Ok(request));
    }
    if let Ok(frame) = decode::<FromDaemon>(bytes) {
        assert_eq!(decode(&encode(&frame)), Ok(frame));
    }
    if let Ok(record) = decode::<Record>(bytes) {
        let mut records = Node::new(0, NodeLimits::DEFAULT, Quota::default()).snapshot();
        records.push(record);
        // The replay accepts or refuses the record, and never panics.
        let _ = Node::replay(&records, Quota::default());
    }
});
