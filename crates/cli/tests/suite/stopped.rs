//! Commands whose daemon is stopped, starved or cannot start: they end by themselves, and say why
//! and what to do next. A command that waits for ever would end by the fixture's watchdog.
#![allow(clippy::unwrap_used)]

use crate::fixture::{CLOSE, Ended, Fixture, Running, send_signal};
use m3ipc_sys::Signal;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const COMMANDS: &[&[&str]] = &[
    &["ps"],
    &["ps", "shop"],
    &["vm", "ls"],
    &["vm", "info", "shop"],
    &["vm", "create", "other"],
    &["vm", "end", "shop", "--yes"],
    &["call", "shop/server"],
    &["call", "shop/server", "--timeout", "100"],
    &["call", "shop/server", "--timeout", "0"],
    &["call", "shop/server", "--wait", "--timeout", "100"],
    &["send", "shop/server", "--timeout", "100"],
    &["notify", "shop/server", "--timeout", "100"],
    &["copy", "shop/server", "0", "16", "--timeout", "100"],
    &["listen", "shop", "--timeout", "100"],
    &["echo", "shop"],
    &["trace", "shop"],
    &["run", "--vm", "shop", "--", "true"],
    &["sock", "stat"],
    &["up"],
    &["down"],
];

/// The daemon of a fixture, which goes on when this is dropped.
struct Stopped(i32);

impl Stopped {
    fn new(fixture: &Fixture) -> Self {
        let pid = std::fs::read_to_string(fixture.directory().join("lock")).unwrap();
        let pid = pid.trim().parse().unwrap();
        send_signal(pid, Signal::STOP);
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        send_signal(self.0, Signal::CONT);
    }
}

#[test]
fn the_doctor_says_why_no_daemon_can_take_over() {
    let fixture = Fixture::with_vm("shop");
    let server = fixture.start(&["echo", "shop", "--as", "server"]);
    fixture.wait_until("the server is bound", || fixture.run(&["ps"]).out.contains("server"));
    // The member starts no successor meanwhile.
    send_signal(server.pid().cast_signed(), Signal::STOP);
    let pid = std::fs::read_to_string(fixture.directory().join("lock")).unwrap();
    let daemon = m3ipc_sys::open_process(pid.trim().parse().unwrap()).unwrap();
    m3ipc_sys::signal(&daemon, Signal::KILL).unwrap();
    let found = |state: &str, text: &str| {
        let mut seen = String::new();
        fixture.wait_until(text, || {
            let report = fixture.run(&["doctor", "--json"]).json();
            let findings = report["findings"].as_array().unwrap();
            let one = findings.iter().find(|it| it["name"] == "runtime directory").unwrap();
            seen = one.to_string();
            one["state"] == state && seen.contains(text)
        });
        seen
    };
    found("off", "its daemon was killed");
    // The journal of a daemon in another PID namespace.
    let journal = fixture.directory().join("journal");
    let mut bytes = std::fs::read(&journal).unwrap();
    let own = m3ipc_sys::Namespaces::own().0.map(u64::to_le_bytes);
    let at = bytes.windows(24).position(|it| it == own.as_flattened()).unwrap();
    bytes[at..at + 24].iter_mut().for_each(|byte| *byte ^= 1);
    std::fs::write(&journal, &bytes).unwrap();
    let seen = found("missing", "namespace");
    let refused = fixture.run(&["vm", "ls"]);
    assert!(refused.err.contains("namespace"), "{refused:?}, {seen}");
    bytes[at..at + 24].copy_from_slice(own.as_flattened());
    std::fs::write(&journal, &bytes).unwrap();
    assert_eq!(fixture.run(&["vm", "ls"]).code, 0);
    server.kill();
}

#[test]
fn each_command_names_a_stopped_daemon_and_the_next_step() {
    let fixture = Fixture::with_vm("shop");
    let server = fixture.start(&["echo", "shop", "--as", "server", "--count", "1"]);
    fixture.wait_until("the server is bound", || fixture.run(&["ps"]).out.contains("server"));
    let stopped = Stopped::new(&fixture);
    let doctor = fixture.start(&["doctor", "--json"]);
    let running: Vec<Running> = COMMANDS.iter().map(|words| fixture.start(words)).collect();
    for (words, ended) in COMMANDS.iter().zip(running.into_iter().map(Running::wait)) {
        assert_eq!(ended.code, 1, "{words:?}: {}", ended.err);
        assert!(
            ended.err.contains("does not answer in time: it is stopped"),
            "{words:?} {ended:?}"
        );
        assert!(ended.err.contains(&format!("`kill -CONT {}`", stopped.0)), "{words:?} {ended:?}");
    }
    let report = doctor.wait().json();
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["name"] == "runtime directory").unwrap();
    assert_eq!(found["state"], "missing", "{found}");
    assert!(found["is"].as_str().unwrap().contains("it is stopped"), "{found}");
    assert!(found["instead"].as_str().unwrap().contains("kill -CONT"), "{found}");
    drop(stopped);
    // The node is as before.
    assert_eq!(fixture.run(&["call", "shop/server"]).code, 0);
    assert_eq!(server.wait().code, 0);
}

#[test]
fn the_end_of_a_vm_does_not_wait_for_a_daemon_that_is_stopped_meanwhile() {
    let fixture = Fixture::new();
    let created = fixture.run(&["vm", "create", "shop", "--grace", "600000"]);
    assert_eq!(created.code, 0, "{}", created.err);
    // The member ignores the signal that asks it to end.
    let up = fixture.base().join("up");
    let script = format!("trap '' PIPE; >{}; while :; do sleep 1; done", up.display());
    let member = fixture.start(&["run", "--vm", "shop", "--", "sh", "-c", &script]);
    fixture.wait_until("the member runs", || up.exists());
    let end = fixture.start(&["vm", "end", "shop", "--yes"]);
    fixture.wait_until("the VM is ending", || fixture.run(&["vm", "ls"]).out.contains("ending"));
    let stopped = Stopped::new(&fixture);
    let ended = end.wait();
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.err.contains("it is stopped"), "{ended:?}");
    drop(stopped);
    member.kill();
}

fn with_few_files(fixture: &Fixture, words: &str) -> Ended {
    // With the privilege, a starter lifts the limit of its daemon.
    let rest = "if [ $(id -u) = 0 ]; then drop='setpriv --bounding-set=-sys_resource'; fi";
    let own = env!("CARGO_BIN_EXE_m3");
    let line = format!("{CLOSE}{rest}; ulimit -n 12; exec $drop {own} {words}");
    let mut command = Command::new("sh");
    command.args(["-c", &line]).env("M3_RUNTIME_DIR", fixture.directory());
    let output = command.env_remove("M3_DAEMON").output().unwrap();
    Ended {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn a_daemon_with_few_open_files_says_so_and_does_not_start() {
    let fixture = Fixture::new();
    for words in ["up", "vm create shop", "daemon"] {
        let ended = with_few_files(&fixture, words);
        assert_eq!(ended.code, 4, "{words}: {ended:?}");
        assert!(ended.err.contains("limit of open files is 12"), "{words}: {ended:?}");
        assert!(ended.err.contains("ulimit -Hn"), "{words}: {ended:?}");
    }
    assert!(!fixture.directory().exists());
}

#[test]
fn the_advice_after_a_failed_start_keeps_all_arguments() {
    let fixture = Fixture::new();
    let place = fixture.base().join("file");
    std::fs::write(&place, "").unwrap();
    let ended = fixture.run(&["up", "--system", "--runtime-dir", place.to_str().unwrap()]);
    assert_eq!(ended.code, 4, "{ended:?}");
    let command = format!("`m3 daemon --system --runtime-dir {}`", place.display());
    assert!(ended.err.contains(&command), "{ended:?}");
}

#[test]
fn a_program_that_starts_no_daemon_and_does_not_return_is_ended() {
    let fixture = Fixture::new();
    let program = fixture.base().join("m3d");
    std::fs::write(&program, "#!/bin/sh\nexec sleep 600\n").unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).unwrap();
    let daemon = [("M3_DAEMON", program.to_str().unwrap())];
    let ended = fixture.run_with(&["vm", "create", "shop"], &daemon);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.err.contains("did not serve in time"), "{ended:?}");
    assert!(ended.err.contains("M3_DAEMON"), "{ended:?}");
}
