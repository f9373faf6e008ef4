//! A third endpoint copies bytes between two other endpoints, which send nothing.
//!
//! ```text
//! cargo build -p m3ipc-daemon
//! export M3_DAEMON=$PWD/target/debug/m3d
//! cargo run --release -p m3ipc --example copy_between
//! ```
//!
//! The source leases its memory with a request, for reads during that call. The destination grants
//! memory for writes, until it revokes the grant. Both wait until the third endpoint answers.

use m3ipc::{
    Address, Audience, Endpoint, Grant, Lease, Location, Message, Node, Rights, Source, Timeout,
    Vm, VmConfig, VmLife,
};
use std::error::Error;
use std::time::Instant;

const BYTES: usize = 64 << 20;
const THIRD: Address = Address(1);
const SOURCE: i32 = 1;
const DESTINATION: i32 = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let mut node = Node::attach()?;
    let name = format!("between-{}", std::process::id() % 100_000);
    let vm = node.vm_init(&VmConfig::new(&name).copy_granted(true).life(VmLife::Creator))?;
    let mut third = vm.bind(1)?;
    let parties = [SOURCE, DESTINATION].map(|role| {
        let vm = vm.clone();
        std::thread::spawn(move || party(&vm, role).map_err(|error| error.to_string()))
    });
    serve(&mut third)?;
    for party in parties {
        party.join().map_err(|_panic| "a party failed")??;
    }
    drop(third);
    node.vm_end(vm.id())?;
    Ok(())
}

fn party(vm: &Vm, role: i32) -> Result<(), Box<dyn Error>> {
    let mut me = vm.bind_additional(None)?;
    let block = if role == SOURCE { lease(&mut me)? } else { grant(&mut me)? };
    let right = block.iter().enumerate().all(|(at, byte)| *byte == byte_at(at));
    if right { Ok(()) } else { Err("the block is not what it should be".into()) }
}

/// Leases memory with a request, and waits.
fn lease(me: &mut Endpoint) -> Result<Vec<u8>, Box<dyn Error>> {
    let block: Vec<u8> = (0..BYTES).map(byte_at).collect();
    let lease = Lease::read(&block);
    let request = Message::new(SOURCE).with_bytes(&lease.address().to_ne_bytes());
    me.sendrec_leased(THIRD, &request, &[lease], Timeout::Never)?;
    Ok(block)
}

/// Grants memory, sends the name of the grant with a request, and waits.
fn grant(me: &mut Endpoint) -> Result<Vec<u8>, Box<dyn Error>> {
    let grant = me.grant(Audience::Only(THIRD), vec![0; BYTES], Rights::Write)?;
    let request = Message::new(DESTINATION).with_bytes(&grant.to_u64().to_ne_bytes());
    me.sendrec(THIRD, &request)?;
    me.revoke(grant)?.ok_or_else(|| "the endpoint owned the memory".into())
}

fn byte_at(at: usize) -> u8 {
    (at * 31 + at / 251).to_le_bytes()[0]
}

/// Takes both requests, copies, and answers both.
fn serve(third: &mut Endpoint) -> Result<(), Box<dyn Error>> {
    let mut parties = [(Address(0), Location::At(0)); 2];
    for _ in 0..2 {
        let request = third.receive(Source::Any)?;
        let named = request.payload.first_chunk().copied().map_or(0, u64::from_ne_bytes);
        match request.m_type {
            SOURCE => parties[0] = (request.source, Location::At(named)),
            _ => parties[1] = (request.source, Location::Granted(Grant::from_u64(named), 0)),
        }
    }
    let began = Instant::now();
    third.copy_between(parties[0], parties[1], BYTES as u64, Timeout::Never)?;
    let (from, to) = (parties[0].0, parties[1].0);
    println!("{} MiB from {from} to {to} in {:.1?}", third.copied() >> 20, began.elapsed());
    for (party, _) in parties {
        third.reply(party, &Message::new(0))?;
    }
    Ok(())
}
