//! Commands in directories of other users. Most of these tests need root.
#![allow(clippy::unwrap_used)]

use crate::fixture::{Fixture, is_root};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;

const STRANGER: u32 = 65_311;

#[test]
fn the_doctor_reports_a_directory_of_another_user_as_a_failure() {
    if !is_root("doctor in a foreign directory") {
        return;
    }
    let fixture = Fixture::new();
    std::fs::create_dir(fixture.directory()).unwrap();
    chown(fixture.directory(), Some(STRANGER), Some(STRANGER)).unwrap();
    let ended = fixture.run(&["doctor", "--json"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let report = ended.json();
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["name"] == "runtime directory").unwrap();
    assert_eq!(found["state"], "missing", "{found}");
    let text = found["is"].as_str().unwrap();
    assert!(text.contains("not trusted") && text.contains("65311"), "{text}");
    assert!(found["instead"].as_str().unwrap().contains("M3_RUNTIME_DIR"), "{found}");
    std::fs::remove_dir(fixture.directory()).unwrap();
}

#[test]
fn a_node_that_is_not_in_use_is_no_failure_of_the_doctor() {
    if !is_root("doctor beside a foreign directory") {
        return;
    }
    let fixture = Fixture::with_vm("shop");
    let base = fixture.base().join("xdg");
    std::fs::create_dir_all(base.join("m3")).unwrap();
    chown(base.join("m3"), Some(STRANGER), Some(STRANGER)).unwrap();
    let words = ["doctor", "--json"];
    let ended = fixture.run_with(&words, &[("XDG_RUNTIME_DIR", base.to_str().unwrap())]);
    let report = ended.json();
    let findings = report["findings"].as_array().unwrap();
    let is_other = |finding: &&serde_json::Value| {
        finding["name"] == "another node" && finding.to_string().contains("65311")
    };
    let found = findings.iter().find(is_other).unwrap_or_else(|| panic!("{report}"));
    assert_eq!(found["state"], "note", "{found}");
    assert_eq!(ended.code, fixture.run(&words).code, "{ended:?}");
    std::fs::remove_dir_all(&base).unwrap();
}

#[test]
fn commands_neither_use_nor_start_a_daemon_in_a_directory_of_another_user() {
    if !is_root("commands in a foreign directory") {
        return;
    }
    let fixture = Fixture::new();
    std::fs::create_dir(fixture.directory()).unwrap();
    chown(fixture.directory(), Some(STRANGER), Some(STRANGER)).unwrap();
    for words in [
        &["ps"][..],
        &["vm", "ls"],
        &["vm", "create", "shop"],
        &["up"],
        &["down"],
        &["call", "shop/x"],
        &["sock", "stat"],
    ] {
        let ended = fixture.run(words);
        assert_ne!(ended.code, 0, "{words:?}: {ended:?}");
        assert!(ended.err.contains("not trusted"), "{words:?}: {}", ended.err);
    }
    // Nothing was made in it.
    std::fs::remove_dir(fixture.directory()).unwrap();
}

#[test]
fn a_node_of_another_user_is_named_with_its_user() {
    if !is_root("a node of root") {
        return;
    }
    let fixture = Fixture::with_vm("shop");
    std::fs::set_permissions(fixture.directory(), PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::set_permissions(fixture.base(), PermissionsExt::from_mode(0o755)).unwrap();
    // The stranger may not enter the directory of the build.
    let program = fixture.base().join("m3");
    std::fs::copy(env!("CARGO_BIN_EXE_m3"), &program).unwrap();
    let mut command = std::process::Command::new(program);
    command.args(["ps", "--runtime-dir"]).arg(fixture.directory()).env_remove("M3_DAEMON");
    let output = command.uid(STRANGER).gid(STRANGER).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    for part in ["belongs to user 0", "user 65311", "-335", "run it as that user"] {
        assert!(!output.status.success() && said.contains(part), "{part}: {said}");
    }
}

#[test]
fn counters_in_a_foreign_directory_are_neither_read_nor_removed() {
    if !is_root("foreign counters") {
        return;
    }
    let fixture = Fixture::new();
    let counters = fixture.base().join("node.sock-run");
    std::fs::create_dir(&counters).unwrap();
    let file = counters.join("1");
    std::fs::write(&file, m3ipc_shim::counters::Snapshot::empty_page(1)).unwrap();
    chown(&counters, Some(STRANGER), Some(STRANGER)).unwrap();
    fixture.run(&["sock", "stat"]);
    assert!(file.exists(), "a file of another user was removed");
}

#[test]
fn the_table_of_sockets_waits_for_no_file() {
    let fixture = Fixture::new();
    let counters = fixture.base().join("node.sock-run");
    std::fs::create_dir(&counters).unwrap();
    std::fs::set_permissions(&counters, PermissionsExt::from_mode(0o700)).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, counters.join("1"), fifo, mode, 0).unwrap();
    symlink("/dev/zero", counters.join("2")).unwrap();
    // The fixture ends a command that hangs.
    let ended = fixture.run(&["sock", "stat"]);
    assert!(ended.code >= 0, "{ended:?}");
}

/// A counter file with this test as its living program.
fn counters_of_this_test(path: &std::path::Path) {
    let own = m3ipc_sys::process_id();
    let started = m3ipc_sys::process_start_ticks(own).unwrap();
    let word = m3ipc_shim::counters::process_word(own.cast_unsigned(), started);
    std::fs::write(path, m3ipc_shim::counters::Snapshot::empty_page(word)).unwrap();
}

#[test]
fn root_sees_the_programs_of_a_user_and_removes_none_of_their_files() {
    if !is_root("counters of a user") {
        return;
    }
    let fixture = Fixture::new();
    std::fs::create_dir(fixture.directory()).unwrap();
    let counters = fixture.base().join("node.sock-run");
    std::fs::create_dir(&counters).unwrap();
    let own = m3ipc_sys::process_id().to_string();
    counters_of_this_test(&counters.join(&own));
    // Neither a dead program's file nor a file of root that the user linked there.
    let dead = counters.join("1");
    let page = m3ipc_shim::counters::Snapshot::empty_page(1);
    std::fs::write(&dead, page).unwrap();
    counters_of_this_test(&counters.join("roots"));
    for path in [&fixture.directory(), &counters, &counters.join(&own), &dead] {
        chown(path, Some(STRANGER), Some(STRANGER)).unwrap();
    }
    let ended = fixture.run(&["sock", "stat"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let rows = ended.out.lines().filter(|line| line.split_whitespace().nth(1) == Some(&own));
    assert_eq!(rows.count(), 1, "{}", ended.out);
    assert!(ended.out.contains("com-sockets are not shown"), "the reason: {}", ended.out);
    assert!(dead.exists(), "root removed a file of a user");
    std::fs::remove_dir(fixture.directory()).unwrap();
}

#[test]
fn the_table_of_sockets_says_what_it_does_not_read() {
    let fixture = Fixture::new();
    assert_eq!(fixture.run(&["up"]).code, 0);
    let counters = fixture.base().join("node.sock-run");
    std::fs::create_dir(&counters).unwrap();
    counters_of_this_test(&counters.join("1"));
    std::fs::set_permissions(&counters, PermissionsExt::from_mode(0o777)).unwrap();
    let ended = fixture.run(&["sock", "stat"]);
    assert!(ended.out.contains("node.sock-run is not read"), "{ended:?}");
    assert!(ended.out.contains("mode 777"), "{ended:?}");
    assert_eq!(fixture.run(&["down"]).code, 0);
}

#[test]
fn sock_run_says_why_a_program_keeps_the_sockets_of_the_kernel() {
    let fixture = Fixture::new();
    let directory = fixture.directory();
    let strict = || fixture.run(&["sock", "run", "--strict", "--", "true"]);
    let explained = || fixture.run(&["sock", "run", "--explain", "--", "true"]).out;

    let absent = strict();
    assert_eq!(absent.code, 1, "{absent:?}");
    assert!(
        absent.err.contains("No such file") && absent.err.contains("mkdir -m 700"),
        "{absent:?}"
    );

    std::fs::create_dir(&directory).unwrap();
    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o777)).unwrap();
    let shared = strict();
    assert_eq!(shared.code, 1, "{shared:?}");
    assert!(shared.err.contains("mode 0777") && shared.err.contains("chmod go-w"), "{shared:?}");
    assert!(explained().contains("keeps the kernel's sockets: other users can replace"));
    // Without --strict the program runs after that line. The loader ignores this library.
    let line =
        fixture.run_with(&["sock", "run", "--", "true"], &[("M3_SOCK_LIBRARY", "/etc/passwd")]);
    assert_eq!(line.code, 0, "{line:?}");
    let line = line.err;
    let first = line.lines().next().unwrap();
    assert!(first.contains("runs with the kernel's sockets") && first.contains("0777"), "{line}");

    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o700)).unwrap();
    assert!(explained().contains("its local streams use shared memory"), "{}", explained());
    // The trial leaves nothing.
    std::fs::remove_dir(&directory).unwrap();
}
