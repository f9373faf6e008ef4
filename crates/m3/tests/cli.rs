//! The command line, run as a person runs it: the program itself, its output, its exit codes.
//!
//! Each test has a runtime directory of its own; whatever a test has started
//! is gone at its end, however that comes.

mod rig;

use rig::Rig;
use serde_json::Value;

/// Exit codes, as `--help` tells them.
const OK: i32 = 0;
const FAILED: i32 = 1;
const USAGE: i32 = 2;
const BUSY: i32 = 3;
const SYSTEM: i32 = 4;

#[test]
fn help_tells_of_every_command_and_of_the_exit_codes() {
    let rig = Rig::new();
    let help = rig.run(&["--help"]);
    assert_eq!(help.code, OK);
    for word in
        ["demo", "up", "down", "vm", "ps", "send", "call", "notify", "listen", "echo", "run", "doctor"]
    {
        assert!(help.out.contains(&format!("  {word} ")), "{word} is missing:\n{}", help.out);
        let of_word = rig.run(&[word, "--help"]);
        let takes_json = of_word.out.contains("--json") || word == "vm";
        assert!(of_word.code == OK && takes_json, "{word}:\n{}", of_word.out);
    }
    assert!(help.out.contains("Exit codes:") && !help.out.contains("__demo"));
}

#[test]
fn a_second_daemon_is_refused_and_the_first_goes_when_told() {
    let rig = Rig::new();
    let up = rig.run(&["up", "--nodeid", "3", "--json"]);
    assert_eq!(up.code, OK, "{}", up.err);
    assert_eq!(up.json()["node"]["nodeid"], 3);
    let second = rig.run(&["up"]);
    assert!(second.code == BUSY && second.err.contains("m3 down"), "{}", second.err);
    assert_eq!(rig.run(&["daemon"]).code, BUSY);
    assert_eq!(rig.run(&["up", "--nodeid", "99"]).code, USAGE);
    assert_eq!(rig.run(&["down"]).code, OK);
    assert!(!rig.directory().exists(), "the runtime directory is left");
    assert_eq!(rig.run(&["down"]).code, FAILED);
}

#[test]
fn a_daemon_that_cannot_live_is_no_success() {
    let rig = Rig::new();
    let file = rig.base().join("file");
    std::fs::write(&file, "").unwrap();
    let up = rig.run(&["up", "--runtime-dir", &file.join("below").to_string_lossy()]);
    assert!(up.code == SYSTEM && up.err.contains("m3 daemon"), "{}: {}", up.code, up.err);
}

#[test]
fn the_daemon_goes_to_the_background_by_itself() {
    let rig = Rig::new();
    let directory = rig.directory().to_string_lossy().into_owned();
    assert_eq!(rig.run(&["daemon", "--detach", "--runtime-dir", &directory]).code, OK);
    rig.until("the daemon serves", || rig.run(&["vm", "ls"]).code == OK);
    assert_eq!(rig.run(&["down"]).code, OK);
}

#[test]
fn the_library_starts_this_program_as_its_daemon() {
    let rig = Rig::new();
    let made = rig.run_with(&["vm", "create", "shop"], &[("M3_DAEMON", env!("CARGO_BIN_EXE_m3"))]);
    assert_eq!(made.code, OK, "{}", made.err);
    assert_eq!(rig.run(&["vm", "ls", "--json"]).json()[0]["name"], "shop");
}

#[test]
fn vms_begin_are_listed_and_end() {
    let rig = Rig::new();
    let words =
        ["vm", "create", "shop", "--id", "5", "--procs", "100", "--mode", "700", "--grace", "50", "--json"];
    let made = rig.run(&words);
    assert_eq!(made.code, OK, "{}", made.err);
    assert_eq!((made.json()["id"].as_i64(), made.json()["mode"].as_str()), (Some(5), Some("700")));
    assert!(rig.run(&["vm", "ls"]).out.contains("shop"));
    for name in ["shop", "5"] {
        let info = rig.run(&["vm", "info", name]);
        assert!(info.code == OK && info.out.contains("-35 to 99"), "{}", info.out);
    }
    assert_eq!(rig.run(&["vm", "create", "shop"]).code, FAILED);
    assert_eq!(rig.run(&["vm", "create", "a-name-that-is-too-long"]).code, FAILED);
    assert_eq!(rig.run(&["vm", "create", "x", "--mode", "9"]).code, USAGE);
    assert_eq!(rig.run(&["vm", "end", "shop"]).code, OK);
    let gone = rig.run(&["vm", "info", "shop", "--json"]);
    assert_eq!(gone.code, FAILED);
    let error: Value = serde_json::from_str(&gone.err).unwrap();
    assert!(error["error"]["code"].as_i64().unwrap() < 0 && error["error"]["exit"] == 1);
}

#[test]
fn a_call_is_answered_with_its_own_content() {
    let rig = Rig::with_vm("shop");
    let echo = rig.start(&["echo", "shop", "--as", "server", "--count", "4"]);
    let call = |words: &[&str]| {
        let all = [&["call", "shop/server", "--wait", "--timeout", "10000"], words].concat();
        let answer = rig.run(&all);
        assert_eq!(answer.code, OK, "{}", answer.err);
        answer
    };
    assert!(
        call(&["--type", "7", "i32:5", "i64:-7", "str:hello"])
            .out
            .ends_with("type 7  i32:5 i64:-7 str:hello\n")
    );
    assert!(call(&["--hex", "00 ff"]).out.ends_with("hex:00ff\n"));
    let json = call(&["--json", "--type", "9", "i32:1"]).json();
    assert_eq!((json["type"].as_i64(), json["words"][0].as_i64()), (Some(9), Some(1)));
    let long = "x".repeat(1_500);
    let words = ["call", "shop/server", "--stdin", "--timeout", "10000"];
    assert!(rig.run_fed(&words, &long).out.contains(&long));
    assert_eq!(echo.wait().code, OK);
}

#[test]
fn what_arrives_is_printed() {
    let rig = Rig::with_vm("shop");
    let ear = rig.start(&["listen", "shop", "--as", "ear", "--count", "3", "--show", "i32,str"]);
    rig.until("the ear is there", || rig.run(&["ps", "shop"]).out.contains(" ear "));
    assert_eq!(rig.run(&["notify", "shop/ear", "--timeout", "10000"]).code, OK);
    assert_eq!(
        rig.run(&["send", "shop/ear", "--type", "4", "i32:1", "str:one", "--timeout", "10000"]).code,
        OK
    );
    let slot = rig.run(&["ps", "shop", "--json"]).json()[0]["endpoints"][0]["slot"].to_string();
    assert_eq!(rig.run(&["send", &format!("shop/{slot}"), "i32:2", "--timeout", "10000"]).code, OK);
    let heard = ear.wait();
    assert_eq!(heard.code, OK, "{}", heard.err);
    let lines: Vec<_> = heard.out.lines().collect();
    assert!(lines[0].starts_with("notification from "), "{lines:?}");
    assert!(lines[1].ends_with("type 4  i32:1 str:one") && lines[2].contains("i32:2"), "{lines:?}");
}

#[test]
fn wrong_targets_say_what_to_do() {
    let rig = Rig::with_vm("shop");
    for (target, code, said) in [
        ("shop", USAGE, "VM/NAME"),
        ("shop/", USAGE, "VM/NAME"),
        ("nosuch/1", FAILED, "m3 vm ls"),
        ("shop/nobody", FAILED, "m3 ps shop"),
        ("shop/77", FAILED, "m3 ps"),
        ("shop/99999", FAILED, "m3 ps"),
    ] {
        let called = rig.run(&["call", target]);
        assert_eq!(called.code, code, "{target}: {}", called.err);
        assert!(called.err.contains(said) && called.out.is_empty(), "{target}: {}", called.err);
    }
    assert_eq!(rig.run(&["send", "shop/1", "five"]).code, USAGE);
    assert_eq!(rig.run(&["send", "shop/1", "--hex", "0"]).code, USAGE);
    assert_eq!(rig.run(&["call", "shop/late", "--wait", "--timeout", "50"]).code, FAILED);
}

#[test]
fn who_waits_for_whom_is_drawn() {
    let rig = Rig::with_vm("shop");
    let ear = rig.start(&["listen", "shop", "--as", "31"]);
    let middle = rig.start(&["call", "shop/31", "--as", "30", "--wait"]);
    let first = rig.start(&["call", "shop/30", "--as", "29", "--wait"]);
    rig.until("all wait", || rig.run(&["ps"]).out.contains("29 -> 30 -> 31"));
    let shown = rig.run(&["ps", "shop", "--json"]).json();
    assert_eq!(shown[0]["chains"][0], "29 -> 30 -> 31");
    assert_eq!(shown[0]["endpoints"].as_array().map(Vec::len), Some(3));
    // The end of the VM ends them all, each with its code.
    assert_eq!(rig.run(&["vm", "end", "shop"]).code, OK);
    for member in [ear, middle, first] {
        let ended = member.wait();
        assert_eq!(ended.code, FAILED, "{}", ended.err);
    }
}

#[test]
fn a_program_is_bound_before_it_runs_and_its_exit_code_is_ours() {
    let rig = Rig::with_vm("shop");
    let bound = rig.run(&["run", "--vm", "shop", "--", "sh", "-c", "echo $M3_VM $M3_ENDPOINT; exit 7"]);
    assert_eq!((bound.code, bound.out.as_str()), (7, "0 35599\n"), "{}", bound.err);
    assert_eq!(rig.run(&["run", "--vm", "shop", "--", "/no/such/program"]).code, SYSTEM);
    // It takes the endpoint that it was bound to.
    let m3 = env!("CARGO_BIN_EXE_m3");
    let server = rig.start(&[
        "run",
        "--vm",
        "shop",
        "--endpoint",
        "40",
        "--",
        m3,
        "echo",
        "shop",
        "--as",
        "e",
        "--count",
        "1",
    ]);
    let answer = rig.run(&["call", "shop/e", "--wait", "--timeout", "10000", "--json"]);
    assert_eq!(answer.code, OK, "{}", answer.err);
    assert_eq!(m3ipc::Address(i32::try_from(answer.json()["source"].as_i64().unwrap()).unwrap()).slot(), 40);
    assert_eq!(server.wait().code, OK);
}

#[test]
fn a_closed_output_is_no_failure() {
    let rig = Rig::with_vm("shop");
    for words in [&["vm", "ls"][..], &["doctor"], &["completions", "bash"]] {
        let closed = rig.run_closed(words);
        assert_eq!((closed.code, closed.err.as_str()), (OK, ""), "{words:?}");
    }
}

#[test]
fn the_doctor_finds_the_seals_in_order() {
    let rig = Rig::new();
    let looked = rig.run(&["doctor", "--json"]).json();
    let findings = looked["findings"].as_array().unwrap();
    let state =
        |name: &str| findings.iter().find(|finding| finding["name"] == name).map(|found| &found["state"]);
    for name in ["second writer", "writer through /proc", "a reader maps", "memfd sealing", "futex_waitv"] {
        assert_eq!(state(name), Some(&Value::from("ok")), "{name}");
    }
    assert_eq!(looked["missing"], 0);
}

#[test]
fn completions_and_man_pages_are_made() {
    let rig = Rig::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(rig.run(&["completions", shell]).out.contains("m3"));
    }
    let pages = rig.base().join("man");
    std::fs::create_dir(&pages).unwrap();
    assert_eq!(rig.run(&["man", &pages.to_string_lossy()]).code, OK);
    assert!(pages.join("m3.1").exists() && pages.join("m3-call.1").exists());
    assert!(!pages.join("m3-__demo.1").exists(), "a hidden command has a page");
}

#[test]
fn the_demo_passes_and_leaves_nothing() {
    let rig = Rig::new();
    let shown = rig.run(&["demo", "--json", "--kills", "5"]);
    let result = shown.json();
    assert_eq!(result["code"], -108);
    assert_eq!(result["calls_after_restart"], 1_000);
    assert_eq!(result["round_trips"].as_array().map(Vec::len), Some(4));
    for what in ["processes", "descriptors", "mappings", "shared_files"] {
        assert_eq!(result["left"][what], 0, "{what}");
    }
    assert_eq!(result["left"]["directory"], false);
    assert!(result["left"]["of_memory"].as_i64().unwrap() > 0, "the search for memory saw none");
    // Its own bound of 1 ms decides its exit code; on a busy machine it may fall short.
    assert_eq!(shown.code == OK, result["good"] == true);
}

#[test]
fn a_demo_that_is_broken_off_leaves_nothing_either() {
    let rig = Rig::new();
    let shown = rig.start(&["demo"]);
    let directory = std::env::temp_dir().join(format!("m3-demo-{}", shown.pid()));
    rig.until("the node is there", || directory.join("node").join("m3d.sock").exists());
    shown.kill();
    rig.until("the directory is gone", || !directory.exists());
}
