//! Kills of the supervisor and of the daemon, and services that do not end.

use m3ipc::Timeout;
use m3ipc_supervise::policy::State;
use m3ipc_sys::Signal;
use m3ipc_test_supervise::{Supervised, pid_by_call, runs};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The endpoints of a flood: so many that some request waits at any time.
const FLOODERS: usize = 64;

/// Ends a flood, also when the test fails.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_killed_supervisor_leaves_no_service_and_can_be_started_again() {
    let services = "\
[service.disk]
run = ['SERVICE', 'slot']
slot = 5
ready = 'bind'
[service.front]
run = ['SERVICE', 'serve']
";
    let mut own = Supervised::start("killed", services);
    let pids = [own.ready("disk").pid, own.ready("front").pid];
    let mut client = own.client();
    for _ in 0..3 {
        own.kill();
        own.until("the services die with it", |_| pids.iter().all(|pid| !runs(*pid)));
        own.start_again();
        let (disk, front) = (own.ready("disk"), own.ready("front"));
        assert_eq!((disk.restarts, front.restarts), (0, 0));
        assert_eq!(pid_by_call(&mut client, "front"), front.pid);
    }
}

#[test]
fn a_supervisor_notices_deaths_and_passes_nothing_on_of_what_it_inherited() {
    let mut own = Supervised::start("inherits", "[service.front]\nrun = ['SERVICE', 'serve']\n");
    own.ready("front");
    own.kill();
    own.start_through("trap '' CHLD USR1; exec 9</dev/null");
    let before = own.ready("front");
    let status = std::fs::read_to_string(format!("/proc/{}/status", before.pid)).unwrap();
    assert!(status.contains("SigBlk:\t0000000000000000"), "{status}");
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    let of = |signal: Signal| 1_u64 << (signal.as_raw() - 1);
    assert_eq!(ignored & (of(Signal::USR1) | of(Signal::CHILD)), 0, "{status}");
    assert!(!std::fs::exists(format!("/proc/{}/fd/9", before.pid)).unwrap());
    m3ipc_test_supervise::send(before.pid, Signal::KILL);
    let after =
        own.shown_when("front", "is restarted", |it| it.restarts == 1 && it.state == State::Ready);
    assert_eq!(after.reason, "killed by signal 9 (SIGKILL)");
    own.signal(Signal::TERM);
    assert_eq!(own.wait_end(), 0);
    assert!(!runs(after.pid));
}

#[test]
fn a_second_supervisor_of_a_vm_is_refused_with_advice() {
    let own = Supervised::start("second", "[service.front]\nrun = ['SERVICE', 'serve']\n");
    own.ready("front");
    let second = own.command().arg("run").arg(own.file()).output().unwrap();
    let text = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1), "{text}");
    assert!(text.contains("slot 2") && text.contains("m3 ps"), "{text}");
    own.ready("front");
}

#[test]
fn a_kill_of_the_daemon_changes_nothing() {
    let services = "[service.front]\nrun = ['SERVICE', 'serve']\nping = '50ms'\n";
    let mut own = Supervised::start("daemon", services);
    let before = own.ready("front");
    own.node().restart_daemon();
    let shown = own.ready("front");
    assert_eq!((shown.pid, shown.restarts), (before.pid, 0));
    m3ipc_test_supervise::send(before.pid, Signal::KILL);
    own.shown_when("front", "is restarted", |it| it.restarts == 1 && it.state == State::Ready);
}

#[test]
fn a_flood_of_messages_holds_up_neither_a_restart_nor_the_end() {
    let mut own = Supervised::start("flood", "[service.front]\nrun = ['SERVICE', 'serve']\n");
    let before = own.ready("front");
    let mut client = own.client();
    let supervisor = client.name_locate("supervisor").unwrap();
    let (is_over, answers) = (AtomicBool::new(false), AtomicUsize::new(0));
    let vm = own.node().node().vm_named(m3ipc_test_supervise::VM).unwrap();
    let flooders: Vec<_> = (0..FLOODERS).map(|_| vm.bind_additional(None).unwrap()).collect();
    std::thread::scope(|threads| {
        let flood = EndOnDrop(&is_over);
        for mut flooder in flooders {
            let (is_over, answers) = (&is_over, &answers);
            threads.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    // The last ones find no supervisor.
                    let answer = flooder.call(supervisor, b"\"list\"", Timeout::from_ms(60_000));
                    answers.fetch_add(usize::from(answer.is_ok()), Ordering::Relaxed);
                }
            });
        }
        own.until("the flood", |_| answers.load(Ordering::Relaxed) > 10 * FLOODERS);
        m3ipc_test_supervise::send(before.pid, Signal::KILL);
        own.until("front is ready again", |own| own.log().matches("front: is ready").count() == 2);
        let after = pid_by_call(&mut client, "front");
        assert_ne!(after, before.pid);
        own.signal(Signal::TERM);
        assert_eq!(own.wait_end(), 0);
        assert!(!runs(after));
        drop(flood);
    });
}

#[test]
fn a_service_that_ignores_sigterm_gets_sigkill_and_a_second_request_to_end_hastens_all() {
    let deaf =
        |limit| format!("[service.deaf]\nrun = ['SERVICE', 'deaf']\nstop-limit = '{limit}'\n");
    let mut own = Supervised::start("deaf", &deaf("100ms"));
    own.ready("deaf");
    own.signal(Signal::TERM);
    assert_eq!(own.wait_end(), 0);
    assert!(own.log().contains("deaf: did not end within 100 ms; SIGKILL"), "{}", own.log());

    own.write(&deaf("1h"));
    own.start_again();
    let pid = own.ready("deaf").pid;
    own.signal(Signal::TERM);
    own.until("the first request", |own| own.log().matches("the services end").count() == 2);
    assert!(runs(pid));
    own.signal(Signal::INT);
    assert_eq!(own.wait_end(), 0);
    assert!(!runs(pid));
}

#[test]
fn the_end_of_the_vm_ends_the_supervisor_with_an_error() {
    let services = "vm-life = 'supervisor'\n[service.front]\nrun = ['SERVICE', 'serve']\n";
    let mut own = Supervised::start("vm-end", services);
    let front = own.ready("front").pid;
    let mut node = own.node().node();
    let vm = node.vm_named(m3ipc_test_supervise::VM).unwrap().id();
    let _ = node.vm_end(vm);
    assert_eq!(own.wait_end(), 1);
    assert!(own.log().contains("the VM has ended"), "{}", own.log());
    assert!(!runs(front));
}
