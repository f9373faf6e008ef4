//! One server with many clients: the order of service, and sleeps and wake-ups of the server.

use m3ipc::{Address, Endpoint, Message, PendingRequest, Source, Vm, VmConfig, WaitStrategy};
use m3ipc_test_fixture::{NodeFixture, watchdog};
use std::collections::HashMap;
use std::time::Duration;

const WORK: i32 = 1;
const STOP: i32 = 3;

/// A node and a VM with room for so many clients.
fn node(name: &str, clients: usize) -> (NodeFixture, Vm) {
    watchdog(300);
    let _ = m3ipc_sys::raise_fd_limit();
    let slots = i32::try_from(clients).expect("a small number") + 40;
    let fixture = NodeFixture::with_options(name, &["--procs", &slots.to_string()]);
    let config = VmConfig::new(name).procs(slots);
    let vm = fixture.node().vm_init(&config).expect("a fresh VM");
    (fixture, vm)
}

fn additional(vm: &Vm, strategy: WaitStrategy) -> Endpoint {
    let mut endpoint = vm.bind_additional(None).expect("there is a free slot");
    endpoint.set_strategy(strategy);
    endpoint
}

/// A client that always has a request.
struct Client {
    endpoint: Endpoint,
    pending: PendingRequest,
    /// The number of served requests when this one began.
    since: usize,
    served: usize,
}

impl Client {
    fn new(vm: &Vm, to: Address) -> Self {
        let mut endpoint = additional(vm, WaitStrategy::Adaptive);
        let pending = begin(&mut endpoint, to);
        Self { endpoint, pending, since: 0, served: 0 }
    }
}

fn begin(endpoint: &mut Endpoint, to: Address) -> PendingRequest {
    endpoint.begin_request(to, &Message::new(WORK)).expect("no other request is pending")
}

/// No request waits while a later request of another client is served, so each waits for as many
/// others as there are clients. A request that is never served counts too.
#[test]
fn no_client_of_a_thousand_waits_for_more_than_its_turn() {
    const CLIENTS: usize = 1_000;
    const ROUNDS: usize = 10;
    let (_fixture, vm) = node("turns", CLIENTS);
    let _first = vm.bind_any().expect("a bound process");
    let mut server = additional(&vm, WaitStrategy::Adaptive);
    let to = server.address();
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::new(&vm, to)).collect();
    let slots: HashMap<Address, usize> =
        clients.iter().enumerate().map(|(at, client)| (client.endpoint.address(), at)).collect();
    let mut serve_one = |clients: &mut Vec<Client>, served: usize| {
        let request = server.receive(Source::Any).expect("clients have requests");
        server.reply(request.source, &Message::new(WORK)).expect("it waits");
        let client = &mut clients[slots[&request.source]];
        let answer = client.endpoint.poll_request(&mut client.pending).expect("the server lives");
        assert_eq!(answer.expect("the answer is there").m_type, WORK);
        let wait = served - std::mem::replace(&mut client.since, served);
        client.served += 1;
        client.pending = begin(&mut client.endpoint, to);
        wait
    };
    // A request is posted when its link is made. A poll posts those whose first contact took long.
    let mut served = 0;
    while clients.iter().any(|client| client.served == 0) {
        for client in clients.iter_mut().filter(|client| client.served == 0) {
            let polled = client.endpoint.poll_request(&mut client.pending);
            assert!(polled.expect("the server lives").is_none(), "nobody has answered it");
        }
        for _ in 0..CLIENTS {
            served += 1;
            serve_one(&mut clients, served);
        }
    }
    // From here on all clients have posted requests.
    clients.iter_mut().for_each(|client| (client.since, client.served) = (served, 0));
    let mut waits = Vec::new();
    for _ in 0..CLIENTS * ROUNDS {
        served += 1;
        waits.push(serve_one(&mut clients, served));
    }
    let never = clients.iter().filter(|client| client.served == 0).count();
    assert_eq!(never, 0, "clients that were never served in {ROUNDS} rounds");
    // Requests that still wait have waited so long already.
    waits.extend(clients.iter().map(|client| served - client.since));
    waits.sort_unstable();
    let (median, longest) = (waits[waits.len() / 2], waits[waits.len() - 1]);
    println!("{CLIENTS} equal clients: median wait {median} requests, longest {longest}");
    assert!(longest <= 3 * median, "a request waited for {longest} others, the median {median}");
}

/// Answers each message by the next type, until one says stop.
fn serve(mut server: Endpoint) {
    loop {
        let request = server.receive(Source::Any).expect("the server is bound");
        server.reply(request.source, &Message::new(request.m_type + 1)).expect("it waits");
        if request.m_type == STOP {
            return;
        }
    }
}

/// A busy server sleeps on the wake word of its ready bitmap, and an idle one on its links or at
/// its doorbell. Each client wakes it in each of these sleeps.
fn wakes_for_each_client(name: &str, clients: usize, strategy: WaitStrategy) {
    let (_fixture, vm) = node(name, clients);
    let _first = vm.bind_any().expect("a bound process");
    let server = additional(&vm, strategy);
    let to = server.address();
    let serving = std::thread::spawn(move || serve(server));
    let mut clients: Vec<Endpoint> = (0..clients).map(|_| additional(&vm, strategy)).collect();
    let trip = |client: &mut Endpoint, m_type| {
        let answer = client.sendrec(to, &Message::new(m_type)).expect("the server lives");
        assert_eq!(answer.m_type, m_type + 1);
    };
    for round in 0..20 {
        clients.iter_mut().for_each(|client| trip(client, 10 + round));
    }
    let last = clients.len() - 1;
    for at in [0, last / 2, last, 0] {
        // The server now sleeps as it does after a while without messages.
        std::thread::sleep(Duration::from_millis(120));
        trip(&mut clients[at], WORK);
        trip(&mut clients[last - at], WORK);
    }
    trip(&mut clients[last], STOP);
    serving.join().expect("the server ends");
}

#[test]
fn a_server_of_a_few_clients_wakes_for_each() {
    wakes_for_each_client("few", 5, WaitStrategy::Block);
}

#[test]
fn a_server_of_many_clients_wakes_for_each() {
    wakes_for_each_client("many", 300, WaitStrategy::Block);
}

#[test]
fn an_adaptive_server_of_many_clients_wakes_for_each() {
    wakes_for_each_client("adaptive", 300, WaitStrategy::Adaptive);
}
