//! Arrivals of each kind beside 2, 8 and 100 busy peers: each comes within the stated number of
//! receives. No time is measured.

use m3ipc::{
    Address, Endpoint, Message, PRIORITY_MAX, PendingSend, Pulse, ReceiveError, ReceivedKind,
    Source, Vm,
};
use m3ipc_test_fixture::{NodeFixture, watchdog};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);
/// The type of the message that waits, and of those of the busy peers.
const AWAITED: i32 = 77;
const BUSY: i32 = 1;
const PULSE: Pulse = Pulse { code: 9, value: 9 };

/// A peer with a notification and a message, again and again.
struct BusyPeer {
    own: Endpoint,
    sent: Option<PendingSend>,
}

impl BusyPeer {
    fn act(&mut self, to: Address) {
        self.own.notify(to).expect("the server lives");
        let is_taken = match &mut self.sent {
            Some(sent) => self.own.poll_send(sent).expect("the server lives"),
            None => true,
        };
        if is_taken {
            let sent = self.own.begin_send(to, &Message::new(BUSY), Vec::new());
            self.sent = Some(sent.expect("the server lives"));
        }
    }
}

struct Scene {
    server: Endpoint,
    to: Address,
    busy: Vec<BusyPeer>,
    /// Its slot is above those of all others.
    quiet: Endpoint,
    /// Wakes the server before each receive.
    waker: Option<Endpoint>,
}

impl Scene {
    fn new(vm: &Vm, busy: i32) -> Self {
        let server = vm.bind(1).expect("a slot");
        let to = server.address();
        let additional = |slot| vm.bind_additional(Some(slot)).expect("a slot");
        let peer = |slot| {
            let mut own = additional(slot);
            own.set_priority(PRIORITY_MAX).expect("in range");
            BusyPeer { own, sent: None }
        };
        let busy = (2..2 + busy).map(peer).collect();
        Self { server, to, busy, quiet: additional(180), waker: None }
    }

    /// Receives until `is_it`, and checks the number of receives.
    fn expect(&mut self, what: &str, mut is_it: impl FnMut(&Message, ReceivedKind) -> bool) {
        // A message and a notification of each, what is awaited, and what may follow it.
        let waiting = 2 * self.busy.len() + 3;
        let most = 32 + 4 * waiting;
        for number in 1..=most {
            self.busy.iter_mut().for_each(|peer| peer.act(self.to));
            if let Some(waker) = &mut self.waker {
                let _remembered = waker.wakeup(self.to);
            }
            let message = match self.server.receive_timeout(Source::Any, LIMIT) {
                Ok(message) => message,
                Err(ReceiveError::Woken(_)) => continue,
                Err(error) => panic!("{error}"),
            };
            let kind = self.server.latest_kind().expect("something was taken");
            if is_it(&message, kind) {
                println!("{what} beside {} busy peers: receive {number}", self.busy.len());
                return;
            }
        }
        panic!("{what} beside {} busy peers: not within {most} receives", self.busy.len());
    }
}

fn each_kind_comes(name: &str, busy: i32, is_woken: bool) {
    watchdog(300);
    let fixture = NodeFixture::new(name);
    let vm = fixture.vm(name);
    let mut scene = Scene::new(&vm, busy);
    scene.waker = is_woken.then(|| vm.bind_additional(Some(179)).expect("a slot"));
    let (to, quiet) = (scene.to, scene.quiet.address());
    // All have links from now on.
    scene.busy.iter_mut().for_each(|peer| peer.act(to));

    scene.quiet.notify(to).expect("the server lives");
    scene.expect("a notification", |message, kind| {
        message.source == quiet && kind == ReceivedKind::Notification
    });

    scene.quiet.pulse(to, PULSE).expect("the server lives");
    scene.expect("a pulse", |message, kind| {
        message.source == quiet && kind == ReceivedKind::Pulse(PULSE)
    });

    let sent = scene.quiet.begin_send(to, &Message::new(AWAITED), Vec::new());
    let mut sent = sent.expect("the server lives");
    scene.expect("a message of the lowest priority", |message, _| message.m_type == AWAITED);
    assert_eq!(scene.quiet.poll_send(&mut sent), Ok(true));

    scene.server.set_timer(PULSE, Duration::ZERO, None).expect("the first timer");
    scene.expect("a timer", |message, _| message.source == to);

    let gone = std::thread::spawn({
        let vm = vm.clone();
        move || {
            let mut own = vm.bind_thread(Some(178)).expect("a slot");
            own.notify(to).expect("the server lives");
            own.address()
        }
    });
    let gone = gone.join().expect("no panic");
    scene.server.wait_unbind(gone, LIMIT).expect("it is gone");
    scene.expect("a notification of an ended sender", |message, _| message.source == gone);

    let watched = vm.bind_additional(Some(177)).expect("a slot");
    let dead = watched.address();
    scene.server.watch(dead).expect("it lives");
    drop(watched);
    scene.server.wait_unbind(dead, LIMIT).expect("it is gone");
    scene.expect("the report of a death", |_, kind| kind == ReceivedKind::Death(dead));
}

#[test]
fn each_kind_comes_beside_2_busy_peers() {
    each_kind_comes("busy2", 2, false);
}

#[test]
fn each_kind_comes_beside_8_busy_peers() {
    each_kind_comes("busy8", 8, false);
}

#[test]
fn each_kind_comes_beside_100_busy_peers() {
    each_kind_comes("busy100", 100, false);
}

#[test]
fn each_kind_comes_beside_wakeups_without_end() {
    each_kind_comes("woken", 8, true);
}

#[test]
fn notifications_of_a_peer_do_not_keep_its_own_pulses_out() {
    watchdog(60);
    let fixture = NodeFixture::new("own");
    let vm = fixture.vm("own");
    let mut scene = Scene::new(&vm, 0);
    scene.quiet.pulse(scene.to, PULSE).expect("the server lives");
    for taken in 0.. {
        assert!(taken <= 33, "the pulse waits for ever");
        scene.quiet.notify(scene.to).expect("the server lives");
        scene.server.receive_timeout(Source::Any, LIMIT).expect("something waits");
        if scene.server.latest_kind() == Some(ReceivedKind::Pulse(PULSE)) {
            break;
        }
    }
}
