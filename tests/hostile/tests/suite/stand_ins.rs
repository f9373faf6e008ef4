//! A hostile member that names blocks to a stand-in, which would copy them to another node. The
//! test is the proxy.

use m3ipc::nodes::{ForeignRange, Proxy, StandIn, StandInEvent};
use m3ipc::{Address, AreaConfig, Block, BlockLifetime, Endpoint, Message, VmConfig};
use m3ipc_hostile::hostile_area_member;
use m3ipc_test_fixture::{NodeFixture, area_turn};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const VM: i32 = 3;
const REMOTE: Address = Address(20);
const HOSTILE: Address = Address(3);

/// What became of each name, in the order of the attack.
const ENDS: [&str; 14] = [
    "sound taken",
    "again -503",
    "foreign -503",
    "shared -503",
    "long -503",
    "huge -503",
    "outside -503",
    "place -503",
    "number -503",
    "area -503",
    "unmapped -503",
    "bytes refused",
    "pair {\"-503\"}",
    "done",
];

fn block_of(client: &mut Endpoint, area: &m3ipc::Area, byte: u8) -> Block {
    let mut block = client.allocate(area, 4096, BlockLifetime::Short).expect("there is room");
    block.fill(byte).expect("it may be written");
    block
}

/// Takes the messages of others, until the test ends. Those of the hostile member are sound blocks
/// of its own, or random ones.
fn be_proxy(mut stand_in: StandIn, held: &AtomicBool, stops: &AtomicBool) {
    let mut first = None;
    while !stops.load(Ordering::Relaxed) {
        for event in stand_in.poll().expect("the stand-in is bound") {
            let StandInEvent::Message { from, message, bytes, is_block, .. } = event else {
                continue;
            };
            if from != HOSTILE {
                assert!(is_block && bytes == [message.payload[0]; 4096], "it is whole");
                // The first one is held as long as the attack lasts.
                if first.is_none() {
                    first = Some(from);
                    held.store(true, Ordering::Relaxed);
                    continue;
                }
            } else if message.m_type == 1 {
                assert!(is_block && bytes == [1; 4096], "it is whole");
            } else {
                assert!(message.m_type == 3, "name {message:?} was believed");
                assert!(!bytes.contains(&77), "the block of another was copied");
            }
            stand_in.taken(from);
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    stand_in.taken(first.expect("it is held"));
}

#[test]
fn a_hostile_sender_gets_no_block_copied_that_is_not_its_own() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("stand-in");
    let vm = fixture.node().vm_init(&VmConfig::new("shop").id(VM)).expect("a fresh VM");
    let slot = REMOTE.0;
    let range = ForeignRange { vm: VM, first: slot, last: slot, node: "beta".to_owned() };
    let mut proxy = Proxy::register(fixture.directory(), vec![range]).expect("the only proxy");
    proxy.set_reachable("beta", true).expect("the daemon runs");
    let stand_in = proxy.stand_in(VM, REMOTE).expect("a slot of the other node");
    let mut client = vm.bind(1).expect("the slot is free");
    let mut other = vm.bind_additional(Some(2)).expect("the slot is free");
    let pair = other.create_area(&AreaConfig::pair(1 << 20, REMOTE)).expect("an area");
    let area = client.create_area(&AreaConfig::vm(4 << 20)).expect("an area");
    let own = block_of(&mut client, &area, 77);
    let (held, stops) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| be_proxy(stand_in, &held, &stops));
        let secret = block_of(&mut other, &pair, 77);
        let giving = scope.spawn(|| {
            let message = Message::new(7).with_bytes(&[77]);
            other.send_block(REMOTE, &message, secret, None).expect("it is taken in the end");
        });
        m3ipc_test_fixture::until("the block is held", || held.load(Ordering::Relaxed));
        let words = [HOSTILE.0, area.id().cast_signed(), slot, 1, pair.id().cast_signed()];
        let words = words.map(|word| word.to_string());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut hostile = hostile_area_member(&fixture, &vm, "stand-in-attacker", &words);
        for end in ENDS {
            // The talk of others goes on.
            for number in 0..10 {
                let block = block_of(&mut client, &area, number);
                let message = Message::new(7).with_bytes(&[number]);
                client.send_block(REMOTE, &message, block, None).expect("it is taken");
            }
            assert_eq!(hostile.line(), end);
        }
        stops.store(true, Ordering::Relaxed);
        giving.join().expect("no panic");
    });
    assert!(own.iter().all(|byte| byte == 77));
}
