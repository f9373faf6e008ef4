//! Copies between the memory of programs on different nodes, in all forms.

use m3ipc::{Address, Audience, Code, Endpoint, Grant, Lease, Location, Message, Rights, Source};
use m3ipc_test_fixture::{until, watchdog};
use m3ipc_test_nodes::Cluster;

const CLIENT: i32 = 1;
const SERVER: i32 = 10;
const SERVER_ADDRESS: Address = Address(SERVER);

fn pattern(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at.wrapping_mul(31) ^ (at >> 8) ^ number).to_le_bytes()[0]).collect()
}

/// A request with a number.
fn telling(m_type: i32, number: u64) -> Message {
    Message::new(m_type).with_bytes(&number.to_ne_bytes())
}

/// The number of a request.
fn told(request: &Message) -> u64 {
    u64::from_ne_bytes(request.payload[..8].try_into().expect("8 bytes"))
}

/// Lends a buffer to the server for one request. Returns the buffer as the server left it.
fn lend(mut client: Endpoint, mut memory: Vec<u8>) -> std::thread::JoinHandle<(Endpoint, Vec<u8>)> {
    std::thread::spawn(move || {
        let lease = Lease::both(&mut memory);
        let request = telling(7, lease.address());
        client.sendrec_leased(SERVER_ADDRESS, &request, &[lease], None).expect("an answer");
        (client, memory)
    })
}

#[test]
fn a_server_reads_and_writes_what_its_remote_client_has_lent() {
    watchdog(120);
    let cluster = Cluster::new("lease");
    let mut server = cluster.beta.vm.bind(SERVER).expect("the slot is of beta");
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    for (number, bytes) in
        [1, 65_535, 65_536, 65_537, 700_000, (4 << 20) + 3].into_iter().enumerate()
    {
        let lending = lend(client, pattern(number, bytes));
        let request = server.receive(Source::Any).expect("the request comes");
        let (from, address) = (request.source, told(&request));
        let mut found = vec![0; bytes];
        server.copy_from(from, address, &mut found).expect("it was lent");
        assert!(found == pattern(number, bytes), "{bytes} bytes");
        assert_eq!(server.copied(), bytes as u64);
        let changed = pattern(number + 100, bytes);
        server.copy_to(from, Location::Leased(0), &changed).expect("it was lent");
        assert_eq!(server.copied(), bytes as u64);
        server.reply(from, &Message::new(0)).expect("the client waits");
        let (back, memory) = lending.join().expect("an answer");
        assert!(memory == changed, "{bytes} bytes");
        client = back;
    }
}

#[test]
fn what_was_not_lent_is_refused_where_the_memory_is() {
    watchdog(120);
    let cluster = Cluster::new("not-lent");
    let mut server = cluster.beta.vm.bind(SERVER).expect("the slot is of beta");
    let client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    let secret = pattern(1, 100_000);
    let lending = lend(client, pattern(2, 100_000));
    let request = server.receive(Source::Any).expect("the request comes");
    let (from, address) = (request.source, told(&request));
    let mut found = vec![0; 100_000];
    // An address of the client's process, a range that begins in the lease, and one beside it.
    for place in [secret.as_ptr() as u64, address + 1, address - 1, 0, u64::MAX] {
        let refused = server.copy_from(from, place, &mut found).expect_err("not lent");
        assert_eq!(refused.code(), Code::Perm, "{place:x}");
        let refused = server.copy_to(from, place, &found).expect_err("not lent");
        assert_eq!(refused.code(), Code::Perm, "{place:x}");
        assert_eq!(server.copied(), 0);
    }
    for (place, code) in [
        (Location::Leased(1), Code::Range),
        (Location::Granted(Grant::from_u64(1 << 32 | 5), 0), Code::Perm),
    ] {
        let refused = server.copy_from(from, place, &mut found).expect_err("not lent");
        assert_eq!(refused.code(), code, "{place:?}");
    }
    assert!(found.iter().all(|byte| *byte == 0) && secret == pattern(1, 100_000));
    server.copy_from(from, address, &mut found).expect("it was lent");
    server.reply(from, &Message::new(0)).expect("the client waits");
    let (client, memory) = lending.join().expect("an answer");
    assert!(memory == pattern(2, 100_000));
    // The lease has ended with the call, and the client waits for nothing.
    let refused = server.copy_from(from, address, &mut found).expect_err("the call is over");
    assert_eq!(refused.code(), Code::ProcSts);
    drop(client);
    until("the death is known", || !cluster.beta.knows(from));
    let refused = server.copy_from(from, address, &mut found).expect_err("the client is gone");
    assert_eq!(refused.code(), Code::SrcDied);
}

#[test]
fn a_grant_holds_until_it_is_revoked() {
    watchdog(120);
    let cluster = Cluster::new("grant");
    let mut server = cluster.beta.vm.bind(SERVER).expect("the slot is of beta");
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    let granting = std::thread::spawn(move || {
        let audience = Audience::Only(SERVER_ADDRESS);
        let grant = client.grant(audience, pattern(1, 200_000), Rights::Read).expect("a grant");
        let number = telling(7, grant.to_u64());
        client.sendrec(SERVER_ADDRESS, &number).expect("an answer");
        client.revoke(grant).expect("it was granted");
        client.sendrec(SERVER_ADDRESS, &number).expect("an answer");
    });
    let mut found = vec![0; 100_000];
    let request = server.receive(Source::Any).expect("the request comes");
    let (from, grant) = (request.source, Grant::from_u64(told(&request)));
    server.copy_from(from, Location::Granted(grant, 50_000), &mut found).expect("granted");
    assert!(found == pattern(1, 200_000)[50_000..150_000]);
    let outside = server.copy_from(from, Location::Granted(grant, 100_001), &mut found);
    assert_eq!(outside.expect_err("beyond its end").code(), Code::Range);
    let written = server.copy_to(from, Location::Granted(grant, 0), &found);
    assert_eq!(written.expect_err("only to read").code(), Code::Perm);
    server.reply(from, &Message::new(0)).expect("the client waits");
    let request = server.receive(Source::Any).expect("the request comes");
    let revoked = server.copy_from(from, Location::Granted(grant, 0), &mut found);
    assert_eq!(revoked.expect_err("revoked").code(), Code::Perm);
    server.reply(request.source, &Message::new(0)).expect("the client waits");
    granting.join().expect("all is well");
}

#[test]
fn a_third_party_copies_between_two_nodes() {
    watchdog(120);
    let cluster = Cluster::new("third");
    let mut server = cluster.beta.vm.bind(SERVER).expect("the slot is of beta");
    // Further endpoints of a process need a first one on their node.
    let _home = cluster.alpha.vm.bind(5).expect("the slot is of alpha");
    let bytes = 300_000;
    // Source and destination: one on each node, in both ways, and both on the other node.
    for (source_here, destination_here) in [(false, true), (true, false), (false, false)] {
        let of = |here: bool, slot: i32| {
            let (node, slot) =
                if here { (&cluster.beta, SERVER + slot) } else { (&cluster.alpha, slot) };
            let endpoint = node.vm.bind_additional(Some(slot)).expect("a slot of its node");
            node.await_endpoint(SERVER_ADDRESS);
            endpoint
        };
        let source = lend(of(source_here, 1), pattern(1, bytes));
        let from = server.receive(Source::Any).expect("the request comes");
        let destination = lend(of(destination_here, 2), pattern(2, bytes));
        let to = server.receive(Source::Any).expect("the request comes");
        let part = 200_000;
        let sides = [(from.source, told(&from) + 10), (to.source, told(&to) + 20)];
        let [source_side, destination_side] = sides.map(|(who, at)| (who, Location::At(at)));
        server.copy_between(source_side, destination_side, part, None).expect("both have lent");
        assert_eq!(server.copied(), part);
        for who in [from.source, to.source] {
            server.reply(who, &Message::new(0)).expect("the client waits");
        }
        let (_one, kept) = source.join().expect("an answer");
        let (_other, got) = destination.join().expect("an answer");
        let mut expected = pattern(2, bytes);
        expected[20..200_020].copy_from_slice(&pattern(1, bytes)[10..200_010]);
        assert!(kept == pattern(1, bytes) && got == expected, "{source_here} {destination_here}");
    }
}

#[test]
fn a_party_that_dies_ends_its_copy() {
    watchdog(120);
    let cluster = Cluster::new("copy-death");
    let mut server = cluster.beta.vm.bind(SERVER).expect("the slot is of beta");
    let mut found = vec![0; 4 << 20];
    for writes in [false, true] {
        let mut client = cluster.alpha.program("lender", CLIENT);
        let request = server.receive(Source::Any).expect("the request comes");
        let (from, address) = (request.source, told(&request));
        server.copy_from(from, address, &mut found).expect("it was lent");
        let killer = std::thread::spawn(move || client.kill());
        let failed = loop {
            let copied = match writes {
                true => server.copy_to(from, address, &found),
                false => server.copy_from(from, address, &mut found),
            };
            if let Err(error) = copied {
                break error;
            }
        };
        killer.join().expect("no panic");
        let died = if writes { Code::DstDied } else { Code::SrcDied };
        assert_eq!(failed.code(), died);
        until("the death is known", || !cluster.beta.knows(from));
    }
}

#[test]
fn a_lost_node_ends_the_copy() {
    watchdog(120);
    let mut cluster = Cluster::new("copy-lost");
    let mut server = cluster.beta.vm.bind(SERVER).expect("the slot is of beta");
    let mut found = vec![0; 4 << 20];
    for of_beta in [false, true] {
        let _client = cluster.alpha.program("lender", CLIENT);
        let request = server.receive(Source::Any).expect("the request comes");
        let (from, address) = (request.source, told(&request));
        server.copy_from(from, address, &mut found).expect("it was lent");
        let node = if of_beta { &mut cluster.beta } else { &mut cluster.alpha };
        node.proxy.kill();
        let failed = loop {
            if let Err(error) = server.copy_from(from, address, &mut found) {
                break error;
            }
        };
        // Lost in the copy; before it; or the new life of the other proxy has ended the endpoint.
        let codes = [Code::NotConn, Code::SrcDied, Code::TimedOut];
        assert!(codes.contains(&failed.code()), "{failed}");
        let node = if of_beta { &mut cluster.beta } else { &mut cluster.alpha };
        node.restart_proxy();
        drop(_client);
        until("the client is gone", || !cluster.beta.knows(from) && !cluster.alpha.knows(from));
        cluster.alpha.await_endpoint(SERVER_ADDRESS);
    }
}
