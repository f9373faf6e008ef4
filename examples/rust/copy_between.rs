//! A third party copies a block between two others: neither sends it, none sees it.
//!
//! ```text
//! cargo run --release -p m3ipc --example copy_between
//! ```
//!
//! The source lends its block with a request, to be read: for that call and no longer. The destination
//! grants room for it, to be written, until it takes the grant back. Both wait until the third answers.

use m3ipc::{
    Address, Audience, Endpoint, Grant, Loan, Location, Message, Node, Rights, Source, Timeout, Vm,
    VmConfig,
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
    let vm = node.vm_init(&VmConfig::new(&name).copy_granted(true))?;
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
    let mut me = vm.bind_thread(None)?;
    let block = if role == SOURCE { lend(&mut me)? } else { grant(&mut me)? };
    let right = block.iter().enumerate().all(|(at, byte)| *byte == byte_at(at));
    if right { Ok(()) } else { Err("the block is not what it should be".into()) }
}

/// Lends a block with a request, and waits.
fn lend(me: &mut Endpoint) -> Result<Vec<u8>, Box<dyn Error>> {
    let block: Vec<u8> = (0..BYTES).map(byte_at).collect();
    let loan = Loan::read(&block);
    let request = Message::new(SOURCE).with_bytes(&loan.address().to_ne_bytes());
    me.sendrec_lent(THIRD, &request, &[loan], Timeout::Never)?;
    Ok(block)
}

/// Grants room for a block, tells the grant's name with a request, and waits.
fn grant(me: &mut Endpoint) -> Result<Vec<u8>, Box<dyn Error>> {
    let grant = me.grant(Audience::Only(THIRD), vec![0; BYTES], Rights::Write)?;
    let request = Message::new(DESTINATION).with_bytes(&grant.to_u64().to_ne_bytes());
    me.sendrec(THIRD, &request)?;
    me.revoke(grant)?.ok_or_else(|| "the memory is the endpoint's".into())
}

fn byte_at(at: usize) -> u8 {
    (at * 31 + at / 251).to_le_bytes()[0]
}

/// Takes both requests, copies, and answers both.
fn serve(third: &mut Endpoint) -> Result<(), Box<dyn Error>> {
    let mut asked = [(Address(0), Location::At(0)); 2];
    for _ in 0..2 {
        let request = third.receive(Source::Any)?;
        let named = request.payload.first_chunk().copied().map_or(0, u64::from_ne_bytes);
        match request.m_type {
            SOURCE => asked[0] = (request.source, Location::At(named)),
            _ => asked[1] = (request.source, Location::Granted(Grant::from_u64(named), 0)),
        }
    }
    let began = Instant::now();
    third.copy_between(asked[0], asked[1], BYTES as u64, Timeout::Never)?;
    let (from, to) = (asked[0].0, asked[1].0);
    println!("{} MiB from {from} to {to} in {:.1?}", third.copied() >> 20, began.elapsed());
    for (party, _) in asked {
        third.reply(party, &Message::new(0))?;
    }
    Ok(())
}
