//! The program as a person runs it.

use std::collections::BTreeSet;
use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_m3-bench")).args(arguments).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const SHORT: [&str; 8] = ["--quick", "--rounds", "2", "--millis", "2", "--only", "ipc2", "--only"];

#[test]
fn the_json_has_exactly_the_promised_fields() {
    let file = std::env::temp_dir().join(format!("m3-bench-test-{}.json", std::process::id()));
    let path = file.to_string_lossy().into_owned();
    let output = bench(&[&SHORT[..], &["pipe", "--json", &path]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let written = std::fs::read(&file).expect("the file was written");
    std::fs::remove_file(&file).expect("the file can be removed");
    let json: serde_json::Value = serde_json::from_slice(&written).expect("it is JSON");
    let keys = |value: &serde_json::Value| -> BTreeSet<String> {
        value.as_object().expect("an object").keys().cloned().collect()
    };
    let result = &json["results"][0];
    let promised = [
        "test",
        "mechanism",
        "placement",
        "wait",
        "bytes",
        "pairs",
        "p50_ns",
        "p99_ns",
        "p999_ns",
        "max_ns",
        "per_s",
        "cpu_ns_per_op",
        "rounds",
    ];
    assert_eq!(keys(result), promised.map(String::from).into());
    assert_eq!(result["mechanism"], "pipe");
    assert_eq!(result["rounds"], 2);
    assert!(["same-cpu", "two-cpus"].contains(&result["placement"].as_str().expect("a string")));
    assert!(keys(&json["machine"]).contains("mitigations"));
}

#[test]
fn promises_without_results_are_not_measured() {
    let output = bench(&[&SHORT[..], &["bounce", "--promises"]].concat());
    let said = text(&output.stdout);
    assert!(said.contains("P12") && said.contains("not measured"), "{said}");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_table_names_placement_wait_and_floor() {
    let said = text(&bench(&[&SHORT[..], &["sched-yield"]].concat()).stdout);
    assert!(said.contains("same-cpu") && said.contains("yield") && said.contains("floor"), "{said}");
}

#[test]
fn what_matches_nothing_is_told_what_there_is() {
    let output = bench(&["--only", "carrier-pigeon"]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("nothing matches") && said.contains("unix-seqpacket"), "{said}");
}
