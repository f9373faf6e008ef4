//! The program as a user runs it.

use std::collections::BTreeSet;
use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_m3-bench"))
        .args(arguments)
        .output()
        .expect("the program starts")
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
    assert!(
        said.contains("same-cpu") && said.contains("yield") && said.contains("floor"),
        "{said}"
    );
}

#[test]
fn a_missing_library_is_named_with_its_name_and_the_next_step() {
    let words = [&SHORT[..], &["sched-yield", "--with", "zeromq,zenoh"]].concat();
    let mut command = Command::new(env!("CARGO_BIN_EXE_m3-bench"));
    let output = command
        .args(words)
        .env("M3_PEERS", "/nowhere/m3-peers")
        .output()
        .expect("the program starts");
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    for library in ["zeromq", "zenoh"] {
        assert!(
            said.contains(&format!("not measured here: {library}: there is no program m3-peers")),
            "{said}"
        );
    }
    assert!(said.contains("lab/peers/Cargo.toml"), "{said}");
}

#[test]
fn sockets_are_measured_beside_their_floors() {
    let words = [
        "sock",
        "--quick",
        "--rounds",
        "1",
        "--millis",
        "2",
        "--only",
        "sock-trip,sock-stream,sock-connect",
    ];
    for (socket, other) in [("unix-stream", "tcp"), ("tcp", "pipe"), ("memcpy", "unix-stream")] {
        let only = format!("{socket},{other}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_m3-bench"));
        command.args(words).args(["--only", &only]).env("M3_SOCK_LIBRARY", "/nowhere/libm3sock.so");
        let output = command.output().expect("the program starts");
        let said = text(&output.stdout);
        assert!(output.status.success(), "{said}{}", text(&output.stderr));
        assert!(
            said.contains("sock-stream") && said.contains(socket) && said.contains(other),
            "{said}"
        );
        assert!(said.contains("not measured here: shim-unix, shim-tcp"), "{said}");
    }
}

#[test]
fn a_missing_iperf3_is_no_failure() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_m3-bench"));
    command.args(["sock", "--quick", "--rounds", "1", "--only", "sock-bulk"]);
    command.env("M3_IPERF3", "/nowhere/iperf3").env("M3_SOCK_LIBRARY", "/nowhere/libm3sock.so");
    let output = command.output().expect("the program starts");
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    let wanted = "not measured here: sock-bulk iperf3 (block) 128K: there is no program iperf3";
    assert!(said.contains(wanted), "{said}");
    assert!(said.contains("not measured here: shim-unix, shim-tcp, shim-iperf3"), "{said}");
}

#[test]
fn a_name_without_match_is_answered_with_the_known_names() {
    let output = bench(&["--only", "carrier-pigeon"]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("nothing matches") && said.contains("unix-seqpacket"), "{said}");
    let output = bench(&["sock", "--only", "carrier-pigeon"]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("tests of sock") && !said.contains("tests of ipc"), "{said}");
}

#[test]
fn a_run_is_not_slower_than_itself_and_a_slower_run_is_named() {
    let file = std::env::temp_dir().join(format!("m3-bench-compare-{}.json", std::process::id()));
    let slow = file.with_extension("slow.json");
    let path = file.to_string_lossy().into_owned();
    let words = [
        "--quick",
        "--rounds",
        "7",
        "--millis",
        "2",
        "--only",
        "ipc2",
        "--only",
        "pipe,sched-yield",
    ];
    let measured = bench(&[&words[..], &["--json", &path]].concat());
    assert!(measured.status.success(), "{}", text(&measured.stderr));
    let mut json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&file).expect("the file was written"))
            .expect("it is JSON");
    for row in json["samples"].as_array_mut().expect("samples are a list") {
        let rounds = row["rounds"].as_array().expect("rounds are a list").len();
        assert_eq!(rounds, 7, "raw samples of every round");
        if row["mechanism"] == "pipe" {
            for round in row["rounds"].as_array_mut().expect("rounds are a list") {
                for pair in round["samples"].as_array_mut().expect("samples are pairs") {
                    pair[0] = (pair[0].as_u64().expect("a time") * 3).into();
                }
            }
        }
    }
    std::fs::write(&slow, json.to_string()).expect("the file can be written");
    let compare = |a: &std::path::Path, b: &std::path::Path| {
        let [a, b] = [a, b].map(|path| path.to_string_lossy().into_owned());
        bench(&["compare", &a, &b, "--all", "--absolute"])
    };
    let (same, slower) = (compare(&file, &file), compare(&file, &slow));
    std::fs::remove_file(&file).expect("the file can be removed");
    std::fs::remove_file(&slow).expect("the file can be removed");
    assert_eq!(same.status.code(), Some(0), "{}{}", text(&same.stdout), text(&same.stderr));
    assert_eq!(slower.status.code(), Some(1), "{}{}", text(&slower.stdout), text(&slower.stderr));
    assert!(text(&slower.stdout).contains("SLOWER"), "{}", text(&slower.stdout));
}

#[test]
fn a_file_that_is_no_run_is_named() {
    let file = std::env::temp_dir().join(format!("m3-bench-foreign-{}.json", std::process::id()));
    std::fs::write(&file, "{\"a\": 1}").expect("the file can be written");
    let path = file.to_string_lossy().into_owned();
    let output = bench(&["compare", &path, &path]);
    std::fs::remove_file(&file).expect("the file can be removed");
    assert_eq!(output.status.code(), Some(4));
    assert!(text(&output.stderr).contains("is no run of m3 bench"), "{}", text(&output.stderr));
}
