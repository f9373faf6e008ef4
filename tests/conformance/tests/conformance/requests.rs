//! sendrec, rcvrqst, reply and relay.

use crate::fixture::{Fixture, SHORT};
use crate::rows;
use m3ipc::{Address, Code, Delivered, Message, Source, Timeout};
use std::time::Duration;

rows! {
    fn sendrec_gets_the_answer_in_place_of_the_request() {
        let mut fixture = Fixture::new();
        let client = fixture.thread(30, |peer| peer.sendrec(Address(1), &Message::new(1)));
        let request = fixture.me.receive(Source::Any).unwrap();
        fixture.me.reply(request.source, &Message::new(2)).unwrap();
        let answer = client.join().unwrap().unwrap();
        assert_eq!((answer.source, answer.m_type), (Address(1), 2));
    }

    fn any_send_of_the_server_ends_a_sendrec() {
        let mut fixture = Fixture::new();
        let client = fixture.thread(30, |peer| peer.sendrec(Address(1), &Message::new(1)));
        let request = fixture.me.receive(Source::Any).unwrap();
        fixture.me.send(request.source, &Message::new(2)).unwrap();
        assert_eq!(client.join().unwrap().unwrap().m_type, 2);
    }

    fn a_notification_never_ends_a_sendrec() {
        let mut fixture = Fixture::new();
        let client = fixture.thread(30, |peer| {
            let answer = peer.sendrec(Address(1), &Message::new(1)).unwrap().m_type;
            (answer, peer.try_receive(Source::Any).unwrap().is_notification())
        });
        let request = fixture.me.receive(Source::Any).unwrap();
        fixture.me.notify(request.source).unwrap();
        fixture.until_blocked(30, "sendrec (taken)");
        fixture.me.reply(request.source, &Message::new(2)).unwrap();
        assert_eq!(client.join().unwrap(), (2, true));
    }

    fn third_parties_queue_while_one_awaits_an_answer() {
        let mut fixture = Fixture::new();
        let client = fixture.thread(30, |peer| {
            let answer = peer.sendrec(Address(1), &Message::new(1)).unwrap().m_type;
            (answer, peer.receive(Source::Any).unwrap().m_type)
        });
        let request = fixture.me.receive(Source::Any).unwrap();
        let third = fixture.thread(31, move |peer| peer.send(request.source, &Message::new(3)));
        fixture.until_blocked(31, "send");
        fixture.me.reply(request.source, &Message::new(2)).unwrap();
        assert_eq!(client.join().unwrap(), (2, 3));
        third.join().unwrap().unwrap();
    }

    fn sendrec_to_a_free_slot_is_105() {
        let mut fixture = Fixture::new();
        let dead = fixture.dead(30);
        assert_eq!(
            fixture.me.sendrec(dead, &Message::new(0)).unwrap_err().code(),
            Code::DeadSrcDst
        );
    }

    fn the_limit_of_a_sendrec_covers_the_whole_call() {
        let mut fixture = Fixture::new();
        // The limit also covers the first contact: the message must be taken within it.
        let limit = Duration::from_secs(2);
        let taken = fixture
            .thread(30, move |peer| peer.sendrec_timeout(Address(1), &Message::new(0), limit));
        let request = fixture.me.receive(Source::Any).unwrap();
        assert_eq!(taken.join().unwrap().unwrap_err().code(), Code::TimedOut);
        fixture.until_free(30);
        assert_eq!(
            fixture.reply_code(request.source),
            Code::DstDied
        );
        let untaken =
            fixture.thread(30, |peer| peer.sendrec_timeout(Address(1), &Message::new(0), SHORT));
        assert_eq!(untaken.join().unwrap().unwrap_err().code(), Code::TimedOut);
    }

    fn sendrec_without_time_to_a_peer_that_does_not_receive_is_11() {
        let mut fixture = Fixture::new();
        let idle = fixture.bound(30, &[]);
        let error =
            fixture.me.sendrec_timeout(idle.1, &Message::new(0), Timeout::NoWait).unwrap_err();
        assert_eq!(error.code(), Code::Again);
    }

    fn a_signal_with_a_handler_ends_a_sendrec_with_4() {
        let mut fixture = Fixture::new();
        let (mut peer, _) = fixture.bound(30, &["sendrec:1"]);
        fixture.until_blocked(30, "sendrec");
        assert_eq!(peer.interrupted(), Code::Intr.number());
        assert_eq!(fixture.me.try_receive(Source::Any).unwrap_err().code(), Code::Again);
    }

    fn rcvrqst_takes_requests_and_leaves_plain_sends() {
        let mut fixture = Fixture::new();
        let sender = fixture.thread(30, |peer| peer.send(Address(1), &Message::new(1)));
        fixture.until_blocked(30, "send");
        let client = fixture.thread(31, |peer| peer.sendrec(Address(1), &Message::new(2)));
        fixture.until_blocked(31, "sendrec");
        let request = fixture.me.rcvrqst(&mut [], Timeout::Never).unwrap();
        assert_eq!((request.message.m_type, request.is_request), (2, true));
        assert_eq!(fixture.me.rcvrqst(&mut [], Timeout::NoWait).unwrap_err().code(), Code::Again);
        fixture.me.reply(request.message.source, &Message::new(0)).unwrap();
        assert_eq!(fixture.me.receive(Source::Any).unwrap().m_type, 1);
        sender.join().unwrap().unwrap();
        client.join().unwrap().unwrap();
    }

    fn rcvrqst_takes_notifications() {
        let mut fixture = Fixture::new();
        let (_peer, source) = fixture.bound(30, &["notify:1"]);
        assert_eq!(fixture.me.rcvrqst(&mut [], Timeout::Never).unwrap().message.source, source);
    }

    fn reply_to_a_peer_that_does_not_wait_for_exactly_me_is_324() {
        let mut fixture = Fixture::new();
        let (_idle, running) = fixture.bound(30, &[]);
        assert_eq!(fixture.reply_code(running), Code::ProcSts);
        let (_other, receiver) = fixture.bound(31, &["receive:any"]);
        fixture.until_blocked(31, "receive");
        assert_eq!(fixture.reply_code(receiver), Code::ProcSts);
    }

    fn reply_goes_to_a_peer_that_receives_from_exactly_me() {
        let mut fixture = Fixture::new();
        let receiver =
            fixture.thread(30, |peer| peer.receive(Address(1)).map(|message| message.m_type));
        fixture.until_blocked(30, "receive");
        let address = Address(fixture.node.endpoint(fixture.vm.id(), 30).unwrap().unwrap().address);
        assert_eq!(fixture.me.reply(address, &Message::new(9)), Ok(Delivered::Yes));
        assert_eq!(receiver.join().unwrap(), Ok(9));
    }

    fn a_second_reply_is_324() {
        let mut fixture = Fixture::new();
        let (mut client, address) = fixture.bound(30, &["sendrec:1"]);
        fixture.me.receive(address).unwrap();
        fixture.me.reply(address, &Message::new(4)).unwrap();
        assert_eq!(client.code(), 4);
        assert_eq!(fixture.reply_code(address), Code::ProcSts);
    }

    fn relay_hands_the_request_to_another_server_that_answers_the_client() {
        let mut fixture = Fixture::new();
        let client = fixture.thread(30, |peer| {
            let answer = peer.sendrec(Address(1), &Message::new(7)).unwrap();
            (answer.source, answer.m_type)
        });
        let request = fixture.me.receive(Source::Any).unwrap();
        let second = fixture.thread(31, |peer| {
            let relayed = peer.receive(Source::Any).unwrap();
            peer.reply(relayed.source, &Message::new(relayed.m_type + 1)).unwrap();
            (peer.address(), relayed.source)
        });
        fixture.until_blocked(31, "receive");
        let address = Address(fixture.node.endpoint(fixture.vm.id(), 31).unwrap().unwrap().address);
        fixture.me.relay(request.source, address).unwrap();
        assert_eq!(second.join().unwrap(), (address, request.source));
        assert_eq!(client.join().unwrap(), (address, 8));
    }

    fn relay_of_a_request_i_do_not_hold_is_324() {
        let mut fixture = Fixture::new();
        let (_one, client) = fixture.bound(30, &[]);
        let (_other, server) = fixture.bound(31, &[]);
        assert_eq!(fixture.me.relay(client, server).unwrap_err().code(), Code::ProcSts);
    }
}
