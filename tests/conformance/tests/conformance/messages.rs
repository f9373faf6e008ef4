//! send and receive.

use crate::fixture::{Fixture, SHORT};
use crate::rows;
use m3ipc::{Address, Code, Message, Source, Timeout};

rows! {
    fn send_returns_when_the_receiver_has_taken_it() {
        let mut fixture = Fixture::new();
        let sender = fixture.thread(30, |peer| peer.send(Address(1), &Message::new(5)));
        fixture.until_blocked(30, "send");
        assert_eq!(fixture.me.receive(Source::Any).unwrap().m_type, 5);
        assert_eq!(sender.join().unwrap(), Ok(()));
    }

    fn a_message_bears_the_address_of_its_sender() {
        let mut fixture = Fixture::new();
        let sender = fixture.thread(30, |peer| {
            let forged = Message { source: Address(2), ..Message::new(5) };
            peer.send(Address(1), &forged).unwrap();
            peer.address()
        });
        assert_eq!(fixture.me.receive(Source::Any).unwrap().source, sender.join().unwrap());
    }

    fn messages_are_taken_in_the_order_of_their_arrival() {
        let mut fixture = Fixture::new();
        let senders: Vec<_> = [33, 30, 32, 31]
            .map(|slot| {
                let sender =
                    fixture.thread(slot, move |peer| peer.send(Address(1), &Message::new(slot)));
                fixture.until_blocked(slot, "send");
                sender
            })
            .into();
        let taken = [(); 4].map(|()| fixture.me.receive(Source::Any).unwrap().m_type);
        assert_eq!(taken, [33, 30, 32, 31]);
        senders.into_iter().for_each(|sender| sender.join().unwrap().unwrap());
    }

    fn send_without_time_to_a_peer_that_does_not_receive_is_11() {
        let mut fixture = Fixture::new();
        let idle = fixture.bound(30, &[]);
        assert_eq!(fixture.me.try_send(idle.1, &Message::new(0)).unwrap_err().code(), Code::Again);
    }

    fn send_beyond_its_limit_is_61_and_withdrawn() {
        let mut fixture = Fixture::new();
        let late =
            fixture.thread(30, |peer| peer.send_timeout(Address(1), &Message::new(0), SHORT));
        assert_eq!(late.join().unwrap().unwrap_err().code(), Code::TimedOut);
        assert_eq!(fixture.me.try_receive(Source::Any).unwrap_err().code(), Code::Again);
    }

    fn receive_without_time_is_11_and_beyond_its_limit_61() {
        let mut fixture = Fixture::new();
        assert_eq!(fixture.me.try_receive(Source::Any).unwrap_err().code(), Code::Again);
        assert_eq!(
            fixture.me.receive_timeout(Source::Any, SHORT).unwrap_err().code(),
            Code::TimedOut
        );
    }

    fn receive_of_one_leaves_the_messages_of_others_where_they_are() {
        let mut fixture = Fixture::new();
        let other = fixture.thread(30, |peer| peer.send(Address(1), &Message::new(30)));
        fixture.until_blocked(30, "send");
        let wanted = fixture.thread(31, |peer| peer.send(Address(1), &Message::new(31)));
        fixture.until_blocked(31, "send");
        let one = fixture.node.endpoint(fixture.vm.id(), 31).unwrap().unwrap().address;
        assert_eq!(fixture.me.receive(Address(one)).unwrap().m_type, 31);
        assert_eq!(fixture.me.receive(Source::Any).unwrap().m_type, 30);
        other.join().unwrap().unwrap();
        wanted.join().unwrap().unwrap();
    }

    fn two_that_send_to_each_other_are_a_deadlock_for_the_second() {
        let mut fixture = Fixture::new();
        let first = fixture.thread(30, |peer| peer.send(Address(1), &Message::new(0)));
        fixture.until_blocked(30, "send");
        let address = Address(fixture.node.endpoint(fixture.vm.id(), 30).unwrap().unwrap().address);
        assert_eq!(fixture.me.send(address, &Message::new(0)).unwrap_err().code(), Code::Locked);
        fixture.me.receive(address).unwrap();
        first.join().unwrap().unwrap();
    }

    fn a_send_to_a_peer_that_receives_from_the_sender_is_no_deadlock() {
        let mut fixture = Fixture::new();
        let receiver =
            fixture.thread(30, |peer| peer.receive(Address(1)).map(|message| message.m_type));
        fixture.until_blocked(30, "receive");
        let address = Address(fixture.node.endpoint(fixture.vm.id(), 30).unwrap().unwrap().address);
        fixture.me.send(address, &Message::new(8)).unwrap();
        assert_eq!(receiver.join().unwrap(), Ok(8));
    }

    fn the_call_that_closes_a_circle_of_three_is_101() {
        let mut fixture = Fixture::new();
        let second = fixture.thread(31, |peer| peer.send(Address(1), &Message::new(31)));
        fixture.until_blocked(31, "send");
        let middle = Address(fixture.node.endpoint(fixture.vm.id(), 31).unwrap().unwrap().address);
        let first = fixture.thread(30, move |peer| {
            peer.send(middle, &Message::new(30)).map_err(|error| error.code())
        });
        fixture.until_blocked(30, "send");
        let start = Address(fixture.node.endpoint(fixture.vm.id(), 30).unwrap().unwrap().address);
        assert_eq!(fixture.me.send(start, &Message::new(0)).unwrap_err().code(), Code::Locked);
        fixture.me.receive(middle).unwrap();
        second.join().unwrap().unwrap();
        // The receiver of the first message has ended.
        assert_eq!(first.join().unwrap(), Err(Code::DstDied));
    }

    fn a_signal_with_a_handler_ends_a_receive_with_4() {
        let fixture = Fixture::new();
        let (mut peer, _) = fixture.bound(30, &["receive:any"]);
        interrupt(fixture, &mut peer, "receive");
    }

    fn a_signal_with_a_handler_ends_a_send_with_4_and_withdraws_it() {
        let fixture = Fixture::new();
        let (mut peer, _) = fixture.bound(30, &["send:1"]);
        let mut fixture = interrupt(fixture, &mut peer, "send");
        assert_eq!(fixture.me.try_receive(Source::Any).unwrap_err().code(), Code::Again);
    }

    fn wakeup_ends_a_receive_from_any_with_348() {
        let mut fixture = Fixture::new();
        let (mut peer, address) = fixture.bound(30, &["receive:any"]);
        fixture.until_blocked(30, "receive");
        fixture.me.wakeup(address).unwrap();
        assert_eq!(peer.code(), Code::WokenUp.number());
    }

    fn wakeup_of_a_running_endpoint_is_320_and_remembered() {
        let mut fixture = Fixture::new();
        let (go, gone) = std::sync::mpsc::channel();
        let peer = fixture.thread(30, move |peer| {
            gone.recv().unwrap();
            peer.receive(Source::Any).unwrap_err().code()
        });
        let address = Address(fixture.node.endpoint(fixture.vm.id(), 30).unwrap().unwrap().address);
        assert_eq!(fixture.me.wakeup(address).unwrap_err().code(), Code::ProcRun);
        go.send(()).unwrap();
        assert_eq!(peer.join().unwrap(), Code::WokenUp);
    }

    fn a_remembered_wakeup_comes_before_a_message_of_a_frequent_sender() {
        let mut fixture = Fixture::new();
        let (go, gone) = std::sync::mpsc::channel();
        let peer = fixture.thread(30, move |peer| {
            for _ in 0..4 {
                let request = peer.receive(Source::Any).unwrap();
                peer.reply(request.source, &Message::new(0)).unwrap();
            }
            gone.recv().unwrap();
            assert!(peer.is_bound(), "this reads the event of the wakeup");
            let woken = peer.receive(Source::Any).unwrap_err().code();
            (woken, peer.receive(Source::Any).unwrap().m_type)
        });
        let address = Address(fixture.node.endpoint(fixture.vm.id(), 30).unwrap().unwrap().address);
        for _ in 0..4 {
            fixture.me.sendrec(address, &Message::new(1)).unwrap();
        }
        let _pending = fixture.me.begin_request(address, &Message::new(7)).unwrap();
        assert_eq!(fixture.me.wakeup(address).unwrap_err().code(), Code::ProcRun);
        go.send(()).unwrap();
        assert_eq!(peer.join().unwrap(), (Code::WokenUp, 7));
    }

    fn wakeup_of_an_endpoint_in_another_call_is_324_and_remembered() {
        let mut fixture = Fixture::new();
        let peer = fixture.thread(30, |peer| {
            peer.send(Address(1), &Message::new(0)).unwrap();
            peer.receive(Source::Any).unwrap_err().code()
        });
        fixture.until_blocked(30, "send");
        let address = Address(fixture.node.endpoint(fixture.vm.id(), 30).unwrap().unwrap().address);
        assert_eq!(fixture.me.wakeup(address).unwrap_err().code(), Code::ProcSts);
        fixture.me.receive_timeout(Source::Any, Timeout::Never).unwrap();
        assert_eq!(peer.join().unwrap(), Code::WokenUp);
    }
}

fn interrupt(mut fixture: Fixture, peer: &mut crate::fixture::Peer, verb: &str) -> Fixture {
    fixture.until_blocked(30, verb);
    assert_eq!(peer.interrupted(), Code::Intr.number());
    fixture
}
