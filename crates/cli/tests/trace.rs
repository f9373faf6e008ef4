//! `m3 trace`: who called whom, in which phases; who may look; and what stays where a tracer is killed.

mod rig;

use rig::Rig;
use std::process::{Command, Stdio};

const OK: i32 = 0;
const FAILED: i32 = 1;
const USAGE: i32 = 2;

/// A VM with a server that has a name.
fn shop() -> (Rig, rig::Running) {
    let rig = Rig::with_vm("shop");
    let echo = rig.start(&["echo", "shop", "--as", "parrot"]);
    rig.until("the parrot is there", || rig.run(&["ps", "shop"]).out.contains("parrot"));
    (rig, echo)
}

fn call(rig: &Rig, kind: &str) {
    let called = rig.run(&["call", "shop/parrot", "--type", kind, "--timeout", "30000"]);
    assert_eq!(called.code, OK, "{}", called.err);
}

/// The lines of a trace that ended by itself, as JSON; the last is the sum.
fn lines(out: &str) -> Vec<serde_json::Value> {
    out.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|cause| panic!("{cause}: {out}")))
        .collect()
}

#[test]
fn a_trace_names_calls_and_cuts_them_into_phases() {
    let (rig, _echo) = shop();
    let json = rig.base().join("calls.json").to_string_lossy().into_owned();
    let capture = rig.base().join("calls.pcapng").to_string_lossy().into_owned();
    let words = [
        "trace", "shop", "--json", "--count", "3", "--lines", "1000", "--out", &json, "--out",
        &capture,
    ];
    let trace = rig.start(&words);
    // Calls until it has seen enough: those from before it began are none of its.
    let (mut trace, mut calls) = (Some(trace), 0);
    let ended = loop {
        call(&rig, "7");
        calls += 1;
        match trace.take().map(rig::Running::if_ended) {
            Some(Ok(ended)) => break ended,
            Some(Err(running)) => trace = Some(running),
            None => unreachable!("it is put back"),
        }
        assert!(calls < 500, "it has never seen three of {calls} calls");
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
        // Each is rounded to a nanosecond by itself.
        assert!(phases.iter().sum::<u64>().abs_diff(total) <= 8, "{line}");
        // T5 may be nothing: a half that comes late takes no time from who was quicker.
        switched |= phases[4] > 0;
    }
    // Each call is a process of its own that waits for an answer, so of three one at least has switched.
    assert!(switched, "nobody switched: {called:?}");
    assert!(sum["calls"].as_u64() >= Some(3) && sum["broken"] == 0, "{sum}");
    assert!(sum["verbs"]["call"]["p50_ns"].as_u64() > Some(0), "{sum}");
    assert_eq!(sum["pairs"][0]["to"], "parrot", "{sum}");
    assert!(
        sum["stamp_ns"].as_f64() > Some(0.0) && sum["call_cost_ns"].as_f64() > Some(0.0),
        "{sum}"
    );

    let events: Vec<serde_json::Value> =
        serde_json::from_slice(&std::fs::read(&json).expect("the file is there"))
            .expect("Perfetto reads JSON");
    let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    assert!(of("s") >= 6 && of("s") == of("f") && of("X") > of("s"), "flows and slices");
    assert!(events.iter().any(|event| event["name"] == "call parrot type 7"));
    shown_by_wireshark(&capture);
}

/// Wireshark sees the calls by name, where it is installed.
fn shown_by_wireshark(capture: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dist/wireshark/m3ipc.lua");
    let tshark = Command::new("tshark")
        .args(["-X", &format!("lua_script:{script}"), "-r", capture, "-Y", "m3ipc.call_ns"])
        .args(["-T", "fields", "-e", "m3ipc.to_name", "-e", "m3ipc.from_name", "-e", "m3ipc.type"])
        .stdin(Stdio::null())
        .output();
    let Ok(tshark) = tshark else {
        println!("SKIP the capture is not looked at: tshark is not installed");
        return;
    };
    let shown = String::from_utf8_lossy(&tshark.stdout).into_owned();
    let said = String::from_utf8_lossy(&tshark.stderr).into_owned();
    assert!(tshark.status.success(), "{said}");
    assert!(shown.lines().count() >= 3, "{shown}{said}");
    assert!(shown.lines().all(|line| line.split('\t').nth(1) == Some("parrot")), "{shown}");
}

#[test]
fn a_tracer_that_is_killed_leaves_nothing_on() {
    let (rig, _echo) = shop();
    let first = rig.start(&["trace", "shop"]);
    let traced = || mappings_of_rings(&rig);
    rig.until("the parrot has a ring", || traced() > 0);
    let second = rig.run(&["trace", "shop", "--for", "0"]);
    assert!(second.code == FAILED && second.err.contains("traces this VM already"), "{second:?}");
    call(&rig, "1");
    first.kill();
    rig.until("another may", || rig.run(&["trace", "shop", "--for", "0"]).code == OK);
    call(&rig, "2");
    rig.until("the parrot has no ring", || {
        call(&rig, "3");
        traced() == 0
    });
}

/// How many rings the members of the VM have mapped.
fn mappings_of_rings(rig: &Rig) -> usize {
    let members = rig.run(&["ps", "shop", "--json"]).json();
    let members = members[0]["endpoints"].as_array().cloned().unwrap_or_default();
    members
        .iter()
        .filter_map(|member| std::fs::read_to_string(format!("/proc/{}/maps", member["pid"])).ok())
        .map(|maps| maps.lines().filter(|line| line.contains("memfd:m3-trace")).count())
        .sum()
}

#[test]
fn what_cannot_be_traced_is_said() {
    let rig = Rig::with_vm("shop");
    let nobody = rig.run(&["trace", "nowhere", "--for", "0"]);
    assert!(nobody.code == FAILED && nobody.err.contains("no VM"), "{}", nobody.err);
    let file = rig.run(&["trace", "shop", "--out", "calls.txt"]);
    assert!(file.code == USAGE && file.err.contains(".pcapng"), "{}", file.err);
    let quiet = rig.run(&["trace", "shop", "--for", "0"]);
    assert!(quiet.code == OK && quiet.out.contains("nothing was said"), "{}", quiet.out);
}
