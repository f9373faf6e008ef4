//! `m3d --detach`: its answer is true.

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Whether a process of this number lives and has this word on its command line.
fn runs(pid: &str, word: &str) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).contains(word)
}

#[test]
fn a_daemon_that_does_not_serve_in_time_is_ended() {
    let folder = std::env::temp_dir().join(format!("m3-detach-{}", std::process::id()));
    let directory = folder.to_str().expect("a plain path");
    std::fs::DirBuilder::new().mode(0o700).create(&folder).expect("a new folder");
    // The daemon waits for the writer of its journal, for ever.
    let made = Command::new("mkfifo").arg(folder.join("journal")).status().expect("mkfifo");
    assert!(made.success());
    let detached = Command::new(env!("CARGO_BIN_EXE_m3d"))
        .args(["--detach", "--runtime-dir", directory])
        .stdin(Stdio::null())
        .output()
        .expect("m3d is built");
    let why = String::from_utf8_lossy(&detached.stderr).into_owned();
    assert!(!detached.status.success() && why.contains("and was ended"), "{why}");
    let pid = why.split("process ").nth(1).and_then(|rest| rest.split(' ').next());
    assert!(!runs(pid.expect(&why), directory), "{why}");
    assert!(m3ipc::Node::find(Path::new(directory)).is_err());
    std::fs::remove_dir_all(&folder).expect("own files");
}
