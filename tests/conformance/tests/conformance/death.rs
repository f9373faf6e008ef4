//! Death of X, in its order.

use crate::fixture::Fixture;
use crate::rows;
use m3ipc::{Address, Code, Message, Source, Timeout};

rows! {
    fn senders_queued_to_the_dead_get_109() {
        let mut fixture = Fixture::new();
        let (mut peer, address) = fixture.bound(30, &[]);
        let sender = fixture.thread(31, move |sender| sender.send(address, &Message::new(0)));
        fixture.until_blocked(31, "send");
        peer.kill();
        assert_eq!(sender.join().unwrap().unwrap_err().code(), Code::DstDied);
    }

    fn clients_whose_request_was_not_taken_get_109() {
        let mut fixture = Fixture::new();
        let (mut peer, address) = fixture.bound(30, &[]);
        let client = fixture.thread(31, move |client| client.sendrec(address, &Message::new(0)));
        fixture.until_blocked(31, "sendrec");
        peer.kill();
        assert_eq!(client.join().unwrap().unwrap_err().code(), Code::DstDied);
    }

    fn clients_that_await_the_answer_of_the_dead_get_108() {
        let mut fixture = Fixture::new();
        let (mut peer, address) = fixture.bound(30, &["receive:any"]);
        let client = fixture.thread(31, move |client| client.sendrec(address, &Message::new(0)));
        assert_eq!(peer.code(), 0);
        fixture.until_blocked(31, "sendrec (taken)");
        peer.kill();
        assert_eq!(client.join().unwrap().unwrap_err().code(), Code::SrcDied);
    }

    fn a_receive_from_the_dead_gets_108() {
        let mut fixture = Fixture::new();
        let (mut peer, address) = fixture.bound(30, &[]);
        let receiver = fixture.thread(31, move |receiver| receiver.receive(address).map(drop));
        fixture.until_blocked(31, "receive");
        peer.kill();
        assert_eq!(receiver.join().unwrap().unwrap_err().code(), Code::SrcDied);
    }

    fn the_pending_notifications_of_the_dead_arrive() {
        let mut fixture = Fixture::new();
        let (mut peer, address) = fixture.bound(30, &["notify:1"]);
        assert_eq!(peer.code(), 0);
        peer.kill();
        fixture.me.wait_unbind(address, Timeout::Never).unwrap();
        let notified = fixture.me.try_receive(Source::Any).unwrap();
        assert_eq!((notified.source, notified.m_type), (address, 0x1000 | 30));
        assert_eq!(fixture.me.try_receive(Source::Any).unwrap_err().code(), Code::Again);
    }

    fn the_queued_message_of_the_dead_is_erased() {
        let mut fixture = Fixture::new();
        let (mut peer, address) = fixture.bound(30, &["send:1"]);
        fixture.until_blocked(30, "send");
        peer.kill();
        fixture.me.wait_unbind(address, Timeout::Never).unwrap();
        assert_eq!(fixture.me.try_receive(Source::Any).unwrap_err().code(), Code::Again);
    }

    fn a_receive_from_any_is_untouched() {
        let mut fixture = Fixture::new();
        let receiver = fixture
            .thread(31, |receiver| receiver.receive(Source::Any).map(|message| message.m_type));
        let address = Address(fixture.node.endpoint(fixture.vm.id(), 31).unwrap().unwrap().address);
        fixture.until_blocked(31, "receive");
        let notify = format!("notify:{}", address.0);
        let (mut peer, _) = fixture.bound(30, &[&notify]);
        assert_eq!(peer.code(), 0);
        assert_eq!(receiver.join().unwrap(), Ok(0x1000 | 30));
        let again = fixture
            .thread(32, |receiver| receiver.receive(Source::Any).map(|message| message.m_type));
        fixture.until_blocked(32, "receive");
        peer.kill();
        fixture.until_free(30);
        fixture.until_blocked(32, "receive");
        let address = Address(fixture.node.endpoint(fixture.vm.id(), 32).unwrap().unwrap().address);
        fixture.me.send(address, &Message::new(6)).unwrap();
        assert_eq!(again.join().unwrap(), Ok(6));
    }

    fn the_address_of_the_dead_is_remembered_until_the_next_life() {
        let mut fixture = Fixture::new();
        let dead = fixture.dead(30);
        assert_eq!(fixture.me.send(dead, &Message::new(0)).unwrap_err().code(), Code::DstDied);
        let (_peer, living) = fixture.bound(30, &[]);
        assert_ne!(living, dead);
        assert_eq!(fixture.me.send(dead, &Message::new(0)).unwrap_err().code(), Code::Endpoint);
    }

    fn a_child_that_holds_its_descriptors_does_not_keep_the_dead_alive() {
        let mut fixture = Fixture::new();
        let (mut peer, address) = fixture.bound(30, &["linger"]);
        let child: i32 = peer.code();
        peer.kill();
        assert_eq!(fixture.me.wait_unbind(address, Timeout::Never), Ok(()));
        let child = rustix::process::Pid::from_raw(child).unwrap();
        rustix::process::kill_process(child, rustix::process::Signal::KILL).unwrap();
    }
}
