//! `m3 trace`: calls and their phases, trace files, errors, and the death of a tracer.

use crate::fixture::{self, Fixture};
use std::process::{Command, Stdio};

const OK: i32 = 0;
const FAILED: i32 = 1;
const USAGE: i32 = 2;

/// A VM with a server named `parrot`.
fn shop() -> (Fixture, fixture::Running) {
    let fixture = Fixture::with_vm("shop");
    let echo = fixture.start(&["echo", "shop", "--as", "parrot"]);
    fixture
        .wait_until("the server is bound", || fixture.run(&["ps", "shop"]).out.contains("parrot"));
    (fixture, echo)
}

fn call(fixture: &Fixture, kind: &str) {
    let called = fixture.run(&["call", "shop/parrot", "--type", kind, "--timeout", "30000"]);
    assert_eq!(called.code, OK, "{}", called.err);
}

/// The lines of a finished trace as JSON. The last line has the sums.
fn lines(out: &str) -> Vec<serde_json::Value> {
    out.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|cause| panic!("{cause}: {out}")))
        .collect()
}

#[test]
fn a_trace_shows_calls_and_their_phases() {
    let (fixture, _echo) = shop();
    let json = fixture.base().join("calls.json").to_string_lossy().into_owned();
    let capture = fixture.base().join("calls.pcapng").to_string_lossy().into_owned();
    let words = [
        "trace", "shop", "--json", "--count", "3", "--lines", "1000", "--out", &json, "--out",
        &capture,
    ];
    let trace = fixture.start(&words);
    // Call until the trace has seen enough: calls before its start do not count.
    let (mut trace, mut calls) = (Some(trace), 0);
    let ended = loop {
        call(&fixture, "7");
        calls += 1;
        match trace.take().map(fixture::Running::try_wait) {
            Some(Ok(ended)) => break ended,
            Some(Err(running)) => trace = Some(running),
            None => unreachable!("the running trace is put back"),
        }
        assert!(calls < 500, "the trace ended not after {calls} calls");
    };
    assert_eq!(ended.code, OK, "{}", ended.err);
    let lines = lines(&ended.out);
    let (sum, seen) = lines.split_last().expect("a sum");
    let called: Vec<_> = seen.iter().filter(|line| line["verb"] == "call").collect();
    assert!(called.len() >= 3, "{seen:?}");
    let mut switched = false;
    for line in &called {
        assert_eq!(
            (line["to"].as_str(), line["type"].as_i64()),
            (Some("parrot"), Some(7)),
            "{line}"
        );
        let phases = ["T1", "T2", "T3", "T4", "T5", "server"]
            .map(|phase| line[phase].as_u64().expect("a time"));
        let total = line["total_ns"].as_u64().expect("a time");
        // Each phase is rounded to a nanosecond.
        assert!(phases.iter().sum::<u64>().abs_diff(total) <= 8, "{line}");
        // T5 is 0 where the receiver was awake before the message came.
        switched |= phases[4] > 0;
    }
    // Each client is a new process that waits for its answer, so at least one call has a switch.
    assert!(switched, "no call has a switch: {called:?}");
    assert!(sum["calls"].as_u64() >= Some(3) && sum["broken"] == 0, "{sum}");
    assert!(sum["verbs"]["call"]["p50_ns"].as_u64() > Some(0), "{sum}");
    assert_eq!(sum["pairs"][0]["to"], "parrot", "{sum}");
    assert!(
        sum["stamp_ns"].as_f64() > Some(0.0) && sum["call_cost_ns"].as_f64() > Some(0.0),
        "{sum}"
    );

    let events: Vec<serde_json::Value> =
        serde_json::from_slice(&std::fs::read(&json).expect("the trace file exists"))
            .expect("the trace file is JSON");
    let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    assert!(of("s") >= 6 && of("s") == of("f") && of("X") > of("s"), "flows or slices are missing");
    assert!(events.iter().any(|event| event["name"] == "call parrot type 7"));
    check_with_wireshark(&capture);
}

/// Checks the names of calls in Wireshark, where it is installed.
fn check_with_wireshark(capture: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dist/wireshark/m3ipc.lua");
    let tshark = Command::new("tshark")
        .args(["-X", &format!("lua_script:{script}"), "-r", capture, "-Y", "m3ipc.call_ns"])
        .args(["-T", "fields", "-e", "m3ipc.to_name", "-e", "m3ipc.from_name", "-e", "m3ipc.type"])
        .stdin(Stdio::null())
        .output();
    let Ok(tshark) = tshark else {
        println!("SKIP the capture is not checked: tshark is not installed");
        return;
    };
    let shown = String::from_utf8_lossy(&tshark.stdout).into_owned();
    let said = String::from_utf8_lossy(&tshark.stderr).into_owned();
    assert!(tshark.status.success(), "{said}");
    assert!(shown.lines().count() >= 3, "{shown}{said}");
    assert!(shown.lines().all(|line| line.split('\t').nth(1) == Some("parrot")), "{shown}");
}

#[test]
fn tracing_ends_when_the_tracer_is_killed() {
    let (fixture, _echo) = shop();
    let first = fixture.start(&["trace", "shop"]);
    let traced = || mappings_of_rings(&fixture);
    fixture.wait_until("the server has a ring", || traced() > 0);
    let second = fixture.run(&["trace", "shop", "--for", "0.01"]);
    assert!(second.code == FAILED && second.err.contains("traces this VM already"), "{second:?}");
    call(&fixture, "1");
    first.kill();
    fixture.wait_until("a second trace may start", || {
        fixture.run(&["trace", "shop", "--for", "0.01"]).code == OK
    });
    call(&fixture, "2");
    fixture.wait_until("the server has no ring", || {
        call(&fixture, "3");
        traced() == 0
    });
}

/// The number of trace rings that members of the VM map.
fn mappings_of_rings(fixture: &Fixture) -> usize {
    let members = fixture.run(&["ps", "shop", "--json"]).json();
    let members = members[0]["endpoints"].as_array().cloned().unwrap_or_default();
    members
        .iter()
        .filter_map(|member| std::fs::read_to_string(format!("/proc/{}/maps", member["pid"])).ok())
        .map(|maps| maps.lines().filter(|line| line.contains("memfd:m3-trace")).count())
        .sum()
}

#[test]
fn wrong_vms_and_files_are_refused_and_an_empty_trace_says_so() {
    let fixture = Fixture::with_vm("shop");
    let nobody = fixture.run(&["trace", "nowhere", "--for", "0.01"]);
    assert!(nobody.code == FAILED && nobody.err.contains("no VM"), "{}", nobody.err);
    let file = fixture.run(&["trace", "shop", "--out", "calls.txt"]);
    assert!(file.code == USAGE && file.err.contains(".pcapng"), "{}", file.err);
    let quiet = fixture.run(&["trace", "shop", "--for", "0.01"]);
    assert!(quiet.code == OK && quiet.out.contains("no messages"), "{}", quiet.out);
}
