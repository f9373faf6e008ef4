//! notify and its notifications.

use crate::fixture::Fixture;
use crate::rows;
use m3ipc::{Address, CLOCK, Code, HARDWARE, Message, SYSTEM, Source};
use m3ipc_test_fixture::signals;

rows! {
    fn a_notification_is_0x1000_or_the_number_of_its_source() {
        let mut fixture = Fixture::new();
        let (_peer, source) = fixture.bound(30, &["notify:1"]);
        let notice = fixture.me.receive(Source::Any).unwrap();
        assert_eq!((notice.source, notice.m_type), (source, 0x1000 | 30));
        assert!(notice.long(1) > 0, "it bears the time");
    }

    fn notify_never_waits_and_repeats_coalesce() {
        let mut fixture = Fixture::new();
        let notifier = fixture.thread(30, |peer| {
            for _ in 0..3 {
                peer.notify(Address(1)).unwrap();
            }
            peer.send(Address(1), &Message::new(5)).unwrap();
        });
        fixture.until_blocked(30, "send");
        assert!(fixture.me.receive(Source::Any).unwrap().is_notification());
        assert_eq!(fixture.me.receive(Source::Any).unwrap().m_type, 5);
        notifier.join().unwrap();
    }

    fn a_second_notification_to_a_waiting_receiver_stays_pending() {
        for step in ["receive:any", "receive:1"] {
            let mut fixture = Fixture::new();
            let (mut peer, address) = fixture.bound(30, &[step; 3]);
            fixture.until_blocked(30, "receive");
            signals::stop(peer.pid());
            (0..3).for_each(|_| fixture.me.notify(address).unwrap());
            signals::resume(peer.pid());
            assert_eq!((peer.code(), peer.code()), (0x1001, 0x1001), "{step}");
            fixture.me.send(address, &Message::new(5)).unwrap();
            assert_eq!(peer.code(), 5, "{step}: the second and the third one became one");
        }
    }

    fn a_second_notification_through_the_daemon_stays_pending_too() {
        let mut fixture = Fixture::new();
        let (mut peer, address) = fixture.bound(30, &["receive:any"; 3]);
        fixture.until_blocked(30, "receive");
        signals::stop(peer.pid());
        (0..3).for_each(|_| fixture.me.notify_for(CLOCK, address).unwrap());
        signals::resume(peer.pid());
        let clock = 0x1000 | CLOCK.0;
        assert_eq!((peer.code(), peer.code()), (clock, clock));
        fixture.me.send(address, &Message::new(5)).unwrap();
        assert_eq!(peer.code(), 5, "the second and the third one became one");
    }

    fn a_receiver_gets_both_notifications_that_came_before_its_return_to_a_new_daemon() {
        let mut fixture = Fixture::new();
        let (mut peer, address) = fixture.bound(30, &["receive:any"; 3]);
        fixture.until_blocked(30, "receive");
        signals::stop(peer.pid());
        fixture.node_fixture.restart_daemon();
        // Without a link, the daemon keeps them.
        (0..3).for_each(|_| fixture.me.notify(address).unwrap());
        signals::resume(peer.pid());
        assert_eq!((peer.code(), peer.code()), (0x1001, 0x1001));
        fixture.me.send(address, &Message::new(5)).unwrap();
        assert_eq!(peer.code(), 5, "the second and the third one became one");
    }

    fn notifications_during_a_sendrec_coalesce() {
        let mut fixture = Fixture::new();
        let (mut peer, address) = fixture.bound(30, &["sendrec:1", "receive:any", "receive:any"]);
        assert_eq!(fixture.me.receive(Source::Any).unwrap().source, address);
        (0..2).for_each(|_| fixture.me.notify(address).unwrap());
        fixture.me.reply(address, &Message::new(6)).unwrap();
        assert_eq!((peer.code(), peer.code()), (6, 0x1001));
        fixture.me.send(address, &Message::new(5)).unwrap();
        assert_eq!(peer.code(), 5);
    }

    fn notifications_come_before_messages() {
        let mut fixture = Fixture::new();
        let sender = fixture.thread(30, |peer| peer.send(Address(1), &Message::new(5)));
        fixture.until_blocked(30, "send");
        let (_peer, _) = fixture.bound(31, &["notify:1", "receive:any"]);
        fixture.until_blocked(31, "receive");
        assert!(fixture.me.receive(Source::Any).unwrap().is_notification());
        assert_eq!(fixture.me.receive(Source::Any).unwrap().m_type, 5);
        sender.join().unwrap().unwrap();
    }

    fn the_notification_of_the_lowest_slot_comes_first() {
        let mut fixture = Fixture::new();
        let peers = [33, 30, 2].map(|slot| fixture.bound(slot, &["notify:1", "receive:any"]));
        [33, 30, 2].into_iter().for_each(|slot| fixture.until_blocked(slot, "receive"));
        let slots = [(); 3].map(|()| fixture.me.receive(Source::Any).unwrap().source.slot());
        assert_eq!(slots, [2, 30, 33]);
        drop(peers);
    }

    fn receive_of_one_takes_only_the_notification_of_that_one() {
        let mut fixture = Fixture::new();
        let peers = [30, 31].map(|slot| fixture.bound(slot, &["notify:1", "receive:any"]));
        [30, 31].into_iter().for_each(|slot| fixture.until_blocked(slot, "receive"));
        assert_eq!(fixture.me.receive(peers[1].1).unwrap().source, peers[1].1);
        assert_eq!(fixture.me.receive(Source::Any).unwrap().source, peers[0].1);
    }

    fn hardware_and_system_bear_their_pending_sets() {
        let mut fixture = Fixture::new();
        for source in [HARDWARE, SYSTEM] {
            let vm = fixture.vm.clone();
            let (done, wait) = std::sync::mpsc::channel::<()>();
            let notifier = std::thread::spawn(move || {
                let mut peer = vm.bind_thread(Some(source.slot())).unwrap();
                peer.notify_set(Address(1), 0b101).unwrap();
                peer.notify_set(Address(1), 0b010).unwrap();
                let _ = wait.recv();
            });
            let mut notice = fixture.me.receive(Source::Any).unwrap();
            while notice.word(1) != 0b111 && notice.word(1) != 0b010 {
                notice = fixture.me.receive(Source::Any).unwrap();
            }
            assert_eq!((notice.source, notice.m_type), (source, 0x1000 | source.0));
            drop(done);
            notifier.join().unwrap();
            fixture.until_free(source.slot());
        }
    }

    fn a_notification_of_a_user_slot_carries_no_set() {
        let mut fixture = Fixture::new();
        let notifier = fixture.thread(30, |peer| {
            peer.notify_set(Address(1), 5).unwrap();
            peer.receive(Source::Any).map(drop).unwrap_err().code()
        });
        assert_eq!(fixture.me.receive(Source::Any).unwrap().word(1), 0);
        let address = Address(fixture.node.endpoint(fixture.vm.id(), 30).unwrap().unwrap().address);
        // The notification is kept, since the receiver does not wait yet.
        let woken = fixture.me.wakeup(address);
        assert!(woken.is_ok() || woken.is_err_and(|error| error.code() == Code::ProcRun));
        assert_eq!(notifier.join().unwrap(), Code::WokenUp);
    }
}
