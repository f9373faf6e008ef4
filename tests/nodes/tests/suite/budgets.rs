//! What another node may have here: payloads up to the limit of their receiver, and a budget of
//! bytes that are not free again.

use m3ipc::nodes::COPIED_MAX_BYTES;
use m3ipc::{Address, AreaConfig, Code, Message, SendError, SendRecError};
use m3ipc_test_fixture::{area_turn, until, watchdog};
use m3ipc_test_nodes::blocks::{block_of, pattern};
use m3ipc_test_nodes::{Cluster, Directory};

const CLIENT: i32 = 1;
const SERVER: i32 = 10;
const TO: Address = Address(SERVER);
const OTHER: Address = Address(SERVER + 1);
/// What `m3-tests-nodes blocks` does with a block.
const FREE: Message = Message::new(2);
const KEEP: Message = Message::new(3);
const FREE_ALL: Message = Message::new(4);

#[test]
fn a_payload_above_the_limit_of_its_receiver_is_73_across_nodes() {
    watchdog(120);
    let cluster = Cluster::new("limits");
    let _server = cluster.beta.program("small", SERVER);
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    cluster.alpha.await_endpoint(TO);
    for bytes in [4097, 100_000] {
        let refused = client.send_bytes(TO, 7, &vec![1; bytes], None).unwrap_err();
        assert_eq!(refused.code(), Code::MsgSize, "{refused}");
        assert!(refused.to_string().contains(&bytes.to_string()), "{refused}");
        let refused = client.sendrec_bytes(TO, 7, &vec![1; bytes], None).unwrap_err();
        assert_eq!(refused.code(), Code::MsgSize, "{refused}");
        let (_, answer) = client.sendrec_bytes(TO, 7, &[1; 4096], None).expect("it is served");
        assert_eq!(answer, [1; 4096]);
    }
    // Longer than nodes carry: the stand-in says so before anything is copied.
    let huge = vec![0; COPIED_MAX_BYTES + 1];
    let (bytes, max_bytes) = (huge.len(), COPIED_MAX_BYTES);
    let refused = client.send_bytes(TO, 7, &huge, None);
    assert_eq!(refused, Err(SendError::TooLong { bytes, max_bytes }));
    let refused = client.sendrec_bytes(TO, 7, &huge, None);
    assert_eq!(refused.unwrap_err(), SendRecError::TooLong { bytes, max_bytes });
    // An answer that its client does not take.
    client.set_receive_limit(2000);
    let lost = client.sendrec_bytes(TO, 7, &[1; 4096], None).unwrap_err();
    assert_eq!(lost.code(), Code::AnswerLost, "{lost}");
    assert!(client.sendrec_bytes(TO, 7, &[1; 2000], None).is_ok());
}

#[test]
fn a_node_has_a_budget_for_what_its_receivers_keep() {
    let _turn = area_turn();
    watchdog(120);
    let config = |_node: &str| "\"nodes.toml\"\nnode_bytes = 8388608".to_owned();
    let cluster = Cluster::with(Directory::new("budget"), config);
    let _servers = [SERVER, SERVER + 1].map(|slot| cluster.beta.program("blocks", slot));
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    cluster.alpha.await_endpoint(TO);
    cluster.alpha.await_endpoint(OTHER);
    let area = client.create_area(&AreaConfig::vm(64 << 20)).expect("an area");
    let content = pattern(1 << 20);
    // What is free again counts no more: three times the budget passes.
    for _ in 0..24 {
        let block = block_of(&mut client, &area, &content);
        client.sendrec_block(TO, &FREE, block, None).expect("it is freed each time");
    }
    let mut kept = 0;
    let refused = loop {
        let block = block_of(&mut client, &area, &content);
        match client.sendrec_block(if kept % 2 == 0 { TO } else { OTHER }, &KEEP, block, None) {
            Ok(_) => kept += 1,
            Err(unsent) => break unsent,
        }
        assert!(kept < 100, "the budget has an end");
    };
    assert_eq!(refused.error.code(), Code::Again, "{}", refused.error);
    assert!((6..=8).contains(&kept), "{kept} blocks of 1 MiB in 8 MiB, over two receivers");
    // Short messages go on.
    client.sendrec(OTHER, &FREE_ALL).expect("the server frees all");
    until("there is room again", || {
        let block = block_of(&mut client, &area, &content);
        client.sendrec_block(TO, &FREE, block, None).is_ok()
    });
}
