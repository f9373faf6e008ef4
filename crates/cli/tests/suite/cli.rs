//! The command line: help, daemon, VMs, checks, man pages and the demonstration.

use crate::fixture::{Fixture, send_signal};
use m3ipc_sys::Signal;
use serde_json::Value;

/// Exit codes, as `--help` lists them.
const OK: i32 = 0;
const FAILED: i32 = 1;
const USAGE: i32 = 2;
const BUSY: i32 = 3;
const SYSTEM: i32 = 4;

#[test]
fn help_lists_every_command_and_the_exit_codes() {
    let fixture = Fixture::new();
    let help = fixture.run(&["--help"]);
    assert_eq!(help.code, OK);
    for word in [
        "demo", "up", "down", "vm", "ps", "send", "call", "copy", "notify", "listen", "echo",
        "run", "doctor",
    ] {
        assert!(help.out.contains(&format!("  {word} ")), "{word} is missing:\n{}", help.out);
        let of_command = fixture.run(&[word, "--help"]);
        let takes_json = of_command.out.contains("--json");
        assert!(of_command.code == OK && takes_json, "{word}:\n{}", of_command.out);
    }
    assert!(help.out.contains("Exit codes:") && !help.out.contains("__demo"));
}

#[test]
fn a_second_daemon_is_refused_and_down_ends_the_first() {
    let fixture = Fixture::new();
    let up = fixture.run(&["up", "--nodeid", "3", "--json"]);
    assert_eq!(up.code, OK, "{}", up.err);
    assert_eq!(up.json()["node"]["nodeid"], 3);
    let second = fixture.run(&["up"]);
    assert!(second.code == BUSY && second.err.contains("m3 down"), "{}", second.err);
    assert_eq!(fixture.run(&["daemon"]).code, BUSY);
    assert_eq!(fixture.run(&["up", "--nodeid", "99"]).code, USAGE);
    assert_eq!(fixture.run(&["down"]).code, OK);
    assert!(!fixture.directory().exists(), "the runtime directory is left");
    assert_eq!(fixture.run(&["down"]).code, FAILED);
}

#[test]
fn up_fails_where_the_daemon_cannot_start() {
    let fixture = Fixture::new();
    let file = fixture.base().join("file");
    std::fs::write(&file, "").unwrap();
    let up = fixture.run(&["up", "--runtime-dir", &file.join("below").to_string_lossy()]);
    assert!(up.code == SYSTEM && up.err.contains("m3 daemon"), "{}: {}", up.code, up.err);
}

#[test]
fn the_daemon_detaches_itself() {
    let fixture = Fixture::new();
    let directory = fixture.directory().to_string_lossy().into_owned();
    assert_eq!(fixture.run(&["daemon", "--detach", "--runtime-dir", &directory]).code, OK);
    fixture.wait_until("the daemon serves", || fixture.run(&["vm", "ls"]).code == OK);
    assert_eq!(fixture.run(&["down"]).code, OK);
}

#[test]
fn a_daemon_that_cannot_start_says_why() {
    let fixture = Fixture::new();
    let below_a_file = fixture.base().join("file").join("below");
    std::fs::write(fixture.base().join("file"), "").unwrap();
    let below = below_a_file.to_string_lossy();
    let detached = fixture.run(&["daemon", "--detach", "--runtime-dir", &below]);
    assert!(
        detached.code == SYSTEM && detached.err.contains("Not a directory"),
        "{}",
        detached.err
    );
    let up = fixture.run(&["up", "--runtime-dir", &below]);
    assert!(up.code == SYSTEM && up.err.contains("Not a directory"), "{}", up.err);
    let level = fixture.run(&["daemon", "--log-level", "loud"]);
    assert!(level.code == USAGE && level.err.contains("possible values: error"), "{}", level.err);
    let filter = fixture.run_with(&["daemon"], &[("M3_LOG", "loud")]);
    assert!(filter.code == USAGE && filter.err.contains("M3_LOG is"), "{}", filter.err);
}

#[test]
fn a_daemon_in_the_background_logs_deaths_to_a_file() {
    let fixture = Fixture::with_vm("shop");
    let log = fixture.directory().join("m3d.log");
    let echo = fixture.start(&["echo", "shop", "--as", "till"]);
    fixture.wait_until("the name is there", || fixture.run(&["ps"]).out.contains("till"));
    // The child stays unread until the daemon has seen how it ended.
    send_signal(i32::try_from(echo.pid()).unwrap(), Signal::KILL);
    let line = || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.lines().find(|line| line.contains("a member died")).map(str::to_owned)
    };
    fixture.wait_until("the death is logged", || line().is_some());
    let line = line().unwrap();
    for part in ["INFO", "names=\"till\"", &format!("pid={}", echo.pid()), "signal 9"] {
        assert!(line.contains(part), "{part} is missing: {line}");
    }
    assert!(!line.contains('\u{1b}'), "colours in a file: {line}");
    assert_eq!(fixture.run(&["down"]).code, OK);
    assert!(!log.exists(), "an orderly end leaves the log");
}

#[test]
fn a_directory_with_files_of_others_is_refused_by_their_names_and_keeps_them() {
    let fixture = Fixture::new();
    let thesis = fixture.directory().join("thesis.txt");
    std::fs::create_dir_all(fixture.directory()).unwrap();
    std::fs::write(&thesis, "words").unwrap();
    let refused = fixture.run(&["up"]);
    assert!(refused.code == SYSTEM && refused.err.contains("\"thesis.txt\""), "{}", refused.err);
    std::fs::remove_file(&thesis).unwrap();
    assert_eq!(fixture.run(&["up"]).code, OK);
    std::fs::write(&thesis, "words").unwrap();
    std::fs::write(fixture.directory().join("sockets/photo.jpg"), "light").unwrap();
    assert_eq!(fixture.run(&["down"]).code, OK);
    fixture.wait_until("the daemon has cleared the rest", || {
        std::fs::read_dir(fixture.directory()).unwrap().count() == 2
    });
    assert!(thesis.exists() && fixture.directory().join("sockets/photo.jpg").exists());
    std::fs::remove_dir_all(fixture.directory()).unwrap();
}

#[test]
fn a_signal_ends_an_empty_node_and_leaves_members_to_the_next_daemon() {
    let fixture = Fixture::new();
    let daemon_pid = || {
        let up = fixture.run(&["up", "--json"]);
        i32::try_from(up.json()["node"]["daemon_pid"].as_i64().unwrap()).unwrap()
    };
    let pid = daemon_pid();
    send_signal(pid, Signal::TERM);
    fixture.wait_until("the directory is gone", || !fixture.directory().exists());
    let pid = daemon_pid();
    assert_eq!(fixture.run(&["vm", "create", "shop"]).code, OK);
    send_signal(pid, Signal::TERM);
    fixture.wait_until("the daemon is gone", || m3ipc_sys::is_ending(pid, None) != Ok(false));
    assert!(fixture.directory().join("journal").exists(), "the journal is gone");
    assert_ne!(daemon_pid(), pid);
    assert!(fixture.run(&["vm", "ls"]).out.contains("shop"));
    assert_eq!(fixture.run(&["down"]).code, OK);
}

#[test]
fn a_damaged_journal_is_kept_and_the_log_names_it() {
    let fixture = Fixture::new();
    let up = fixture.run(&["up", "--json"]);
    let pid = i32::try_from(up.json()["node"]["daemon_pid"].as_i64().unwrap()).unwrap();
    for vm in ["shop", "cafe"] {
        assert_eq!(fixture.run(&["vm", "create", vm]).code, OK);
    }
    send_signal(pid, Signal::KILL);
    fixture.wait_until("the daemon is gone", || m3ipc_sys::is_ending(pid, None) != Ok(false));
    let journal = fixture.directory().join("journal");
    let mut bytes = std::fs::read(&journal).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&journal, &bytes).unwrap();

    let list = fixture.run(&["vm", "ls"]).out;
    assert!(list.contains("shop") && !list.contains("cafe"), "{list}");
    let kept = fixture.directory().join("journal.damaged");
    assert_eq!(std::fs::read(&kept).unwrap(), bytes);
    let log = std::fs::read_to_string(fixture.directory().join("m3d.log")).unwrap();
    assert!(log.contains("the journal is damaged") && log.contains("journal.damaged"), "{log}");
    assert_eq!(fixture.run(&["down"]).code, OK);
    assert!(!fixture.directory().exists(), "an orderly end leaves files");
}

#[test]
fn the_library_starts_this_program_as_its_daemon() {
    let fixture = Fixture::new();
    let created =
        fixture.run_with(&["vm", "create", "shop"], &[("M3_DAEMON", env!("CARGO_BIN_EXE_m3"))]);
    assert_eq!(created.code, OK, "{}", created.err);
    assert_eq!(fixture.run(&["vm", "ls", "--json"]).json()[0]["name"], "shop");
}

#[test]
fn an_ephemeral_vm_is_opened_again_and_another_parameter_is_named() {
    let fixture = Fixture::new();
    let words = ["vm", "create", "shop", "--ephemeral", "--or-open"];
    for _ in 0..2 {
        let made = fixture.run(&words);
        assert_eq!((made.code, made.out.trim()), (OK, "VM 0 is named shop"), "{}", made.err);
    }
    let info = fixture.run(&["vm", "info", "shop"]);
    assert!(info.out.contains("with its last member"), "{}", info.out);
    let other = fixture.run(&["vm", "create", "shop", "--or-open"]);
    assert_eq!(other.code, FAILED);
    assert!(other.err.contains("an end with its last member"), "{}", other.err);
    // This process has the VM's first member, and it ends at once.
    let ran = fixture.run(&["run", "--vm", "shop", "--", "/bin/true"]);
    assert_eq!(ran.code, OK, "{}", ran.err);
    fixture.wait_until("the VM ends", || !fixture.run(&["vm", "ls"]).out.contains("shop"));
}

#[test]
fn vms_are_created_listed_and_ended() {
    let fixture = Fixture::new();
    let words = [
        "vm", "create", "shop", "--id", "5", "--procs", "100", "--mode", "700", "--grace", "50",
        "--json",
    ];
    let created = fixture.run(&words);
    assert_eq!(created.code, OK, "{}", created.err);
    assert_eq!(
        (created.json()["id"].as_i64(), created.json()["mode"].as_str()),
        (Some(5), Some("700"))
    );
    assert!(fixture.run(&["vm", "ls"]).out.contains("shop"));
    for name in ["shop", "5"] {
        let info = fixture.run(&["vm", "info", name]);
        assert!(info.code == OK && info.out.contains("-35 to 99"), "{}", info.out);
    }
    assert_eq!(fixture.run(&["vm", "create", "shop"]).code, FAILED);
    assert_eq!(fixture.run(&["vm", "create", "a-name-that-is-too-long"]).code, FAILED);
    let number = fixture.run(&["vm", "create", "5"]);
    assert!(number.code == FAILED && number.err.contains("is a number"), "{}", number.err);
    assert_eq!(fixture.run(&["vm", "create", "x", "--mode", "9"]).code, USAGE);
    let ended = fixture.run(&["vm", "end", "shop"]);
    assert_eq!((ended.code, ended.out.trim()), (OK, "VM 5 (shop) with 0 members has ended"));
    let ended = fixture.run(&["vm", "info", "shop", "--json"]);
    assert_eq!(ended.code, FAILED);
    let error: Value = serde_json::from_str(&ended.err).unwrap();
    assert!(error["error"]["code"].as_i64().unwrap() < 0 && error["error"]["exit"] == 1);
}

#[test]
fn a_closed_output_is_a_quiet_end_as_after_sigpipe() {
    let fixture = Fixture::with_vm("shop");
    for words in [&["vm", "ls"][..], &["doctor"], &["completions", "bash"]] {
        let closed = fixture.run_with_closed_output(words);
        assert_eq!((closed.code, closed.err.as_str()), (141, ""), "{words:?}");
    }
}

#[test]
fn the_doctor_finds_working_seals() {
    let fixture = Fixture::new();
    let report = fixture.run(&["doctor", "--json"]).json();
    let findings = report["findings"].as_array().unwrap();
    let state = |name: &str| {
        findings.iter().find(|finding| finding["name"] == name).map(|found| &found["state"])
    };
    for name in
        ["second writer", "writer through /proc", "a reader maps", "memfd sealing", "futex_waitv"]
    {
        assert_eq!(state(name), Some(&Value::from("ok")), "{name}");
    }
    assert_eq!(report["missing"], 0);
}

#[test]
fn completions_and_man_pages_are_written() {
    let fixture = Fixture::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(fixture.run(&["completions", shell]).out.contains("m3"));
    }
    let pages = fixture.base().join("man");
    std::fs::create_dir(&pages).unwrap();
    assert_eq!(fixture.run(&["man", &pages.to_string_lossy()]).code, OK);
    assert!(pages.join("m3.1").exists() && pages.join("m3-call.1").exists());
    assert!(!pages.join("m3-__demo.1").exists(), "a hidden command has a page");
}

#[test]
fn the_demo_leaves_nothing_behind() {
    let fixture = Fixture::new();
    let shown = fixture.run(&["demo", "--json", "--kills", "5"]);
    let result = shown.json();
    assert_eq!(result["code"], -108);
    assert_eq!(result["calls_after_restart"], 1_000);
    assert_eq!(result["round_trips"].as_array().map(Vec::len), Some(4));
    assert_eq!(result["block"]["bytes"], 64 << 20);
    assert!(
        result["block"]["hand_over_ns"].as_i64().unwrap() > 0,
        "no transfer of the block was measured"
    );
    assert!(
        result["block"]["socket_ns"].as_i64().unwrap() > 0,
        "no copy through the socket was measured"
    );
    for what in ["processes", "descriptors", "mappings", "shared_files"] {
        assert_eq!(result["left"][what], 0, "{what}");
    }
    assert_eq!(result["left"]["directory"], false);
    assert!(
        result["left"]["memory_objects"].as_i64().unwrap() > 0,
        "the search recorded no memory"
    );
    // The exit code follows from the demo's bound of 1 ms, which a busy machine may miss.
    assert_eq!(shown.code == OK, result["good"] == true);
}

#[test]
fn a_killed_demo_leaves_nothing_behind() {
    let fixture = Fixture::new();
    let shown = fixture.start(&["demo"]);
    let directory = std::env::temp_dir().join(format!("m3-demo-{}", shown.pid()));
    fixture.wait_until("the node runs", || directory.join("node").join("m3d.sock").exists());
    shown.kill();
    fixture.wait_until("the directory is gone", || !directory.exists());
}
