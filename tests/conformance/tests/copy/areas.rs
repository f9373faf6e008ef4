//! Copies in areas: the requester itself copies the memory that both have mapped, and the bytes are
//! the same.

use crate::fixture::{Fixture, pattern};
use m3ipc::{Address, AreaConfig, Block, BlockLifetime, CopyError, Location, Message, Timeout};
use m3ipc_test_fixture::MemberProcess;
use m3ipc_test_fixture::sum;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A peer in a process of its own, with a block in its own area.
struct Peer {
    role: MemberProcess,
    address: Address,
    private: u64,
    area: u32,
    at: u64,
}

const BYTES: usize = 1 << 20;

/// Every node gives its first VM the same addresses, and all tests are one process.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Peer {
    fn new(fixture: &Fixture, slot: &str) -> Self {
        let directory = fixture.node_fixture.directory().to_str().unwrap();
        let mut role = MemberProcess::start(
            0,
            "copy-peer",
            &[directory, fixture.vm.name(), slot, &BYTES.to_string()],
        );
        let ready: Vec<u64> = numbers(&role.line());
        let area = numbers(&role.ask(&format!("area {BYTES}")));
        let address = Address(i32::try_from(ready[0]).unwrap());
        Self {
            role,
            address,
            private: ready[1],
            area: u32::try_from(area[0]).unwrap(),
            at: area[1],
        }
    }

    fn receive(&mut self, fixture: &mut Fixture) {
        self.role.tell("receive 1");
        fixture.until_slot_blocked(self.address.slot(), "receive");
    }

    fn go_on(&mut self, fixture: &mut Fixture) {
        fixture.me.send(self.address, &Message::new(0)).unwrap();
        assert_eq!(self.role.line(), "0");
    }

    fn sum(&mut self) -> u64 {
        self.role.ask("block").parse().unwrap()
    }
}

fn numbers(line: &str) -> Vec<u64> {
    line.split(' ').filter_map(|word| word.parse().ok()).collect()
}

/// Copies that slot 1 has asked for: in areas, direct, served.
fn ways(fixture: &Fixture) -> [u64; 3] {
    let me = fixture.node_fixture.node().endpoint(fixture.vm.id(), 1).unwrap().unwrap();
    [me.copies_shared, me.copies_direct, me.copies_served]
}

fn block_of(fixture: &mut Fixture, area: u32, content: &[u8]) -> Block {
    let area = fixture.me.attach_area(area).unwrap();
    let mut block =
        fixture.me.allocate_pages(&area, content.len() as u64, BlockLifetime::Short).unwrap();
    block.copy_from(content).unwrap();
    block
}

#[test]
fn what_lies_in_areas_is_copied_by_the_requester() {
    let _turn = turn();
    for granted in [false, true] {
        let mut fixture = Fixture::new(granted);
        let mut peer = Peer::new(&fixture, "30");
        let mut expected = pattern(1, BYTES);
        let content = pattern(2, 600_000);
        let mut block = block_of(&mut fixture, peer.area, &content);
        let private = pattern(3, 600_000);
        peer.receive(&mut fixture);
        let mut made = 0;
        for bytes in [1, 63, 64, 4_095, 4_096, 4_097, 262_143, 262_144, 262_145, 600_000] {
            for offset in [0, 1, 63, 4_095] {
                let (at, from) = (Location::At(peer.at + offset as u64), block.as_source());
                let from = from.part(0, bytes);
                fixture.me.copy_source_to(peer.address, at, &from, Timeout::Never).unwrap();
                expected[offset..offset + bytes].copy_from_slice(&content[..bytes]);
                let mut got = vec![0; bytes];
                fixture.me.copy_from(peer.address, peer.at + offset as u64, &mut got).unwrap();
                assert!(got == expected[offset..offset + bytes], "{bytes} at {offset}");
                fixture.me.copy_to(peer.address, peer.at + 7, &private[..bytes]).unwrap();
                expected[7..7 + bytes].copy_from_slice(&private[..bytes]);
                assert_eq!(fixture.me.copied(), bytes as u64);
                made += 3;
            }
        }
        let at = Location::At(peer.at);
        let mut into = block.as_target().unwrap();
        fixture.me.copy_into_target(peer.address, at, &mut into, Timeout::Never).unwrap();
        assert!(block.to_vec() == expected[..600_000]);
        assert_eq!(ways(&fixture), [made + 1, 0, 0], "all by the requester");
        peer.go_on(&mut fixture);
        assert_eq!(peer.sum(), sum(&expected));
        let refused = fixture.me.copy_to(peer.address, peer.at, &[1]);
        assert_eq!(refused, Err(CopyError::NotBlocked(peer.address)));
    }
}

#[test]
fn what_the_requester_may_not_touch_goes_another_way() {
    let _turn = turn();
    let mut fixture = Fixture::new(false);
    let mut peer = Peer::new(&fixture, "30");
    peer.receive(&mut fixture);
    let mut got = vec![0; 5_000];
    fixture.me.copy_from(peer.address, peer.at + 3, &mut got).unwrap();
    assert!(got == pattern(1, BYTES)[3..5_003]);
    assert_eq!(ways(&fixture), [0, 1, 0], "it has not attached the area");
    let area = fixture.me.attach_area(peer.area).unwrap();
    peer.go_on(&mut fixture);
    peer.role.tell("pass 1");
    fixture.me.receive(peer.address).unwrap();
    let mut block = fixture.me.take_block().unwrap().unwrap();
    assert_eq!(peer.role.line(), "0");
    block.set(0, 77).unwrap();
    peer.receive(&mut fixture);
    // The peer names a block that it has given away: the block is in use here.
    fixture.me.copy_from(peer.address, peer.at, &mut got).unwrap();
    assert!(got[0] == 77 && got[1..] == pattern(1, BYTES)[1..5_000]);
    assert_eq!(ways(&fixture), [0, 2, 0]);
    drop(block);
    fixture.me.copy_from(peer.address, peer.at, &mut got).unwrap();
    assert_eq!(ways(&fixture), [1, 2, 0], "nobody uses it now");
    // Nothing lies beyond the extents, whatever a peer says.
    let beyond = area.base() + area.limit_bytes() - 100;
    let mut room = [0; 200];
    assert_eq!(
        fixture.me.copy_from(peer.address, beyond, &mut room),
        Err(CopyError::BadAddress(peer.address))
    );
    fixture.me.detach_area(&area).unwrap();
    fixture.me.copy_from(peer.address, peer.at, &mut got).unwrap();
    assert_eq!(ways(&fixture)[0], 1, "it has left the area");
    peer.go_on(&mut fixture);
}

#[test]
fn between_two_others_areas_save_a_pass() {
    let _turn = turn();
    let mut fixture = Fixture::new(false);
    let mut peers = ["30", "31"].map(|slot| Peer::new(&fixture, slot));
    for peer in &mut peers {
        peer.receive(&mut fixture);
    }
    let [one, two] = &peers;
    let place = |peer: &Peer, at| (peer.address, Location::At(at));
    let areas = [one.area, two.area].map(|area| fixture.me.attach_area(area).unwrap());
    let mut copy =
        |from, to| fixture.me.copy_between(from, to, BYTES as u64, Timeout::Never).unwrap();
    copy(place(one, one.at), place(two, two.at));
    copy(place(two, two.at), place(one, one.private));
    copy(place(one, one.private), place(two, two.at));
    copy(place(one, one.private), place(two, two.private));
    assert_eq!(ways(&fixture), [1, 0, 3], "one by itself, three by way of a chunk each");
    for peer in &mut peers {
        peer.go_on(&mut fixture);
        assert_eq!(peer.sum(), sum(&pattern(1, BYTES)));
        assert_eq!(peer.role.ask("sum"), sum(&pattern(1, BYTES)).to_string());
    }
    drop(areas);
}

#[test]
fn an_area_in_which_its_owner_writes_is_only_read() {
    let _turn = turn();
    let mut fixture = Fixture::new(false);
    let mut peer = Peer::new(&fixture, "30");
    let area = fixture.me.create_area(&AreaConfig::vm(1 << 20).owner_writes()).unwrap();
    assert_eq!(peer.role.ask(&format!("attach {}", area.id())), "0");
    let block = fixture.me.allocate_pages(&area, 4_096, BlockLifetime::Short).unwrap();
    let at = block.address();
    drop(block);
    peer.receive(&mut fixture);
    fixture.me.copy_to(peer.address, at, &[5; 64]).unwrap();
    let mut got = [0; 64];
    fixture.me.copy_from(peer.address, at, &mut got).unwrap();
    assert_eq!(
        (got, ways(&fixture)),
        ([5; 64], [2, 0, 0]),
        "the owner writes where the peer cannot"
    );
    peer.go_on(&mut fixture);
}
