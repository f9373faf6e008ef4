//! sendrec, rcvrqst, reply and relay.

use crate::rows;
use crate::world::{SHORT, World};
use m3ipc::{Address, Code, Message, Source, Timeout};

rows! {
    fn sendrec_gets_the_answer_in_place_of_the_request() {
        let mut world = World::new();
        let client = world.thread(30, |peer| peer.sendrec(Address(1), &Message::new(1)));
        let request = world.me.receive(Source::Any).unwrap();
        world.me.reply(request.source, &Message::new(2)).unwrap();
        let answer = client.join().unwrap().unwrap();
        assert_eq!((answer.source, answer.m_type), (Address(1), 2));
    }

    fn any_send_of_the_server_ends_a_sendrec() {
        let mut world = World::new();
        let client = world.thread(30, |peer| peer.sendrec(Address(1), &Message::new(1)));
        let request = world.me.receive(Source::Any).unwrap();
        world.me.send(request.source, &Message::new(2)).unwrap();
        assert_eq!(client.join().unwrap().unwrap().m_type, 2);
    }

    fn a_notification_never_ends_a_sendrec() {
        let mut world = World::new();
        let client = world.thread(30, |peer| {
            let answer = peer.sendrec(Address(1), &Message::new(1)).unwrap().m_type;
            (answer, peer.try_receive(Source::Any).unwrap().is_notification())
        });
        let request = world.me.receive(Source::Any).unwrap();
        world.me.notify(request.source).unwrap();
        world.until_blocked(30, "sendrec (taken)");
        world.me.reply(request.source, &Message::new(2)).unwrap();
        assert_eq!(client.join().unwrap(), (2, true));
    }

    fn third_parties_queue_while_one_awaits_an_answer() {
        let mut world = World::new();
        let client = world.thread(30, |peer| {
            let answer = peer.sendrec(Address(1), &Message::new(1)).unwrap().m_type;
            (answer, peer.receive(Source::Any).unwrap().m_type)
        });
        let request = world.me.receive(Source::Any).unwrap();
        let third = world.thread(31, move |peer| peer.send(request.source, &Message::new(3)));
        world.until_blocked(31, "send");
        world.me.reply(request.source, &Message::new(2)).unwrap();
        assert_eq!(client.join().unwrap(), (2, 3));
        third.join().unwrap().unwrap();
    }

    fn sendrec_to_a_free_slot_is_105() {
        let mut world = World::new();
        let dead = world.dead(30);
        assert_eq!(world.me.sendrec(dead, &Message::new(0)).unwrap_err().code(), Code::DeadSrcDst);
    }

    fn the_limit_of_a_sendrec_covers_the_whole_call() {
        let mut world = World::new();
        let taken = world.thread(30, |peer| peer.sendrec_timeout(Address(1), &Message::new(0), SHORT));
        let request = world.me.receive(Source::Any).unwrap();
        assert_eq!(taken.join().unwrap().unwrap_err().code(), Code::TimedOut);
        world.until_free(30);
        assert_eq!(world.me.reply(request.source, &Message::new(0)).unwrap_err().code(), Code::DstDied);
        let untaken = world.thread(30, |peer| peer.sendrec_timeout(Address(1), &Message::new(0), SHORT));
        assert_eq!(untaken.join().unwrap().unwrap_err().code(), Code::TimedOut);
    }

    fn sendrec_without_time_to_one_who_does_not_receive_is_11() {
        let mut world = World::new();
        let idle = world.bound(30, &[]);
        let error = world.me.sendrec_timeout(idle.1, &Message::new(0), Timeout::NoWait).unwrap_err();
        assert_eq!(error.code(), Code::Again);
    }

    fn a_signal_with_a_handler_ends_a_sendrec_with_4() {
        let mut world = World::new();
        let (mut peer, _) = world.bound(30, &["sendrec:1"]);
        world.until_blocked(30, "sendrec");
        assert_eq!(peer.interrupted(), Code::Intr.number());
        assert_eq!(world.me.try_receive(Source::Any).unwrap_err().code(), Code::Again);
    }

    fn rcvrqst_takes_requests_and_leaves_plain_sends() {
        let mut world = World::new();
        let sender = world.thread(30, |peer| peer.send(Address(1), &Message::new(1)));
        world.until_blocked(30, "send");
        let client = world.thread(31, |peer| peer.sendrec(Address(1), &Message::new(2)));
        world.until_blocked(31, "sendrec");
        let request = world.me.rcvrqst(&mut [], Timeout::Never).unwrap();
        assert_eq!((request.message.m_type, request.is_request), (2, true));
        assert_eq!(world.me.rcvrqst(&mut [], Timeout::NoWait).unwrap_err().code(), Code::Again);
        world.me.reply(request.message.source, &Message::new(0)).unwrap();
        assert_eq!(world.me.receive(Source::Any).unwrap().m_type, 1);
        sender.join().unwrap().unwrap();
        client.join().unwrap().unwrap();
    }


    fn rcvrqst_takes_notifications() {
        let mut world = World::new();
        let (_peer, source) = world.bound(30, &["notify:1"]);
        assert_eq!(world.me.rcvrqst(&mut [], Timeout::Never).unwrap().message.source, source);
    }

    fn reply_to_one_who_does_not_wait_for_exactly_me_is_324() {
        let mut world = World::new();
        let (_idle, running) = world.bound(30, &[]);
        assert_eq!(world.me.reply(running, &Message::new(0)).unwrap_err().code(), Code::ProcSts);
        let (_other, receiver) = world.bound(31, &["receive:any"]);
        world.until_blocked(31, "receive");
        assert_eq!(world.me.reply(receiver, &Message::new(0)).unwrap_err().code(), Code::ProcSts);
    }

    fn reply_goes_to_one_who_receives_from_exactly_me() {
        let mut world = World::new();
        let receiver = world.thread(30, |peer| {
            peer.receive(Address(1)).map(|message| message.m_type)
        });
        world.until_blocked(30, "receive");
        let address = Address(world.node.endpoint(world.vm.id(), 30).unwrap().unwrap().address);
        world.me.reply(address, &Message::new(9)).unwrap();
        assert_eq!(receiver.join().unwrap(), Ok(9));
    }

    fn a_second_reply_is_324() {
        let mut world = World::new();
        let (mut client, address) = world.bound(30, &["sendrec:1"]);
        world.me.receive(address).unwrap();
        world.me.reply(address, &Message::new(4)).unwrap();
        assert_eq!(client.code(), 4);
        assert_eq!(world.me.reply(address, &Message::new(4)).unwrap_err().code(), Code::ProcSts);
    }

    fn relay_hands_the_request_to_another_who_answers_the_client() {
        let mut world = World::new();
        let client = world.thread(30, |peer| {
            let answer = peer.sendrec(Address(1), &Message::new(7)).unwrap();
            (answer.source, answer.m_type)
        });
        let request = world.me.receive(Source::Any).unwrap();
        let second = world.thread(31, |peer| {
            let relayed = peer.receive(Source::Any).unwrap();
            peer.reply(relayed.source, &Message::new(relayed.m_type + 1)).unwrap();
            (peer.address(), relayed.source)
        });
        world.until_blocked(31, "receive");
        let address = Address(world.node.endpoint(world.vm.id(), 31).unwrap().unwrap().address);
        world.me.relay(request.source, address).unwrap();
        assert_eq!(second.join().unwrap(), (address, request.source));
        assert_eq!(client.join().unwrap(), (address, 8));
    }

    fn relay_of_a_request_i_do_not_hold_is_324() {
        let mut world = World::new();
        let (_one, client) = world.bound(30, &[]);
        let (_other, server) = world.bound(31, &[]);
        assert_eq!(world.me.relay(client, server).unwrap_err().code(), Code::ProcSts);
    }
}
