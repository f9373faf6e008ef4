//! A third party copies a block between two others: neither sends it, none sees it.
//!
//! ```text
//! cargo run --release -p m3ipc --example copy_between
//! ```
//!
//! The source lends its block with a request, to be read; the destination
//! lends room for it, to be written. Both wait until the third answers.

use m3ipc::{Address, Endpoint, Loan, Location, Message, Node, Source, Timeout, Vm, VmConfig};
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

/// Lends a block with a request, and waits.
fn party(vm: &Vm, role: i32) -> Result<(), Box<dyn Error>> {
    let mut me = vm.bind_thread(None)?;
    let mut block = vec![0_u8; BYTES];
    if role == SOURCE {
        block.iter_mut().enumerate().for_each(|(at, byte)| *byte = byte_at(at));
    }
    let loan = if role == SOURCE { Loan::read(&block) } else { Loan::write(&mut block) };
    let request = Message::new(role).with_bytes(&loan.address().to_ne_bytes());
    me.sendrec_lent(THIRD, &request, &[loan], Timeout::Never)?;
    let right = block.iter().enumerate().all(|(at, byte)| *byte == byte_at(at));
    if right { Ok(()) } else { Err("the block is not what it should be".into()) }
}

fn byte_at(at: usize) -> u8 {
    (at * 31 + at / 251).to_le_bytes()[0]
}

/// Takes both requests, copies, and answers both.
fn serve(third: &mut Endpoint) -> Result<(), Box<dyn Error>> {
    let mut asked = [(Address(0), Location::At(0)); 2];
    for _ in 0..2 {
        let request = third.receive(Source::Any)?;
        let place = if request.m_type == SOURCE { 0 } else { 1 };
        let address = request.payload.first_chunk().copied().map_or(0, u64::from_ne_bytes);
        asked[place] = (request.source, Location::At(address));
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
