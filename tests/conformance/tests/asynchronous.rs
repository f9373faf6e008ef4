//! Asynchronous endpoints beside other tasks: no step of theirs blocks the only thread.

use m3ipc::asynchronous::AsyncEndpoint;
use m3ipc::{Address, Message, Source, Vm};
use m3ipc_test_fixture::{NodeFixture, signals, watchdog};
use std::future::Future;
use std::time::Duration;

/// Runs a future of one thread.
fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the runtime starts");
    runtime.block_on(future)
}

/// Stops the daemon, and lets it go on from another task of the same thread. A future that blocks
/// the thread never ends.
async fn while_stopped<T>(fixture: &NodeFixture, future: impl Future<Output = T>) -> T {
    let daemon = fixture.daemon_pid();
    signals::stop(daemon);
    let other_task = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        signals::resume(daemon);
    };
    tokio::join!(future, other_task).0
}

/// A server that answers each request with the next number.
fn serve(vm: &Vm, slot: i32, name: &'static str) -> Address {
    let mut server = vm.bind_additional(Some(slot)).expect("the slot is free");
    let address = server.address();
    server.name_attach(name).expect("the name is free");
    std::thread::spawn(move || {
        while let Ok(request) = server.receive(Source::Any) {
            let _ = server.reply(request.source, &Message::new(request.m_type + 1));
        }
    });
    address
}

#[test]
fn a_stopped_daemon_blocks_no_other_task() {
    watchdog(60);
    let fixture = NodeFixture::new("tasks");
    let vm = fixture.vm("tasks");
    let first = vm.bind(1).unwrap();
    let (one, two) = (serve(&vm, 3, "one"), serve(&vm, 4, "two"));
    run(async {
        let mut me = while_stopped(&fixture, AsyncEndpoint::open(first)).await.unwrap();
        let answer = while_stopped(&fixture, me.sendrec(one, &Message::new(7))).await;
        assert_eq!(answer.unwrap().m_type, 8, "a first contact");
        let limited = tokio::time::timeout(Duration::from_millis(100), me.receive(two));
        let none = while_stopped(&fixture, limited).await;
        assert!(none.is_err(), "a receive from a new peer has its own limit");
        let found = while_stopped(&fixture, me.name_locate("two")).await;
        assert_eq!(found.unwrap(), two);
        while_stopped(&fixture, me.name_attach("me")).await.unwrap();
        let found = while_stopped(&fixture, me.wait_name("one")).await;
        assert_eq!(found.unwrap(), one);
        let bound = AsyncEndpoint::bind(move || vm.bind_additional(Some(5)));
        let mut other = while_stopped(&fixture, bound).await.unwrap();
        assert_eq!(other.name_locate("me").await.unwrap(), me.endpoint().address());
    });
}

#[test]
fn a_second_notification_to_an_awaited_receive_stays_pending() {
    watchdog(60);
    let fixture = NodeFixture::new("notified");
    let vm = fixture.vm("notified");
    let (first, mut other) = (vm.bind(1).unwrap(), vm.bind_additional(Some(2)).unwrap());
    let to = first.address();
    run(async {
        let mut me = AsyncEndpoint::new(first).unwrap();
        // The receive begins first, and this thread runs the other task before it looks again.
        let notify = async { (0..3).for_each(|_| other.notify(to).unwrap()) };
        let (received, ()) = tokio::join!(me.receive(Source::Any), notify);
        assert!(received.unwrap().is_notification());
        assert!(me.receive(Source::Any).await.unwrap().is_notification());
        assert!(me.endpoint().try_receive(Source::Any).is_err(), "the others became one");
    });
}

#[test]
fn dropped_steps_leave_nothing_behind() {
    watchdog(60);
    let fixture = NodeFixture::new("dropped");
    let vm = fixture.vm("dropped");
    let first = vm.bind(1).unwrap();
    let one = serve(&vm, 3, "one");
    run(async {
        let mut me = AsyncEndpoint::new(first).unwrap();
        let short = Duration::from_millis(50);
        signals::stop(fixture.daemon_pid());
        assert!(tokio::time::timeout(short, me.sendrec(one, &Message::new(7))).await.is_err());
        assert!(tokio::time::timeout(short, me.name_locate("one")).await.is_err());
        assert!(tokio::time::timeout(short, me.wait_name("none")).await.is_err());
        signals::resume(fixture.daemon_pid());
        assert!(tokio::time::timeout(short, me.wait_name("later")).await.is_err());
        assert_eq!(me.name_locate("one").await.unwrap(), one);
        assert_eq!(me.sendrec(one, &Message::new(1)).await.unwrap().m_type, 2);
        me.endpoint().name_attach("later").unwrap();
        assert_eq!(me.wait_name("later").await.unwrap(), me.endpoint().address());
    });
}

#[test]
fn a_name_is_awaited_across_a_kill_of_the_daemon() {
    watchdog(60);
    let mut fixture = NodeFixture::new("killed");
    let vm = fixture.vm("killed");
    let first = vm.bind(1).unwrap();
    run(async {
        let mut me = AsyncEndpoint::new(first).unwrap();
        let awaited = async {
            let address = me.wait_name("late").await.unwrap();
            assert_eq!(me.sendrec(address, &Message::new(1)).await.unwrap().m_type, 2);
        };
        let other_task = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            fixture.restart_daemon();
            tokio::time::sleep(Duration::from_millis(100)).await;
            serve(&vm, 3, "late");
        };
        tokio::join!(awaited, other_task);
    });
}
