//! Copies in areas: the requester copies by itself what both have mapped, and the bytes are the same.

use crate::world::{World, pattern};
use m3ipc::{Address, AreaConfig, Block, BlockLifetime, CopyError, Location, Message, Timeout};
use m3ipc_conformance::field::Role;
use m3ipc_conformance::sum;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A party in a process of its own, with a block of an area of its own.
struct Party {
    role: Role,
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

impl Party {
    fn new(world: &World, slot: &str) -> Self {
        let directory = world.field.directory().to_str().unwrap();
        let mut role =
            Role::start(0, "party", &[directory, world.vm.name(), slot, &BYTES.to_string()]);
        let ready: Vec<u64> = numbers(&role.hear());
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

    fn receive(&mut self, world: &mut World) {
        self.role.tell("receive 1");
        world.until_slot_blocked(self.address.slot(), "receive");
    }

    fn go_on(&mut self, world: &mut World) {
        world.me.send(self.address, &Message::new(0)).unwrap();
        assert_eq!(self.role.hear(), "0");
    }

    fn sum(&mut self) -> u64 {
        self.role.ask("block").parse().unwrap()
    }
}

fn numbers(line: &str) -> Vec<u64> {
    line.split(' ').filter_map(|word| word.parse().ok()).collect()
}

/// Copies that slot 1 has asked for: in areas, direct, served.
fn ways(world: &World) -> [u64; 3] {
    let me = world.field.node().endpoint(world.vm.id(), 1).unwrap().unwrap();
    [me.copies_shared, me.copies_direct, me.copies_served]
}

fn block_of(world: &mut World, area: u32, content: &[u8]) -> Block {
    let area = world.me.attach_area(area).unwrap();
    let mut block =
        world.me.allocate_pages(&area, content.len() as u64, BlockLifetime::Short).unwrap();
    block.copy_from(content).unwrap();
    block
}

#[test]
fn what_lies_in_areas_is_copied_by_the_requester() {
    let _turn = turn();
    for granted in [false, true] {
        let mut world = World::new(granted);
        let mut party = Party::new(&world, "30");
        let mut expected = pattern(1, BYTES);
        let content = pattern(2, 600_000);
        let mut block = block_of(&mut world, party.area, &content);
        let private = pattern(3, 600_000);
        party.receive(&mut world);
        let mut made = 0;
        for bytes in [1, 63, 64, 4_095, 4_096, 4_097, 262_143, 262_144, 262_145, 600_000] {
            for offset in [0, 1, 63, 4_095] {
                let (at, from) = (Location::At(party.at + offset as u64), block.as_source());
                let from = from.part(0, bytes);
                world.me.copy_source_to(party.address, at, &from, Timeout::Never).unwrap();
                expected[offset..offset + bytes].copy_from_slice(&content[..bytes]);
                let mut got = vec![0; bytes];
                world.me.copy_from(party.address, party.at + offset as u64, &mut got).unwrap();
                assert!(got == expected[offset..offset + bytes], "{bytes} at {offset}");
                world.me.copy_to(party.address, party.at + 7, &private[..bytes]).unwrap();
                expected[7..7 + bytes].copy_from_slice(&private[..bytes]);
                assert_eq!(world.me.copied(), bytes as u64);
                made += 3;
            }
        }
        let at = Location::At(party.at);
        let mut into = block.as_target().unwrap();
        world.me.copy_into_target(party.address, at, &mut into, Timeout::Never).unwrap();
        assert!(block.to_vec() == expected[..600_000]);
        assert_eq!(ways(&world), [made + 1, 0, 0], "all by the requester");
        party.go_on(&mut world);
        assert_eq!(party.sum(), sum(&expected));
        let refused = world.me.copy_to(party.address, party.at, &[1]);
        assert_eq!(refused, Err(CopyError::NotBlocked(party.address)));
    }
}

#[test]
fn what_the_requester_may_not_touch_goes_another_way() {
    let _turn = turn();
    let mut world = World::new(false);
    let mut party = Party::new(&world, "30");
    party.receive(&mut world);
    let mut got = vec![0; 5_000];
    world.me.copy_from(party.address, party.at + 3, &mut got).unwrap();
    assert!(got == pattern(1, BYTES)[3..5_003]);
    assert_eq!(ways(&world), [0, 1, 0], "it has not attached the area");
    let area = world.me.attach_area(party.area).unwrap();
    party.go_on(&mut world);
    party.role.tell("pass 1");
    world.me.receive(party.address).unwrap();
    let mut block = world.me.take_block().unwrap().unwrap();
    assert_eq!(party.role.hear(), "0");
    block.set(0, 77).unwrap();
    party.receive(&mut world);
    // The party names what it has given away: here it is in use, which the kernel need not mind.
    world.me.copy_from(party.address, party.at, &mut got).unwrap();
    assert!(got[0] == 77 && got[1..] == pattern(1, BYTES)[1..5_000]);
    assert_eq!(ways(&world), [0, 2, 0]);
    drop(block);
    world.me.copy_from(party.address, party.at, &mut got).unwrap();
    assert_eq!(ways(&world), [1, 2, 0], "nobody uses it now");
    // Nothing is beyond what was given out, whatever a party says.
    let beyond = area.base() + area.limit_bytes() - 100;
    let mut room = [0; 200];
    assert_eq!(
        world.me.copy_from(party.address, beyond, &mut room),
        Err(CopyError::BadAddress(party.address))
    );
    world.me.detach_area(&area).unwrap();
    world.me.copy_from(party.address, party.at, &mut got).unwrap();
    assert_eq!(ways(&world)[0], 1, "it has left the area");
    party.go_on(&mut world);
}

#[test]
fn between_two_others_areas_save_a_pass() {
    let _turn = turn();
    let mut world = World::new(false);
    let mut parties = ["30", "31"].map(|slot| Party::new(&world, slot));
    for party in &mut parties {
        party.receive(&mut world);
    }
    let [one, two] = &parties;
    let place = |party: &Party, at| (party.address, Location::At(at));
    let areas = [one.area, two.area].map(|area| world.me.attach_area(area).unwrap());
    let mut copy =
        |from, to| world.me.copy_between(from, to, BYTES as u64, Timeout::Never).unwrap();
    copy(place(one, one.at), place(two, two.at));
    copy(place(two, two.at), place(one, one.private));
    copy(place(one, one.private), place(two, two.at));
    copy(place(one, one.private), place(two, two.private));
    assert_eq!(ways(&world), [1, 0, 3], "one by itself, three by way of a chunk each");
    for party in &mut parties {
        party.go_on(&mut world);
        assert_eq!(party.sum(), sum(&pattern(1, BYTES)));
        assert_eq!(party.role.ask("sum"), sum(&pattern(1, BYTES)).to_string());
    }
    drop(areas);
}

#[test]
fn an_area_in_which_its_owner_writes_is_only_read() {
    let _turn = turn();
    let mut world = World::new(false);
    let mut party = Party::new(&world, "30");
    let area = world.me.create_area(&AreaConfig::vm(1 << 20).owner_writes()).unwrap();
    assert_eq!(party.role.ask(&format!("attach {}", area.id())), "0");
    let block = world.me.allocate_pages(&area, 4_096, BlockLifetime::Short).unwrap();
    let at = block.address();
    drop(block);
    party.receive(&mut world);
    world.me.copy_to(party.address, at, &[5; 64]).unwrap();
    let mut got = [0; 64];
    world.me.copy_from(party.address, at, &mut got).unwrap();
    assert_eq!(
        (got, ways(&world)),
        ([5; 64], [2, 0, 0]),
        "the owner writes where the party cannot"
    );
    party.go_on(&mut world);
}
