//! States of services: ready, crashed, hung, given up, on request.

use m3ipc::{SendRecError, Timeout};
use m3ipc_supervise::policy::State;
use m3ipc_sys::Signal;
use m3ipc_test_supervise::{Supervised, pid_by_call, runs, send};
use std::time::{Duration, Instant};

const LONG: Timeout = Timeout::After(Duration::from_secs(60));
/// The limit of pings of a service that lives.
const PING_LIMIT: Duration = Duration::from_secs(2);

#[test]
fn a_killed_service_is_started_again_under_its_name_and_the_reason_is_shown() {
    let own = Supervised::start("crash", "[service.front]\nrun = ['SERVICE', 'serve']\n");
    let before = own.ready("front");
    let mut client = own.client();
    assert_eq!(pid_by_call(&mut client, "front"), before.pid);
    send(before.pid, Signal::KILL);
    let after =
        own.shown_when("front", "is restarted", |it| it.restarts == 1 && it.state == State::Ready);
    assert_eq!(after.reason, "killed by signal 9 (SIGKILL)");
    assert_eq!(pid_by_call(&mut client, "front"), after.pid);
    let front = client.name_locate("front").unwrap();
    assert!(matches!(client.call(front, b"die", LONG), Err(SendRecError::DiedAfter(_))));
    let after =
        own.shown_when("front", "aborted", |it| it.restarts == 2 && it.state == State::Ready);
    assert_eq!(after.reason, "killed by signal 6 (SIGABRT)");
    let table = String::from_utf8(own.ask(&[]).stdout).unwrap();
    assert!(table.contains("SERVICE") && table.contains("SIGABRT"), "{table}");
}

#[test]
fn the_name_of_a_service_is_reserved_between_two_processes() {
    let services = "[service.front]\nrun = ['SERVICE', 'serve']\nrestarts = 0\n";
    let own = Supervised::start("reserved", services);
    let before = own.ready("front");
    let mut thief = own.client();
    send(before.pid, Signal::KILL);
    own.shown_when("front", "fails", |it| it.state == State::Failed);
    let taken = thief.name_attach("front").unwrap_err();
    assert!(taken.to_string().contains("M3_NAME_KEY"), "{taken}");
    assert!(own.ask(&["start", "front"]).status.success());
    let after = own.ready("front");
    assert_eq!(pid_by_call(&mut thief, "front"), after.pid);
    assert!(own.ask(&["stop", "front"]).status.success());
    own.until("its end gives the name back", |_| thief.name_attach("front").is_ok());
}

#[test]
fn a_request_of_any_length_leaves_the_supervisor_alone() {
    let own = Supervised::start("long", "[service.front]\nrun = ['SERVICE', 'serve']\n");
    own.ready("front");
    let mut client = own.client();
    let supervisor = client.name_locate("supervisor").unwrap();
    for bytes in [4097, 900 << 20] {
        let refused = client.call(supervisor, &vec![0; bytes], LONG);
        assert_eq!(refused, Err(SendRecError::TooLong { bytes, max_bytes: 4096 }));
    }
    own.ready("front");
    assert!(!own.log().contains("lost"), "{}", own.log());
}

#[test]
fn a_service_in_a_system_slot_keeps_its_address() {
    let services = "[service.disk]\nrun = ['SERVICE', 'slot']\nslot = 5\nready = 'bind'\n";
    let own = Supervised::start("slot", services);
    let before = own.ready("disk");
    let mut client = own.client();
    let disk = m3ipc::Address(5);
    let who = |client: &mut m3ipc::Endpoint| client.call(disk, b"who", LONG).unwrap();
    assert_eq!(who(&mut client), before.pid.to_ne_bytes());
    send(before.pid, Signal::KILL);
    let after =
        own.shown_when("disk", "is restarted", |it| it.restarts == 1 && it.state == State::Ready);
    assert_eq!(who(&mut client), after.pid.to_ne_bytes());
}

#[test]
fn a_hung_service_is_found_by_its_pings_and_a_living_one_is_left_alone() {
    let pinged = "run = ['SERVICE', 'serve']\nping = '20ms'\n";
    let hangs = format!("{pinged}ping-limit = '300ms'\n");
    // A busy machine may hold up the one that lives, too.
    let lives = format!("{pinged}ping-limit = '2s'\n");
    let services = format!("[service.a]\n{hangs}[service.b]\n{hangs}[service.c]\n{lives}");
    let own = Supervised::start("hang", &services);
    let begun = Instant::now();
    let (hung, stopped, living) = (own.ready("a"), own.ready("b"), own.ready("c"));
    let mut client = own.client();
    let to = client.name_locate("a").unwrap();
    let ended = client.call(to, b"hang", LONG);
    assert!(matches!(ended, Err(SendRecError::DiedAfter(_))), "{ended:?}");
    send(stopped.pid, Signal::STOP);
    for (name, before) in [("a", hung), ("b", stopped)] {
        let after =
            own.shown_when(name, "is restarted", |it| it.restarts == 1 && it.state == State::Ready);
        assert_eq!(after.reason, "hung: took no ping for 300 ms");
        assert!(!runs(before.pid));
    }
    own.until("twice the limit of the living one passes", |_| begun.elapsed() > 2 * PING_LIMIT);
    assert_eq!(own.ready("c").pid, living.pid);
}

/// A service in place of itself, or at another address, is no hung one.
#[test]
fn a_service_that_replaces_itself_or_binds_again_stays() {
    let services =
        "[service.front]\nrun = ['SERVICE', 'count']\nping = '20ms'\nping-limit = '2s'\n";
    let own = Supervised::start("again", services);
    let before = own.ready("front");
    let mut client = own.client();
    let told = || std::fs::read_to_string(own.folder().join("told")).unwrap_or_default();
    for how in ["exec", "bind", "late"] {
        let old = client.wait_name("front", LONG).unwrap();
        assert_eq!(client.call(old, how.as_bytes(), LONG).unwrap(), b"done");
        own.until(&format!("{how}: another address"), |_| {
            client.name_locate("front").is_ok_and(|found| found != old)
        });
        let (pings, begun) = (told().lines().count(), Instant::now());
        own.until(&format!("{how}: it takes pings again, for more than their limit"), |_| {
            told().lines().count() > pings + 2 && begun.elapsed() > 2 * PING_LIMIT
        });
        let after = own.ready("front");
        assert_eq!((after.pid, after.restarts), (before.pid, 0), "{how}: {}", own.log());
        assert_eq!(pid_by_call(&mut client, "front"), before.pid);
    }
}

#[test]
fn a_service_that_forks_away_is_named_and_leaves_nothing_behind() {
    let own = Supervised::start("away", "[service.front]\nrun = ['SERVICE', 'forks']\n");
    let shown = own.shown_when("front", "fails", |it| it.state == State::Failed);
    assert!(shown.reason.starts_with("forked away"), "{}", shown.reason);
    assert!(shown.reason.contains("in the foreground"), "{}", shown.reason);
    assert_eq!((shown.restarts, own.log().matches("front: ").count()), (0, 1), "{}", own.log());
    let left = std::fs::read_to_string(own.folder().join("left")).unwrap();
    let left = left.trim().parse().unwrap();
    own.until("what it left behind ends", |_| !runs(left));
}

/// A process inside execve(2) has no environment to be found by.
#[test]
fn a_process_that_is_left_behind_inside_an_exec_is_found() {
    let names: Vec<String> = (0..24).map(|number| format!("s{number}")).collect();
    let section = |name| format!("[service.{name}]\nrun = ['SERVICE', 'forks-execs']\n");
    let own = Supervised::start("execs", &names.iter().map(section).collect::<String>());
    for name in &names {
        let shown = own.shown_when(name, "fails", |it| it.state == State::Failed);
        assert!(shown.reason.starts_with("forked away"), "{name}: {}", shown.reason);
        assert_eq!(shown.restarts, 0, "{}", own.log());
        let left = std::fs::read_to_string(own.folder().join(name)).unwrap();
        let left = left.trim().parse().unwrap();
        own.until(&format!("what {name} left behind ends"), |_| !runs(left));
    }
}

#[test]
fn a_service_that_never_binds_or_always_ends_is_given_up() {
    let limits = "restarts = 2\nbackoff = '1ms'\n";
    let services = format!(
        "[service.never]\nrun = ['SERVICE', 'never']\nstart-limit = '50ms'\n{limits}\
         [service.ends]\nrun = ['SERVICE', 'exit', '3']\n{limits}\
         [service.absent]\nrun = ['/nonexistent/program']\n{limits}\
         [service.once]\nrun = ['SERVICE', 'exit', '0']\nready = 'start'\nrestart = 'never'\n"
    );
    let own = Supervised::start("given-up", &services);
    let failed = |it: &m3ipc_test_supervise::Shown| it.state == State::Failed;
    assert_eq!(own.shown_when("never", "fails", failed).reason, "was not ready within 50 ms");
    assert_eq!(own.shown_when("ends", "fails", failed).reason, "exited with code 3");
    assert_eq!(own.shown_when("absent", "fails", failed).reason, "exited with code 127");
    own.shown_when("once", "ends", |it| it.state == State::Ended);
    let log = own.log();
    assert!(log.contains("ends: exited with code 3; given up after 2 restarts"), "{log}");
    assert!(log.contains("absent: cannot run /nonexistent/program"), "{log}");
}

#[test]
fn services_start_and_stop_in_the_order_of_their_needs_and_learn_of_restarts() {
    let services = "\
[service.a-front]
run = ['SERVICE', 'count']
needs = ['cache']
[service.cache]
run = ['SERVICE', 'serve']
needs = ['disk']
when-needs-restart = 'restart'
[service.disk]
run = ['SERVICE', 'serve']
";
    let mut own = Supervised::start("order", services);
    own.ready("a-front");
    let log = own.log();
    let at = |log: &str, text: &str| log.find(text).unwrap_or_else(|| panic!("{text}: {log}"));
    assert!(at(&log, "disk: is ready") < at(&log, "cache: is ready"), "{log}");
    assert!(at(&log, "cache: is ready") < at(&log, "a-front: is ready"), "{log}");

    send(own.ready("disk").pid, Signal::KILL);
    let cache =
        own.shown_when("cache", "is restarted", |it| it.restarts == 1 && it.state == State::Ready);
    assert_eq!(cache.reason, "disk, which it needs, was restarted");
    // The address of the supervisor, in the slot of Minix's reincarnation server.
    own.until("the front learns of it", |own| {
        std::fs::read_to_string(own.folder().join("told")).is_ok_and(|told| told == "2\n")
    });

    own.signal(Signal::TERM);
    assert_eq!(own.wait_end(), 0);
    let log = own.log();
    let log = &log[at(&log, "the services end")..];
    assert!(at(log, "a-front: stopped") < at(log, "cache: stopped"), "{log}");
    assert!(at(log, "cache: stopped") < at(log, "disk: stopped"), "{log}");
}

#[test]
fn the_first_request_starts_a_service() {
    let services = "[service.lazy]\nrun = ['SERVICE', 'serve']\nstart = 'request'\n";
    let own = Supervised::start("request", services);
    own.shown_when("lazy", "waits", |it| it.state == State::OnRequest && it.pid == 0);
    let mut client = own.client();
    // A repeat of what was not taken reaches the service, as `call_named` does it.
    let mut not_taken = 0;
    let answer = loop {
        let to = client.wait_name("lazy", LONG).unwrap();
        match client.call(to, b"who", LONG) {
            Ok(answer) => break answer,
            Err(SendRecError::DiedBefore(_) | SendRecError::Nobody(_) | SendRecError::Stale(_)) => {
                not_taken += 1
            }
            Err(other) => panic!("the request was taken: {other}"),
        }
    };
    assert!(not_taken > 0, "the supervisor held the name");
    assert_eq!(answer, own.ready("lazy").pid.to_ne_bytes());
    // It waits for the next first request after a stop and a start.
    assert!(own.ask(&["stop", "lazy"]).status.success());
    own.shown_when("lazy", "stops", |it| it.state == State::Stopped);
    assert!(own.ask(&["start", "lazy"]).status.success());
    own.shown_when("lazy", "waits again", |it| it.state == State::OnRequest);
}

#[test]
fn requests_of_people_start_stop_and_restart_and_mistakes_have_advice() {
    let own = Supervised::start("people", "[service.front]\nrun = ['SERVICE', 'serve']\n");
    let before = own.ready("front");
    let restarted = own.ask(&["restart", "front"]);
    assert!(restarted.status.success(), "{restarted:?}");
    let after =
        own.shown_when("front", "is restarted", |it| it.restarts == 1 && it.state == State::Ready);
    assert!(after.pid != before.pid && after.reason == "by request");
    assert!(own.ask(&["stop", "front"]).status.success());
    own.shown_when("front", "stops", |it| it.state == State::Stopped);
    assert!(!runs(after.pid));
    assert!(own.ask(&["start", "front"]).status.success());
    own.ready("front");
    for (words, code, part) in [
        (&["stop", "nobody"][..], 1, "no service \"nobody\""),
        (&["stop"], 2, "name the service"),
        (&["list", "front"], 2, "remove its name"),
    ] {
        let ended = own.ask(words);
        let text = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(code), "{words:?}: {text}");
        assert!(text.contains(part), "{words:?}: {text}");
    }
}

#[test]
fn a_name_that_another_member_has_is_held_as_soon_as_it_is_free() {
    let front = "[service.front]\nrun = ['SERVICE', 'serve']\n";
    let own = Supervised::start("not-held", front);
    own.ready("front");
    let mut other = own.client();
    other.name_attach("lazy").unwrap();
    let lazy = "[service.lazy]\nrun = ['SERVICE', 'serve']\nstart = 'request'\n";
    own.write(&format!("{front}{lazy}"));
    assert!(own.ask(&["reload"]).status.success());
    let said = "lazy: its name is not held";
    own.until("the refusal", |own| own.log().contains(said));
    drop(other);
    let mut client = own.client();
    let answer = loop {
        let to = client.wait_name("lazy", LONG).unwrap();
        match client.call(to, b"who", LONG) {
            Ok(answer) => break answer,
            Err(SendRecError::DiedBefore(_) | SendRecError::Nobody(_) | SendRecError::Stale(_)) => {
            }
            Err(other) => panic!("the request was taken: {other}"),
        }
    };
    assert_eq!(answer, own.ready("lazy").pid.to_ne_bytes());
    assert_eq!(own.log().matches(said).count(), 1, "{}", own.log());
}

#[test]
fn answers_lists_and_errors_are_json_where_it_is_asked_for() {
    let services = "[service.front]\nrun = ['SERVICE', 'serve']\n\
                    [service.odd]\nrun = ['SERVICE']\ndirectory = \"a\\u007f\"\nrestarts = 0\n";
    let own = Supervised::start("json", services);
    own.ready("front");
    let odd = own.shown_when("odd", "fails", |it| it.state == State::Failed);
    assert!(odd.reason.contains("a\u{7f} is no directory"), "{odd:?}");
    let asked = |words: &[&str]| {
        let ended = own.ask(&[words, &["--json"]].concat());
        let text = if ended.status.success() { ended.stdout } else { ended.stderr };
        let text = String::from_utf8(text).unwrap();
        let value: serde_json::Value =
            serde_json::from_str(&text).unwrap_or_else(|cause| panic!("{cause}: {text}"));
        (ended.status.code(), value)
    };
    assert_eq!(asked(&["reload"]), (Some(0), serde_json::json!({ "done": "nothing has changed" })));
    for (words, code, part) in [
        (&["stop", "nobody"][..], 1, "no service \"nobody\""),
        (&["stop"], 2, "name the service"),
        (&["halt"], 2, "invalid value 'halt'"),
    ] {
        let (exit, value) = asked(words);
        assert_eq!((exit, value["error"]["exit"].as_i64()), (Some(code), Some(i64::from(code))));
        assert!(value["error"]["what"].as_str().is_some_and(|it| it.contains(part)), "{value}");
    }
}
