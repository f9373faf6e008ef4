//! Asynchronous endpoints beside other tasks: no step of theirs blocks the only thread.
#![allow(clippy::unwrap_used)]

use m3ipc::asynchronous::AsyncEndpoint;
use m3ipc::{Address, Message, Source, Vm};
use m3ipc_test_fixture::{NodeFixture, program, signals, watchdog};
use std::fs::Permissions;
use std::future::Future;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
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

/// Polls a future until it ends, or until this task has slept twenty times beside it.
async fn beside_ticks<T>(future: impl Future<Output = T>) -> Option<T> {
    let ticks = async {
        for _tick in 0..20 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        ended = future => Some(ended),
        () = ticks => None,
    }
}

#[test]
fn with_a_stopped_daemon_calls_go_on_and_a_dropped_one_leaves_nothing() {
    watchdog(60);
    let fixture = NodeFixture::new("stopped");
    let vm = fixture.vm("stopped");
    let first = vm.bind(1).unwrap();
    let mut server = vm.bind_additional(Some(3)).unwrap();
    let mut silent = vm.bind_additional(Some(4)).unwrap();
    let (to, to_silent, here) = (server.address(), silent.address(), first.address());
    std::thread::spawn(move || {
        while let Ok((request, bytes)) = server.receive_bytes(Source::Any, None) {
            if request.is_request {
                server.reply_bytes(request.message.source, 8, &bytes).unwrap();
            }
        }
    });
    silent.notify(here).unwrap();
    run(async {
        let mut me = AsyncEndpoint::open(first).await.unwrap();
        assert!(me.receive(to_silent).await.unwrap().is_notification());
        let bytes = vec![7; 1_000];
        let called = while_stopped(&fixture, me.sendrec(to, &Message::new(7))).await;
        assert_eq!(called.unwrap().m_type, 8);
        let called = while_stopped(&fixture, me.sendrec_bytes(to, 7, bytes.clone())).await;
        assert_eq!(called.unwrap().1, bytes);
        let sent = while_stopped(&fixture, me.send(to, &Message::new(7), bytes.clone())).await;
        sent.unwrap();
        signals::stop(fixture.daemon_pid());
        // Each of these waits without end, and other tasks go on.
        assert!(beside_ticks(me.receive(Source::Any)).await.is_none());
        assert!(beside_ticks(me.receive_bytes(to)).await.is_none());
        assert!(beside_ticks(me.send(to_silent, &Message::new(7), bytes)).await.is_none());
        assert!(beside_ticks(me.sendrec(to_silent, &Message::new(7))).await.is_none());
        assert!(beside_ticks(me.name_locate("silent")).await.is_none());
        assert!(beside_ticks(me.name_attach("name")).await.is_none());
        assert!(beside_ticks(me.wait_name("silent")).await.is_none());
        // What was dropped was withdrawn, and the endpoint works.
        assert!(silent.try_receive(Source::Any).is_err());
        signals::resume(fixture.daemon_pid());
        silent.notify(here).unwrap();
        assert!(me.receive(Source::Any).await.unwrap().is_notification());
        assert_eq!(me.sendrec(to, &Message::new(7)).await.unwrap().m_type, 8);
        silent.name_attach("silent").unwrap();
        assert_eq!(me.wait_name("silent").await.unwrap(), to_silent);
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

/// The program of the daemon in the test below: notes each start, and serves as soon as a file is
/// there.
const LATE_DAEMON: &str = "\
#!/bin/sh
echo start >>BASE/starts
while [ ! -e BASE/go ]; do sleep 0.01; done
exec DAEMON \"$@\"
";

#[test]
fn a_receive_from_a_peer_without_a_link_outlives_the_daemon() {
    watchdog(60);
    let mut fixture = NodeFixture::new("contact");
    let vm = fixture.vm("contact");
    let first = vm.bind(1).unwrap();
    let to = first.address();
    let mut peer = vm.bind_additional(Some(3)).unwrap();
    let source = peer.address();
    run(async {
        let mut me = AsyncEndpoint::new(first).unwrap();
        signals::stop(fixture.daemon_pid());
        let other_task = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            fixture.restart_daemon();
            std::thread::spawn(move || peer.send(to, &Message::new(5)))
        };
        // The request for the link dies with the stopped daemon.
        let (received, sending) = tokio::join!(me.receive(source), other_task);
        assert_eq!(received.unwrap().m_type, 5);
        sending.join().unwrap().unwrap();
    });
}

/// The test runs itself once more, since its process must name the program of the daemon.
#[test]
fn the_return_to_a_new_daemon_blocks_no_other_task() {
    watchdog(120);
    if let Some(base) = std::env::var_os("M3_TEST_BASE") {
        return return_beside_other_tasks(Path::new(&base));
    }
    let base = std::env::temp_dir().join(format!("m3-return-{}", std::process::id()));
    m3ipc::runtime::make(&base, 0o700).unwrap();
    let late_daemon = base.join("m3d");
    let daemon = program("m3-tests-daemon");
    let text = LATE_DAEMON.replace("DAEMON", daemon.to_str().unwrap());
    std::fs::write(&late_daemon, text.replace("BASE", base.to_str().unwrap())).unwrap();
    std::fs::set_permissions(&late_daemon, Permissions::from_mode(0o700)).unwrap();
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    let name = "asynchronous::the_return_to_a_new_daemon_blocks_no_other_task";
    again.args(["--exact", name, "--nocapture"]);
    again.env("M3_TESTS_OWNER", std::process::id().to_string());
    let ended = again.env("M3_DAEMON", &late_daemon).env("M3_TEST_BASE", &base).status();
    let starts = std::fs::read_to_string(base.join("starts")).unwrap_or_default();
    std::fs::remove_dir_all(&base).unwrap();
    assert!(ended.unwrap().success());
    // A start that waits in the thread of the runtime waits for the other task without end. On a
    // busy machine a start may be ended and repeated.
    assert!(starts.starts_with("start\n"), "a new daemon was started");
}

fn return_beside_other_tasks(base: &Path) {
    let mut fixture = NodeFixture::new("return");
    let vm = fixture.vm("return");
    let first = vm.bind(1).unwrap();
    let to = first.address();
    // It makes no call before the new daemon is there, so that one endpoint alone returns.
    let mut server = vm.bind_additional(Some(3)).unwrap();
    let one = server.address();
    let (send, sends) = std::sync::mpsc::channel::<()>();
    let mut peer = vm.bind_additional(Some(4)).unwrap();
    let sending = std::thread::spawn(move || {
        while sends.recv().is_ok() {
            peer.send(to, &Message::new(5)).unwrap();
        }
    });
    run(async {
        let mut me = AsyncEndpoint::new(first).unwrap();
        send.send(()).unwrap();
        assert_eq!(me.receive(Source::Any).await.unwrap().m_type, 5, "now there is a link");
        fixture.kill_daemon();
        send.send(()).unwrap();
        assert_eq!(me.receive(Source::Any).await.unwrap().m_type, 5, "without a daemon");
        let other_task = async {
            while !base.join("starts").exists() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            std::fs::write(base.join("go"), "").unwrap();
            std::thread::spawn(move || {
                let request = server.receive(Source::Any).unwrap();
                server.reply(request.source, &Message::new(request.m_type + 1)).unwrap();
                server
            })
        };
        let request = Message::new(7);
        let (answer, serving) = tokio::join!(me.sendrec(one, &request), other_task);
        assert_eq!(answer.unwrap().m_type, 8, "a first contact at the new daemon");
        serving.join().unwrap();
        send.send(()).unwrap();
        assert_eq!(me.receive(Source::Any).await.unwrap().m_type, 5, "with the new daemon");
        me.name_attach("me").await.unwrap();
        assert_eq!(me.name_locate("me").await.unwrap(), to);
    });
    drop(send);
    sending.join().unwrap();
}
