//! The verbs between threads of one process: the shortest path through the whole library.

use m3ipc::{Address, Message, ReceiveError, SendError, Source, Timeout, WaitStrategy};
use m3ipc_test_fixture::{NodeFixture, watchdog};
use std::time::Duration;

#[test]
fn requests_are_answered_in_every_strategy() {
    watchdog(60);
    let fixture = NodeFixture::new("talk");
    let vm = fixture.vm("talk");
    for strategy in [WaitStrategy::Block, WaitStrategy::Adaptive] {
        let mut server = vm.bind(1).unwrap();
        server.set_strategy(strategy);
        let client_vm = vm.clone();
        let client = std::thread::spawn(move || {
            let mut me = client_vm.bind_thread(None).unwrap();
            me.set_strategy(strategy);
            for number in 0..2_000 {
                let answer = me.sendrec(Address(1), &Message::new(number)).unwrap();
                assert_eq!((answer.source, answer.m_type), (Address(1), number + 1));
                me.send(Address(1), &Message::new(number)).unwrap();
                assert_eq!(me.receive(Address(1)).unwrap().m_type, number);
            }
        });
        for _ in 0..2_000 {
            let request = server.receive(Source::Any).unwrap();
            server.send(request.source, &Message::new(request.m_type + 1)).unwrap();
            let sent = server.receive(Source::Any).unwrap();
            server.send(sent.source, &sent).unwrap();
        }
        client.join().unwrap();
    }
}

#[test]
fn a_limit_withdraws_the_message() {
    watchdog(60);
    let fixture = NodeFixture::new("limit");
    let vm = fixture.vm("limit");
    let mut server = vm.bind(1).unwrap();
    let client_vm = vm.clone();
    std::thread::spawn(move || {
        let mut me = client_vm.bind_thread(Some(30)).unwrap();
        let late = me.send_timeout(Address(1), &Message::new(1), Duration::from_millis(20));
        assert_eq!(late, Err(SendError::TimedOut(Address(1))));
        assert_eq!(
            me.try_send(Address(1), &Message::new(1)),
            Err(SendError::WouldBlock(Address(1)))
        );
    })
    .join()
    .unwrap();
    let none = server.receive_timeout(Source::Any, Duration::from_millis(20));
    assert!(matches!(none, Err(ReceiveError::TimedOut(_))));
    assert!(matches!(
        server.receive_timeout(Source::Any, Timeout::NoWait),
        Err(ReceiveError::WouldBlock(_))
    ));
}
