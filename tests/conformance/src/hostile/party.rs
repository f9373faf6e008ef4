//! A party of copies, in a process of its own: `party DIRECTORY VM SLOT BYTES`.
//!
//! Its memory holds a pattern. Says `ready ADDRESS AT`, then for each line what came of it:
//!
//! | line | what it does |
//! |---|---|
//! | `receive N` | a receive from N; its code |
//! | `lend N` | a request to N that lends all memory both ways; its code |
//! | `grant N` | grants all memory to N both ways; the grant |
//! | `send N` | a message to N; its code |
//! | `copy N AT BYTES` | copies so much of N's memory to the front of its own; its code and what was copied |
//! | `put N AT BYTES` | copies so much from the front of its own memory to N's; the same |
//! | `between N AT M AT BYTES` | copies so much of N's memory to M's; the same |
//! | `sum` | the sum of its memory |
//! | `filter` | from now on the kernel refuses it process_vm_readv and writev |
//! | `clear` | its memory is all zeroes |
//! | `unmap` | from the middle on its memory is gone |
//! | `area BYTES` | makes an area for all with a block of so much, which holds the pattern; the area and its address |
//! | `attach A` | attaches area A; its code |
//! | `block` | the sum of its block |
//! | `pass N` | a message to N with its block, which it keeps naming; its code |
//! | `unrest HOW` | another thread does this to its second half for ever: `protect`, `replace`, `shrink` |
//! | `map PATH` | its memory is this file |
//! | `never` | its memory is a page that nobody ever fills (userfaultfd) |

use m3ipc::{
    Address, AreaConfig, Audience, Block, BlockLifetime, Code, CopyTarget, Endpoint, Lease,
    Location, Message, Rights, Timeout,
};
use m3ipc_conformance::memory::{self, Memory, Unrest};
use std::io::BufRead;
use std::path::Path;

/// Does what it is told, line by line.
pub fn run(directory: &str, vm: &str, slot: &str, bytes: &str) {
    let mut node = m3ipc::Node::find(Path::new(directory)).expect("the node runs");
    let vm = node.vm_named(vm).expect("the VM is there");
    let mut me = vm.bind(slot.parse().expect("a slot")).expect("the slot is free");
    let mut memory = Memory::new(bytes.parse().expect("a number of bytes"));
    memory.write(&m3ipc_conformance::pattern(1, memory.bytes()));
    println!("ready {} {}", me.address().0, memory.address());
    let mut block = None;
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        println!(
            "{}",
            in_area(&mut me, &mut block, &line).unwrap_or_else(|| step(
                &mut me,
                &mut memory,
                &line
            ))
        );
    }
}

/// The steps about areas.
fn in_area(me: &mut Endpoint, block: &mut Option<Block>, line: &str) -> Option<String> {
    let (step, number) = line.split_once(' ').unwrap_or((line, "0"));
    let number: u64 = number.parse().unwrap_or_default();
    let small = || u32::try_from(number).unwrap_or_default();
    Some(match step {
        "area" => {
            let area = me.create_area(&AreaConfig::vm(4 * number + (1 << 20))).expect("an area");
            let mut made = me.allocate_pages(&area, number, BlockLifetime::Short).expect("a block");
            let content = m3ipc_conformance::pattern(1, made.len());
            made.copy_from(&content).expect("its own");
            let said = format!("{} {}", area.id(), made.address());
            *block = Some(made);
            said
        }
        "attach" => said(me.attach_area(small()).map(drop).map_err(|error| error.code())),
        "block" => {
            m3ipc_conformance::sum(&block.as_ref().map_or_else(Vec::new, Block::to_vec)).to_string()
        }
        "pass" => {
            let (to, message) = (Address(small().cast_signed()), Message::new(1));
            let given = block.take().expect("a block");
            said(
                me.send_block(to, &message, given, Timeout::Never)
                    .map_err(|unsent| unsent.error.code()),
            )
        }
        _ => return None,
    })
}

fn step(me: &mut Endpoint, memory: &mut Memory, line: &str) -> String {
    let mut words = line.split(' ');
    let step = words.next().unwrap_or_default();
    let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).unwrap_or_default();
    let address = |number: u64| Address(i32::try_from(number).unwrap_or_default());
    match step {
        "receive" => said(me.receive(address(number())).map(drop).map_err(|error| error.code())),
        "send" => said(me.send(address(number()), &Message::new(1)).map_err(|error| error.code())),
        "lend" => {
            let loan = Lease::of_target(&memory.room(), true);
            let answered =
                me.sendrec_leased(address(number()), &Message::new(1), &[loan], Timeout::Never);
            said(answered.map(drop).map_err(|error| error.code()))
        }
        "grant" => {
            let granted =
                me.grant_target(Audience::Only(address(number())), &memory.room(), Rights::Both);
            granted.map_or_else(|error| error.to_string(), |grant| grant.to_u64().to_string())
        }
        "copy" => {
            let (from, at, bytes) = (address(number()), number(), number());
            let mut room: CopyTarget<'static> = memory.room();
            let mut room = room.part(0, usize::try_from(bytes).unwrap_or_default());
            let copied = me.copy_into_target(from, Location::At(at), &mut room, Timeout::Never);
            format!("{} {}", said(copied.map_err(|error| error.code())), me.copied())
        }
        "put" => {
            let (to, at, bytes) = (address(number()), number(), number());
            let sent = memory.bytes_of(usize::try_from(bytes).unwrap_or_default());
            let copied = me.copy_source_to(to, Location::At(at), &sent, Timeout::Never);
            format!("{} {}", said(copied.map_err(|error| error.code())), me.copied())
        }
        "between" => {
            let (from, to) = (
                (address(number()), Location::At(number())),
                (address(number()), Location::At(number())),
            );
            let copied = me.copy_between(from, to, number(), Timeout::Never);
            format!("{} {}", said(copied.map_err(|error| error.code())), me.copied())
        }
        "sum" => m3ipc_conformance::sum(&memory.read()).to_string(),
        "filter" => said(memory::refuse_copies().map_err(|_errno| Code::Perm)),
        "clear" => {
            memory.write(&vec![0; memory.bytes()]);
            "0".to_owned()
        }
        "unmap" => {
            memory.unmap_half();
            "0".to_owned()
        }
        "unrest" => {
            memory.unsettle(match line {
                "unrest protect" => Unrest::Protect,
                "unrest replace" => Unrest::Replace,
                _ => Unrest::Shrink,
            });
            "0".to_owned()
        }
        "map" => {
            let path = line.strip_prefix("map ").unwrap_or_default();
            said(memory.map_file(Path::new(path)).map_err(|_errno| Code::Perm))
        }
        "never" => said(memory.never_fill().map_err(|_errno| Code::Perm)),
        _ => "no such step".to_owned(),
    }
}

fn said(result: Result<(), Code>) -> String {
    result.map_or_else(|code| code.number(), |()| 0).to_string()
}
