//! `m3-bench report` resumes a run that was killed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const ARGUMENTS: [&str; 9] = [
    "--quick",
    "--rounds",
    "2",
    "--millis",
    "20",
    "--only",
    "ipc1,ipc2",
    "--only",
    "sched-yield,bounce",
];

/// A directory that is removed with the test.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn report(arguments: &[&str], out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_m3-bench"));
    command.arg("report").args(arguments).arg("--out").arg(out);
    command
}

#[test]
fn a_killed_run_is_resumed() {
    let path = std::env::temp_dir().join(format!("m3-resume-{}", std::process::id()));
    std::fs::create_dir_all(&path).expect("a directory can be made");
    let directory = Directory(path);
    let out = &directory.0;
    let mut first = report(&ARGUMENTS, out)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let unfinished = out.join("unfinished.json");
    // The time limit of the test run is the only one.
    while !unfinished.exists() && first.try_wait().expect("it has a state").is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = first.kill();
    let _ = first.wait();
    if out.join("bench.json").exists() {
        eprintln!("SKIP: the run was done before it could be killed");
        return;
    }
    let other = report(&["--quick", "--only", "pipe"], out).output().expect("it starts");
    let said = String::from_utf8_lossy(&other.stderr).into_owned();
    assert_eq!(other.status.code(), Some(2), "another command must not resume this run");
    assert!(said.contains("--fresh"), "{said}");
    let second = report(&ARGUMENTS, out).output().expect("it starts");
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(second.status.success() && said.contains("are done already"), "{said}");
    assert!(!unfinished.exists() && out.join("index.html").exists());
    let json = std::fs::read(out.join("bench.json")).expect("it is there");
    let json: serde_json::Value = serde_json::from_slice(&json).expect("it is JSON");
    assert_eq!(json["run"]["resumed"], 1);
    let steps = json["steps"].as_array().expect("steps are a list");
    let mut titles: Vec<&str> = steps.iter().filter_map(|step| step["title"].as_str()).collect();
    let all = titles.len();
    titles.sort_unstable();
    titles.dedup();
    assert_eq!(titles.len(), all, "no step was taken twice");
}
