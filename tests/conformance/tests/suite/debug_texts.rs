//! `Debug` of what a program holds prints no content of memory and no whole tables.

use core::fmt::Debug;
use m3ipc::{AreaConfig, Audience, BlockLifetime, Message, Rights, SendError, Timeout};
use m3ipc_test_fixture::{NodeFixture, watchdog};
use std::sync::{Mutex, PoisonError};

/// The most characters of one object.
const TEXT_MAX: usize = 400;
/// The most characters of an endpoint: it has many parts.
const ENDPOINT_MAX: usize = 20_000;

/// The areas of two nodes have the same addresses, so one test at a time has areas.
static AREAS: Mutex<()> = Mutex::new(());

fn is_short(what: &impl Debug) -> String {
    let text = format!("{what:?}");
    assert!(text.len() <= TEXT_MAX, "{} characters: {:.200}", text.len(), text);
    text
}

#[test]
fn areas_and_blocks_print_where_they_are_and_no_tables() {
    watchdog(60);
    let _alone = AREAS.lock().unwrap_or_else(PoisonError::into_inner);
    let fixture = NodeFixture::new("debug-areas");
    let vm = fixture.node().vm_init(&m3ipc::VmConfig::new("debug")).expect("a fresh VM");
    let mut client = vm.bind(1).expect("a free slot");
    let server = vm.bind_additional(Some(2)).expect("a free slot");
    let to = server.address();
    let area = client.create_area(&AreaConfig::pair(1 << 24, to)).expect("memory");
    let id = area.id();
    let mut blocks: Vec<_> = (0..200)
        .map(|_| client.allocate(&area, 5_000, BlockLifetime::Short).expect("memory"))
        .collect();
    assert!(is_short(&area).starts_with(&format!("Area {{ id: {id}, base: 0x")));
    let block = blocks.pop().expect("one of them");
    let number = block.number();
    let of_block = format!("Block {{ area: {id}, number: {number}, bytes: 5000, is_writable: true");
    assert!(is_short(&block).starts_with(&of_block));
    let mut items = block.iter();
    assert_eq!(items.next(), Some(0));
    assert!(is_short(&items).ends_with("left: 4999 }"));
    // The server does not receive.
    let unsent = client.send_block(to, &Message::new(7), block, Timeout::NoWait);
    let unsent = unsent.expect_err("it would wait");
    assert!(matches!(unsent.error, SendError::WouldBlock(_)));
    let text = is_short(&unsent);
    assert!(text.starts_with("Unsent { number: -11, error: WouldBlock("), "{text}");
    assert!(text.contains(&of_block), "{text}");
    let given = client.give_block(to, unsent.block.expect("it came back")).expect("it is given");
    assert!(is_short(&given).contains(&format!("Area {{ id: {id}")));
    let text = format!("{client:?}");
    assert!(text.len() <= ENDPOINT_MAX, "{} characters", text.len());
}

#[test]
fn a_sealed_block_prints_no_items() {
    watchdog(60);
    let _alone = AREAS.lock().unwrap_or_else(PoisonError::into_inner);
    let fixture = NodeFixture::new("debug-sealed");
    let vm = fixture.node().vm_init(&m3ipc::VmConfig::new("debug")).expect("a fresh VM");
    let mut client = vm.bind(1).expect("a free slot");
    let mut server = vm.bind_additional(Some(2)).expect("a free slot");
    let to = server.address();
    let area = client.create_area(&AreaConfig::pair(1 << 20, to)).expect("memory");
    let block = client.allocate(&area, 5_000, BlockLifetime::Short).expect("memory");
    let attached = server.attach_area(area.id()).expect("it may");
    let given = client.give_block(to, block).expect("it is given");
    area.renounce_writing().expect("no block is here");
    attached.renounce_writing().expect("no block is here");
    area.seal().expect("nobody writes");
    let block = server.accept_given(client.address(), &given.name()).expect("it is whole");
    let sealed = block.into_sealed().expect("the area is sealed");
    assert!(is_short(&sealed).starts_with("SealedBlock { area: "));
}

#[test]
fn requests_and_grants_print_no_bytes() {
    watchdog(60);
    let fixture = NodeFixture::new("debug-bytes");
    let vm = fixture.node().vm_init(&m3ipc::VmConfig::new("debug")).expect("a fresh VM");
    let mut client = vm.bind(1).expect("a free slot");
    let server = vm.bind_additional(Some(2)).expect("a free slot");
    let memory = vec![77; 1 << 20];
    let bytes = memory.clone();
    let pending = client.begin_request_long_bytes(server.address(), &Message::new(7), bytes);
    let text = format!("{:?}", pending.expect("it is posted"));
    assert!(text.len() <= ENDPOINT_MAX, "{} characters", text.len());
    assert!(text.contains("1048576 bytes"), "{text}");
    client.grant(Audience::Vm, memory, Rights::Both).expect("it may");
    let text = format!("{client:?}");
    assert!(text.len() <= ENDPOINT_MAX, "{} characters", text.len());
    assert!(text.contains("1048576 bytes"), "{text}");
}
