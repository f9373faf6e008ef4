//! The processes of the tests: `m3-tests-nodes ROLE ...`.
//!
//! The proxy is that of the product. The servers are ordinary programs: they know nothing of nodes.

use clap::Parser;
use m3ipc::{Endpoint, Node, Source};
use m3ipc_test_nodes::blocks::{block_of, pattern};
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "registry") {
        // It ends with its input, after it has ended the life of its node in the registry.
        return registry(&words);
    }
    if let [word, program, arguments @ ..] = &words[..]
        && word == m3ipc_proxy::run::keeper::COMMAND
    {
        let kept = m3ipc_proxy::run::keeper::run(Path::new(program), arguments);
        return if kept.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if let [word, directory, node] = &words[..]
        && word == m3ipc_proxy::run::renewal::COMMAND
    {
        let node = m3ipc_proxy::NodeName::new(node).expect("the name of a node");
        let read = m3ipc_proxy::run::renewal::read(Path::new(directory), &node);
        return if read.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let ["crowd", user, directory, endpoints, first, last] = &words[..] {
        let slots = number(first)..=number(last);
        return crowd(user, Path::new(directory), number(endpoints), slots);
    }
    // No process outlives its test.
    let _ = m3ipc_sys::die_with_parent();
    match &words[..] {
        ["proxy", config] => {
            m3ipc_proxy::run::keeper::offer();
            let config = m3ipc_proxy::run::Config::read(Path::new(config));
            match config.map_err(Into::into).and_then(|it| m3ipc_proxy::run::run(&it)) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("m3-tests-nodes: {error}");
                    ExitCode::FAILURE
                }
            }
        }
        ["space"] => {
            println!("here");
            wait();
            ExitCode::SUCCESS
        }
        ["sandbox", config] => sandbox(Path::new(config)),
        ["send-block", directory, vm, slot, area, to] => {
            send_block(Path::new(directory), vm, (number(slot), area, number(to)));
            ExitCode::SUCCESS
        }
        [role, directory, vm, slot] => {
            let node = Node::find(Path::new(directory)).expect("the daemon runs");
            let mut node = node;
            let vm = node.vm_named(vm).expect("the VM runs");
            let slot = slot.parse().expect("a slot");
            let bound = match *role {
                "backup" | "waiter" | "block-waiter" => vm.bind_backup(slot, None),
                "try" => match vm.bind(slot) {
                    Err(error) => {
                        println!("{} {error}", error.code().number());
                        return ExitCode::SUCCESS;
                    }
                    bound => bound,
                },
                _ => vm.bind(slot),
            };
            let endpoint = bound.expect("the slot is free");
            println!("bound");
            if matches!(*role, "mover" | "waiter") {
                wander(&vm, slot, endpoint);
            } else {
                serve(role, endpoint);
            }
            ExitCode::SUCCESS
        }
        _ => ExitCode::from(2),
    }
}

/// Closes the sandbox of a proxy, and tries what it forbids.
fn sandbox(config: &Path) -> ExitCode {
    use m3ipc_proxy::run::{Config, sandbox};
    let config = Config::read(config).expect("a configuration");
    sandbox::drop_root(&config).expect("the user of the configuration");
    println!("{}", sandbox::close(&config).expect("the kernel has a sandbox"));
    for sandbox::Attempt { what, is_forbidden, succeeded } in sandbox::attempts() {
        let word = if is_forbidden == succeeded { "WRONG" } else { "right" };
        println!("{word} {what}");
    }
    println!("done");
    ExitCode::SUCCESS
}

/// `m3-registry`, with the words after the first.
fn registry(words: &[String]) -> ExitCode {
    match m3ipc_registry::execute(m3ipc_registry::CommandLine::parse_from(words)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("m3-registry: {error}");
            ExitCode::FAILURE
        }
    }
}

fn number(word: &str) -> i32 {
    word.parse().expect("a number")
}

/// Sends a block of this area, or of an own one, and says what became of it.
fn send_block(directory: &Path, vm: &str, (slot, area, to): (i32, &str, i32)) {
    let mut node = Node::find(directory).expect("the daemon runs");
    let mut endpoint = node.vm_named(vm).expect("the VM runs").bind(slot).expect("a free slot");
    let area = match area {
        "own" => endpoint.create_area(&m3ipc::AreaConfig::vm(16 << 20)),
        number => endpoint.attach_area(number.parse().expect("a number")),
    };
    let area = area.expect("there is one");
    let content = pattern(5 << 20);
    let block = block_of(&mut endpoint, &area, &content);
    println!("given");
    match endpoint.send_block(m3ipc::Address(to), &m3ipc::Message::new(2), block, None) {
        Ok(()) => println!("taken"),
        Err(unsent) => {
            let is_back = unsent.block.is_some_and(|block| block.to_vec() == content);
            let what = if is_back { "the block came back" } else { "the block is lost" };
            println!("{}, {what}", unsent.error.code().number());
        }
    }
    wait();
}

/// Binds endpoints as a user, and sends a message from each of them to each of these servers.
fn crowd(
    user: &str,
    directory: &Path,
    endpoints: i32,
    slots: std::ops::RangeInclusive<i32>,
) -> ExitCode {
    m3ipc_test_fixture::enter_role(user, "crowd").expect("root becomes any user");
    let mut node = Node::find(directory).expect("the daemon runs");
    let vm = node.vm_named("shop").expect("the VM runs");
    let mut all = vec![vm.bind_any().expect("a free slot")];
    all.extend((1..endpoints).map(|_| vm.bind_additional(None).expect("a free slot")));
    let mut sends = Vec::new();
    for (at, endpoint) in all.iter_mut().enumerate() {
        for slot in slots.clone() {
            let message = m3ipc::Message::new(7);
            let send = endpoint.begin_send(m3ipc::Address(slot), &message, Vec::new());
            sends.push((at, send.expect("the server is known here")));
        }
    }
    println!("sent");
    // A message that is not in its link yet goes there with a poll.
    while !sends.is_empty() {
        sends.retain_mut(|(at, send)| !all[*at].poll_send(send).expect("the server takes it"));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    println!("taken");
    wait();
    ExitCode::SUCCESS
}

/// Answers each request, and says its number before. A request of type 99 asks it to move; it then
/// waits until the slot comes back.
fn wander(vm: &m3ipc::Vm, slot: i32, mut endpoint: Endpoint) {
    loop {
        let request = match endpoint.receive(Source::Any) {
            Ok(request) => request,
            Err(error) => return println!("ended {}", error.code().number()),
        };
        let number = request.payload[..4].try_into().map(u32::from_ne_bytes);
        if request.m_type != 99 {
            println!("{}", number.expect("4 bytes"));
        }
        let _ = endpoint.reply(request.source, &request);
        if request.m_type == 99 {
            match endpoint.migrate() {
                Ok(()) => println!("moved"),
                Err(error) => {
                    println!("refused {}", error.code().number());
                    continue;
                }
            }
            drop(endpoint);
            endpoint = vm.bind_backup(slot, None).expect("the registry names this node");
            println!("bound");
        }
    }
}

fn serve(role: &str, mut endpoint: Endpoint) {
    endpoint.set_receive_limit(if role == "small" { 4096 } else { 64 << 20 });
    match role {
        // Answers each request with its own content, and the next type.
        "echo" | "small" => loop {
            let Ok((request, bytes)) = endpoint.receive_bytes(Source::Any, None) else { return };
            let mut answer = request.message;
            answer.m_type += 1;
            if request.is_request {
                let _ = endpoint.reply_long(request.message.source, &answer, &bytes);
            }
        },
        // Answers each request, and says its number before.
        "tally" | "backup" => loop {
            match endpoint.receive(Source::Any) {
                Ok(request) => {
                    let number = request.payload[..4].try_into().map(u32::from_ne_bytes);
                    println!("{}", number.expect("4 bytes"));
                    let _ = endpoint.reply(request.source, &request);
                }
                Err(error) => {
                    println!("ended {}", error.code().number());
                    return;
                }
            }
        },
        // Ends at once.
        "try" => {}
        // Answers one request, and ends.
        "once" => {
            let Ok((request, bytes)) = endpoint.receive_bytes(Source::Any, None) else { return };
            let _ = endpoint.reply_long(request.message.source, &request.message, &bytes);
        }
        "blocks" | "block-mover" | "block-waiter" => serve_blocks(endpoint),
        // Lends memory to the server at slot 10 for one request.
        "lender" => {
            let server = m3ipc::Address(10);
            let _ = endpoint.wait_bind(server, None);
            let mut memory = vec![7; 4 << 20];
            let lease = m3ipc::Lease::both(&mut memory);
            let request = m3ipc::Message::new(7).with_bytes(&lease.address().to_ne_bytes());
            let _ = endpoint.sendrec_leased(server, &request, &[lease], None);
        }
        // Copies again and again with the memory that the first request lends.
        "reader" | "writer" => {
            let Ok(request) = endpoint.receive(Source::Any) else { return };
            let place = request.payload[..8].try_into().map(u64::from_ne_bytes);
            let (place, mut memory) = (place.expect("8 bytes"), vec![0; 4 << 20]);
            let mut copy = || match role {
                "reader" => endpoint.copy_from(request.source, place, &mut memory).is_ok(),
                _ => endpoint.copy_to(request.source, place, &memory).is_ok(),
            };
            let _ = copy();
            println!("copied");
            while copy() {}
        }
        // Takes one message and does nothing more.
        "silent" => {
            let _ = endpoint.receive(Source::Any);
            println!("taken");
            wait();
        }
        // Takes nothing.
        _ => wait(),
    }
}

/// Takes the block of each message, prints its length and its sum, and answers with both. The type
/// of a request says what happens to its block.
fn serve_blocks(mut endpoint: Endpoint) {
    let mut kept = Vec::new();
    loop {
        let Ok(request) = endpoint.receive(Source::Any) else { return };
        // Others ask meanwhile, and are not heard.
        if matches!(request.m_type, 97 | 98) {
            match request.m_type {
                97 => wait(),
                _ => std::thread::sleep(std::time::Duration::from_millis(500)),
            }
            endpoint.migrate().expect("another node may have the slot");
            println!("moved");
            return wait();
        }
        let block = endpoint.take_block().expect("the block is whole");
        let bytes = block.as_ref().map(m3ipc::Block::to_vec);
        let length = bytes.as_ref().map_or(-1, |bytes| i64::try_from(bytes.len()).expect("small"));
        let sum = bytes.iter().flatten().map(|byte| i64::from(*byte)).sum();
        println!("{length} {sum}");
        let (from, mut answer) = (request.source, m3ipc::Message::new(0));
        answer.set_long(0, length);
        answer.set_long(1, sum);
        match (request.m_type, block) {
            // Comes back, with one added to each byte.
            (1, Some(mut block)) => {
                let added: Vec<u8> = bytes.iter().flatten().map(|it| it.wrapping_add(1)).collect();
                block.copy_from(&added).expect("it may be written");
                let _ = endpoint.reply_block(from, &answer, block);
            }
            (3, block) => {
                kept.extend(block);
                let _ = endpoint.reply(from, &answer);
            }
            (4, _) => {
                kept.clear();
                let _ = endpoint.reply(from, &answer);
            }
            (5, _) => {
                let _ = endpoint.relay_message(from, m3ipc::Address(11), &m3ipc::Message::new(2));
            }
            (_, block) => {
                drop(block);
                let _ = endpoint.reply(from, &answer);
            }
        }
    }
}

/// Waits for the end of the input.
fn wait() {
    let _ = std::io::stdin().read(&mut [0]);
}
