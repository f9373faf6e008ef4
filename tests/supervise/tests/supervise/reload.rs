//! SIGHUP and `m3 services VM reload`: a new file, and a wrong one.

use m3ipc_supervise::policy::State;
use m3ipc_sys::Signal;
use m3ipc_test_supervise::{Supervised, runs};

fn service(name: &str, more: &str) -> String {
    format!("[service.{name}]\nrun = ['SERVICE', 'serve']\n{more}")
}

#[test]
fn a_new_file_changes_what_differs_and_a_wrong_one_nothing() {
    let file = service("gone", "") + &service("kept", "") + &service("other", "");
    let own = Supervised::start("reload", &file);
    let pids = ["gone", "kept", "other"].map(|name| own.ready(name).pid);

    own.write("[service.kept]\nrun = []\n");
    own.signal(Signal::HUP);
    own.until("the error", |own| own.log().contains("services.toml:3: run names no program"));
    assert_eq!(own.ready("kept").pid, pids[1]);

    let file = service("kept", "restarts = 3\n")
        + &service("other", "environment = { A = 'b' }\n")
        + &service("new", "");
    own.write(&file);
    own.signal(Signal::HUP);
    own.ready("new");
    own.shown_when("other", "has a new process", |it| {
        it.state == State::Ready && it.pid != pids[2]
    });
    own.until("the old service is gone", |own| own.shown("gone").is_none() && !runs(pids[0]));
    let kept = own.ready("kept");
    assert_eq!((kept.pid, kept.restarts), (pids[1], 0));
    let log = own.log();
    let said = "reloaded: new: new; gone: gone; restarted: other; adjusted: kept";
    assert!(log.contains(said), "{log}");

    let again = own.ask(&["reload"]);
    assert_eq!(String::from_utf8_lossy(&again.stdout), "nothing has changed\n");
    own.write(&(String::from("[supervisor]\nslot = 9\n") + &file));
    let refused = own.ask(&["reload"]);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && text.contains("restart it"), "{text}");
}

#[test]
fn a_wrong_file_is_refused_at_the_start_and_by_a_check() {
    let own = Supervised::start("wrong", &service("front", ""));
    own.ready("front");
    let check = || own.command().args(["run", "--check"]).arg(own.file()).output().unwrap();
    assert!(check().status.success());
    own.write("[service.front]\nrun = ['x']\nneeds = ['disk']\n");
    let refused = check();
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{text}");
    assert!(text.contains("services.toml:4: ") && text.contains("write one of: front"), "{text}");
}
