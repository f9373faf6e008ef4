//! A server hands a request to a server of another node: the client gets the answer.

use m3ipc::{Address, Code, Message, Source};
use m3ipc_test_fixture::{until, watchdog};
use m3ipc_test_nodes::{Cluster, OneNode};

/// The client of alpha.
const CLIENT: i32 = 1;
/// Servers of alpha and of beta.
const ALPHA: [i32; 2] = [2, 3];
const BETA: [i32; 2] = [10, 11];

/// A client asks `first`, which relays to `second`, which adds 1 to the type and the first byte.
fn relayed(first: (&OneNode, i32), second: (&OneNode, i32), cluster: &Cluster, said: Option<i32>) {
    let mut client = cluster.alpha.bind(CLIENT);
    let mut hands_on = first.0.bind(first.1);
    let mut answers = second.0.bind(second.1);
    let all = [client.address(), hands_on.address(), answers.address()];
    for address in all {
        cluster.alpha.await_endpoint(address);
        cluster.beta.await_endpoint(address);
    }
    let [own, to, next] = all;
    let handing = std::thread::spawn(move || {
        let (request, _) = hands_on.receive_bytes(Source::Any, None).expect("the request comes");
        let Message { source: client, .. } = request.message;
        match said {
            None => hands_on.relay(client, next).expect("the client waits"),
            Some(m_type) => {
                let message = Message { m_type, ..request.message };
                hands_on.relay_message(client, next, &message).expect("the client waits");
            }
        }
        assert_eq!(client, own);
        hands_on
    });
    let answering = std::thread::spawn(move || {
        let (request, bytes) = answers.receive_bytes(Source::Any, None).expect("it is handed on");
        assert!(request.is_request && bytes.len() == 1000, "{request:?}");
        let mut answer = request.message;
        answer.m_type += 1;
        answer.payload[0] += 1;
        answers.reply_long(request.message.source, &answer, &bytes).expect("the client waits");
        (answers, request.message.source)
    });
    let request = Message::new(7).with_bytes(&[5; 8]);
    let bytes = [6; 1000];
    let mut buffer = [0; 2000];
    let (answer, long) = client
        .sendrec_long(to, &request, &bytes, &mut buffer, None)
        .expect("the second server answers");
    assert_eq!((answer.source, answer.m_type), (next, said.unwrap_or(7) + 1));
    assert_eq!((answer.payload[0], answer.payload[1]), (6, 5));
    assert_eq!(buffer[..long], bytes);
    let _hands_on = handing.join().expect("it has handed the request on");
    let (_answers, source) = answering.join().expect("it has answered");
    assert_eq!(source, own);
}

#[test]
fn from_the_node_of_the_client_to_another() {
    watchdog(60);
    let cluster = Cluster::new("relay-out");
    let (alpha, beta) = (&cluster.alpha, &cluster.beta);
    relayed((alpha, ALPHA[0]), (beta, BETA[0]), &cluster, None);
}

#[test]
fn back_to_the_node_of_the_client() {
    watchdog(60);
    let cluster = Cluster::new("relay-back");
    let (alpha, beta) = (&cluster.alpha, &cluster.beta);
    relayed((beta, BETA[0]), (alpha, ALPHA[0]), &cluster, None);
}

#[test]
fn back_to_the_node_of_the_client_with_other_words() {
    watchdog(60);
    let cluster = Cluster::new("relay-words");
    let (alpha, beta) = (&cluster.alpha, &cluster.beta);
    relayed((beta, BETA[0]), (alpha, ALPHA[0]), &cluster, Some(70));
}

#[test]
fn within_the_node_of_the_servers() {
    watchdog(60);
    let cluster = Cluster::new("relay-there");
    let beta = &cluster.beta;
    relayed((beta, BETA[0]), (beta, BETA[1]), &cluster, Some(70));
}

#[test]
fn the_first_server_may_end_before_the_answer() {
    watchdog(60);
    let cluster = Cluster::new("relay-end");
    let mut client = cluster.alpha.bind(CLIENT);
    let mut answers = cluster.beta.bind(BETA[1]);
    let mut hands_on = cluster.beta.bind(BETA[0]);
    let (to, next) = (hands_on.address(), answers.address());
    cluster.alpha.await_endpoint(next);
    cluster.alpha.await_endpoint(to);
    let asking = std::thread::spawn(move || client.sendrec(to, &Message::new(7)));
    let request = hands_on.receive(Source::Any).expect("the request comes");
    hands_on.relay(request.source, next).expect("the client waits");
    drop(hands_on);
    let request = answers.receive(Source::Any).expect("it is handed on");
    until("the death is known", || !cluster.alpha.knows(to));
    answers.reply(request.source, &Message::new(8)).expect("the client waits");
    let answer = asking.join().expect("no panic").expect("the second server has answered");
    assert_eq!((answer.source, answer.m_type), (next, 8));
}

/// The client hears of the death of the second server, which is on this node.
fn second_dies(node: &OneNode, slot: i32, cluster: &Cluster) {
    for (role, code) in [("silent", Code::SrcDied), ("deaf", Code::DstDied)] {
        let mut client = cluster.alpha.bind(CLIENT);
        let mut hands_on = cluster.beta.bind(BETA[0]);
        let mut second = node.program(role, slot);
        let (to, next) = (hands_on.address(), Address(slot));
        for address in [to, next] {
            cluster.alpha.await_endpoint(address);
            cluster.beta.await_endpoint(address);
        }
        let asking = std::thread::spawn(move || client.sendrec(to, &Message::new(7)));
        let request = hands_on.receive(Source::Any).expect("the request comes");
        hands_on.relay(request.source, next).expect("the client waits");
        if role == "silent" {
            assert_eq!(second.line(), "taken");
        }
        second.kill();
        let asked = asking.join().expect("no panic");
        assert_eq!(asked.expect_err("the second server is dead").code(), code);
        drop(hands_on);
        for node in [&cluster.alpha, &cluster.beta] {
            until("the ends are known", || !node.knows(next) && !node.knows(to));
        }
    }
}

#[test]
fn the_death_of_the_second_server_on_the_node_of_the_first() {
    watchdog(60);
    let cluster = Cluster::new("relay-death");
    second_dies(&cluster.beta, BETA[1], &cluster);
}

#[test]
fn the_death_of_the_second_server_on_the_node_of_the_client() {
    watchdog(60);
    let cluster = Cluster::new("relay-death");
    second_dies(&cluster.alpha, ALPHA[0], &cluster);
}
