//! The calls of a child by fork on an endpoint of its parent: errors, or results that say nothing.

use m3ipc::{Inheritance, Message, PriorityError, Source};
use m3ipc_test_fixture::{NodeFixture, in_child, watchdog};

#[test]
fn a_child_by_fork_reads_no_page_of_an_endpoint() {
    watchdog(60);
    let fixture = NodeFixture::new("forks");
    let vm = fixture.vm("forks");
    let mut server = vm.bind(1).expect("a slot");
    let mut client = vm.bind_additional(Some(2)).expect("a slot");
    let (to, back) = (server.address(), client.address());
    client.notify(to).expect("a link");
    assert!(server.receive(Source::Any).expect("a message").is_notification());
    let mut asked = client.begin_request(to, &Message::new(1)).expect("no failure");
    let request = server.try_receive(Source::Any).expect("the request");
    // As after a handler of a server that forks.
    let is_answer_refused = in_child(|| {
        server.answer_call(&request, b"answer").is_err()
            && server.serve(|call| call.bytes.to_vec()).is_err()
    });
    assert!(is_answer_refused);
    assert!(in_child(|| server.set_priority(1) == Err(PriorityError::Unbound)));
    let unbound = Err(PriorityError::Unbound);
    assert!(in_child(|| server.set_inheritance(Inheritance::Order) == unbound));
    assert!(in_child(|| {
        server.set_receive_limit(10_000);
        server.receive_limit() == 10_000
    }));
    assert!(in_child(|| server.pending_pulses(back) == 0));
    assert!(in_child(|| !server.is_notification_taken(back)));
    server.reply(back, &Message::new(2)).expect("the parent answers");
    let answer = client.poll_request(&mut asked).expect("no failure");
    assert_eq!(answer.expect("the answer").m_type, 2);
}
