//! Messages from the shell: sent, called, heard, drawn; and programs that are bound before they run.

mod rig;

use rig::Rig;

/// Exit codes, as `--help` tells them.
const OK: i32 = 0;
const FAILED: i32 = 1;
const USAGE: i32 = 2;
const SYSTEM: i32 = 4;

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
    let told = rig.run(&["notify", "shop/ear", "--timeout", "10000"]);
    assert_eq!(told.code, OK, "{}", told.err);
    let sent =
        rig.run(&["send", "shop/ear", "--type", "4", "i32:1", "str:one", "--timeout", "10000"]);
    assert_eq!(sent.code, OK, "{}", sent.err);
    let slot = rig.run(&["ps", "shop", "--json"]).json()[0]["endpoints"][0]["slot"].to_string();
    assert_eq!(rig.run(&["send", &format!("shop/{slot}"), "i32:2", "--timeout", "10000"]).code, OK);
    let heard = ear.wait();
    assert_eq!(heard.code, OK, "{}", heard.err);
    let lines: Vec<_> = heard.out.lines().collect();
    assert!(lines[0].starts_with("notification from "), "{lines:?}");
    assert!(lines[1].ends_with("type 4  i32:1 str:one") && lines[2].contains("i32:2"), "{lines:?}");
}

/// The number of the first grant of an endpoint.
const FIRST_GRANT: &str = "4294967296";

#[test]
fn memory_of_who_waits_is_copied_in_and_out() {
    for rule in ["open", "granted"] {
        let rig = Rig::new();
        assert_eq!(rig.run(&["vm", "create", "shop", "--copy", rule]).code, OK);
        let ear = rig.start(&["listen", "shop", "--as", "ear", "--hold", "100", "--count", "1"]);
        rig.until("the ear listens", || rig.run(&["ps", "shop"]).out.contains("receive"));
        let copy = |words: &[&'static str]| {
            [&["copy", "shop/ear", "--grant", FIRST_GRANT], words].concat()
        };
        let put = rig.run_fed(&copy(&["10", "--stdin"]), "hello");
        assert_eq!(put.code, OK, "{}", put.err);
        assert!(put.out.starts_with("5 bytes copied in "), "{}", put.out);
        assert_eq!(rig.run(&copy(&["10", "5"])).out, "hello");
        assert_eq!(rig.run(&copy(&["9", "7", "--json"])).json()["hex"], "0068656c6c6f00");
        let beyond = rig.run(&copy(&["99", "2"]));
        assert_eq!(beyond.code, FAILED);
        assert!(beyond.err.contains("granted is shorter"), "{}", beyond.err);
        assert_eq!(rig.run(&["copy", "shop/ear", "0x10", "4"]).code, FAILED);
        assert_eq!(rig.run(&["send", "shop/ear", "--timeout", "10000"]).code, OK);
        assert_eq!(ear.wait().code, OK);
        let info = rig.run(&["vm", "info", "shop"]).out;
        assert!(
            info.contains(if rule == "open" {
                "copies open"
            } else {
                "copies of what was granted"
            }),
            "{info}"
        );
    }
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
    let bound =
        rig.run(&["run", "--vm", "shop", "--", "sh", "-c", "echo $M3_VM $M3_ENDPOINT; exit 7"]);
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
    assert_eq!(
        m3ipc::Address(i32::try_from(answer.json()["source"].as_i64().unwrap()).unwrap()).slot(),
        40
    );
    assert_eq!(server.wait().code, OK);
}
