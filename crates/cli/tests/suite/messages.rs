//! Messages and copies from the shell, wait chains, and programs that `m3 run` binds.

use crate::fixture::{Fixture, send_signal};
use m3ipc_sys::Signal;
use std::time::{Duration, Instant};

/// Exit codes, as `--help` lists them.
const OK: i32 = 0;
const FAILED: i32 = 1;
const USAGE: i32 = 2;
const SYSTEM: i32 = 4;

#[test]
fn echo_answers_a_call_with_its_content() {
    let fixture = Fixture::with_vm("shop");
    let echo = fixture.start(&["echo", "shop", "--as", "server", "--count", "4"]);
    let call = |words: &[&str]| {
        let all = [&["call", "shop/server", "--wait", "--timeout", "10000"], words].concat();
        let answer = fixture.run(&all);
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
    assert!(fixture.run_with_input(&words, &long).out.contains(&long));
    assert_eq!(echo.wait().code, OK);
}

#[test]
fn echo_refuses_what_is_longer_than_it_takes_and_goes_on() {
    let fixture = Fixture::with_vm("shop");
    let echo = fixture.start(&["echo", "shop", "--as", "server", "--count", "1", "--quiet"]);
    let long = "x".repeat((16 << 20) + 1);
    let words = ["call", "shop/server", "--wait", "--stdin", "--timeout", "60000"];
    let refused = fixture.run_with_input(&words, &long);
    assert_eq!(refused.code, FAILED, "{}", refused.err);
    assert!(
        refused.err.contains("16777217") && refused.err.contains("16777216"),
        "{}",
        refused.err
    );
    assert!(fixture.run_with_input(&words, "short").out.contains("short"));
    assert_eq!(echo.wait().code, OK);
}

#[test]
fn listen_prints_messages_and_notifications() {
    let fixture = Fixture::with_vm("shop");
    let listener =
        fixture.start(&["listen", "shop", "--as", "ear", "--count", "3", "--show", "i32,str"]);
    fixture
        .wait_until("the listener is bound", || fixture.run(&["ps", "shop"]).out.contains(" ear "));
    let notified = fixture.run(&["notify", "shop/ear", "--timeout", "10000"]);
    assert_eq!(notified.code, OK, "{}", notified.err);
    let sent =
        fixture.run(&["send", "shop/ear", "--type", "4", "i32:1", "str:one", "--timeout", "10000"]);
    assert_eq!(sent.code, OK, "{}", sent.err);
    let slot = fixture.run(&["ps", "shop", "--json"]).json()[0]["endpoints"][0]["slot"].to_string();
    assert_eq!(
        fixture.run(&["send", &format!("shop/{slot}"), "i32:2", "--timeout", "10000"]).code,
        OK
    );
    let ended = listener.wait();
    assert_eq!(ended.code, OK, "{}", ended.err);
    let lines: Vec<_> = ended.out.lines().collect();
    assert!(lines[0].starts_with("notification from "), "{lines:?}");
    assert!(lines[1].ends_with("type 4  i32:1 str:one") && lines[2].contains("i32:2"), "{lines:?}");
}

#[test]
fn a_notification_without_limit_waits_until_its_target_receives_it() {
    let fixture = Fixture::with_vm("shop");
    let listener = fixture.start(&["listen", "shop", "--as", "ear", "--count", "1"]);
    let waits = || fixture.run(&["ps", "shop"]).out.contains("receive");
    fixture.wait_until("the listener waits", waits);
    send_signal(listener.pid().cast_signed(), Signal::STOP);
    let notify = fixture.start(&["notify", "shop/ear", "--timeout", "-1"]);
    let begun = Instant::now();
    let limit = Duration::from_secs(2);
    fixture.wait_until("more than the limit without --timeout", || begun.elapsed() > limit);
    send_signal(listener.pid().cast_signed(), Signal::CONT);
    let notified = notify.wait();
    assert_eq!(notified.code, OK, "{}", notified.err);
    assert_eq!(listener.wait().code, OK);
}

/// The number of an endpoint's first grant.
const FIRST_GRANT: &str = "4294967296";

#[test]
fn memory_of_a_waiting_endpoint_is_copied_out_and_in() {
    for rule in ["open", "granted"] {
        let fixture = Fixture::new();
        assert_eq!(fixture.run(&["vm", "create", "shop", "--copy", rule]).code, OK);
        let listener =
            fixture.start(&["listen", "shop", "--as", "ear", "--hold", "100", "--count", "1"]);
        fixture.wait_until("the listener waits", || {
            fixture.run(&["ps", "shop"]).out.contains("receive")
        });
        let copy = |words: &[&'static str]| {
            [&["copy", "shop/ear", "--grant", FIRST_GRANT], words].concat()
        };
        let copied = fixture.run_with_input(&copy(&["10", "--stdin"]), "hello");
        assert_eq!(copied.code, OK, "{}", copied.err);
        assert!(copied.out.starts_with("5 bytes copied in "), "{}", copied.out);
        assert_eq!(fixture.run(&copy(&["10", "5"])).out, "hello");
        assert_eq!(fixture.run(&copy(&["9", "7", "--json"])).json()["hex"], "0068656c6c6f00");
        let beyond = fixture.run(&copy(&["99", "2"]));
        assert_eq!(beyond.code, FAILED);
        assert!(beyond.err.contains("grant is shorter"), "{}", beyond.err);
        assert_eq!(fixture.run(&["copy", "shop/ear", "0x10", "4"]).code, FAILED);
        assert_eq!(fixture.run(&["send", "shop/ear", "--timeout", "10000"]).code, OK);
        assert_eq!(listener.wait().code, OK);
        let info = fixture.run(&["vm", "info", "shop"]).out;
        assert!(
            info.contains(if rule == "open" { "copies open" } else { "copies of granted memory" }),
            "{info}"
        );
    }
}

#[test]
fn errors_of_wrong_targets_name_the_next_command() {
    let fixture = Fixture::with_vm("shop");
    for (target, code, advice) in [
        ("shop", USAGE, "VM/NAME"),
        ("shop/", USAGE, "VM/NAME"),
        ("nosuch/1", FAILED, "m3 vm ls"),
        ("shop/nobody", FAILED, "m3 ps shop"),
        ("shop/77", FAILED, "m3 ps"),
        ("shop/99999", FAILED, "m3 vm info"),
    ] {
        let called = fixture.run(&["call", target]);
        assert_eq!(called.code, code, "{target}: {}", called.err);
        assert!(called.err.contains(advice) && called.out.is_empty(), "{target}: {}", called.err);
    }
    assert_eq!(fixture.run(&["send", "shop/1", "five"]).code, USAGE);
    assert_eq!(fixture.run(&["send", "shop/1", "--hex", "0"]).code, USAGE);
    assert_eq!(fixture.run(&["call", "shop/late", "--wait", "--timeout", "50"]).code, FAILED);
}

#[test]
fn ps_draws_wait_chains() {
    let fixture = Fixture::with_vm("shop");
    let listener = fixture.start(&["listen", "shop", "--as", "31"]);
    let middle = fixture.start(&["call", "shop/31", "--as", "30", "--wait"]);
    let first = fixture.start(&["call", "shop/30", "--as", "29", "--wait"]);
    fixture.wait_until("all three wait", || fixture.run(&["ps"]).out.contains("29 -> 30 -> 31"));
    let shown = fixture.run(&["ps", "shop", "--json"]).json();
    assert_eq!(shown[0]["chains"][0], "29 -> 30 -> 31");
    assert_eq!(shown[0]["endpoints"].as_array().map(Vec::len), Some(3));
    // The end of the VM ends every member's call with an error.
    assert_eq!(fixture.run(&["vm", "end", "shop"]).code, OK);
    for member in [listener, middle, first] {
        let ended = member.wait();
        assert_eq!(ended.code, FAILED, "{}", ended.err);
    }
}

#[test]
fn run_binds_a_program_and_returns_its_exit_code() {
    let fixture = Fixture::with_vm("shop");
    let bound =
        fixture.run(&["run", "--vm", "shop", "--", "sh", "-c", "echo $M3_VM $M3_ENDPOINT; exit 7"]);
    assert_eq!((bound.code, bound.out.as_str()), (7, "0 35599\n"), "{}", bound.err);
    assert_eq!(fixture.run(&["run", "--vm", "shop", "--", "/no/such/program"]).code, SYSTEM);
    // The program takes the endpoint that `m3 run` bound.
    let m3 = env!("CARGO_BIN_EXE_m3");
    let server = fixture.start(&[
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
    let answer = fixture.run(&["call", "shop/e", "--wait", "--timeout", "10000", "--json"]);
    assert_eq!(answer.code, OK, "{}", answer.err);
    assert_eq!(
        m3ipc::Address(i32::try_from(answer.json()["source"].as_i64().unwrap()).unwrap()).slot(),
        40
    );
    assert_eq!(server.wait().code, OK);
}

#[test]
fn names_with_control_characters_break_neither_json_nor_the_table() {
    let fixture = Fixture::with_vm("shop");
    let names = ["a\u{7f}\u{9b}", "x\nforged", "y\u{1b}[31mred"];
    let _running: Vec<_> =
        names.iter().map(|name| fixture.start(&["echo", "shop", "--as", name])).collect();
    fixture.wait_until("the endpoints have their names", || {
        let all = fixture.run(&["ps", "shop", "--json"]).json();
        let listed = all[0]["endpoints"].as_array().cloned().unwrap_or_default();
        names.iter().all(|name| listed.iter().any(|endpoint| endpoint["names"][0] == *name))
    });
    let table = fixture.run(&["ps", "shop"]).out;
    assert_eq!(table.lines().count(), 1 + names.len(), "{table}");
    assert!(table.contains("x\\nforged") && !table.contains('\u{1b}'), "{table}");
    let refused = fixture.run(&["vm", "create", "x", "--from", "b\u{7f}", "--json"]);
    let error: serde_json::Value =
        serde_json::from_str(&refused.err).unwrap_or_else(|cause| panic!("{cause}: {refused:?}"));
    let what = error["error"]["what"].as_str();
    assert!(what.is_some_and(|what| what.contains("b\u{7f}")), "{error}");
}
