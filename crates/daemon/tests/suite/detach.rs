//! `m3d --detach`: its answer is true.

use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a process of this number lives and has this word on its command line.
fn runs(pid: &str, word: &str) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).contains(word)
}

/// Stops the daemon of a directory as soon as it runs; its number.
fn stop_daemon_of(directory: &str, is_over: &AtomicBool) -> Option<Pid> {
    while !is_over.load(Ordering::Relaxed) {
        for entry in std::fs::read_dir("/proc").expect("/proc is there").flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if runs(&name, directory) && !runs(&name, "--detach") {
                let pid = name.parse().ok().and_then(Pid::from_raw)?;
                return kill_process(pid, Signal::STOP).is_ok().then_some(pid);
            }
        }
    }
    None
}

#[test]
fn a_daemon_that_does_not_serve_in_time_is_ended() {
    // It may serve before it is stopped. Then another one must do.
    let is_ended = (0..100).any(|round| {
        let folder = std::env::temp_dir().join(format!("m3-detach-{}-{round}", std::process::id()));
        let directory = folder.to_str().expect("a plain path");
        std::fs::DirBuilder::new().mode(0o700).create(&folder).expect("a new folder");
        let is_over = AtomicBool::new(false);
        let (detached, stopped) = std::thread::scope(|scope| {
            let stopper = scope.spawn(|| stop_daemon_of(directory, &is_over));
            let detached = Command::new(env!("CARGO_BIN_EXE_m3d"))
                .args(["--detach", "--runtime-dir", directory])
                .stdin(Stdio::null())
                .output()
                .expect("m3d is built");
            is_over.store(true, Ordering::Relaxed);
            (detached, stopper.join().expect("no panic"))
        });
        let is_ended = !detached.status.success();
        if is_ended {
            let why = String::from_utf8_lossy(&detached.stderr).into_owned();
            assert!(why.contains("and was ended"), "{why}");
            let pid = why.split("process ").nth(1).and_then(|rest| rest.split(' ').next());
            assert!(!runs(pid.expect(&why), directory), "{why}");
            assert!(m3ipc::Node::find(Path::new(directory)).is_err());
        } else {
            if let Some(pid) = stopped {
                kill_process(pid, Signal::CONT).expect("it is stopped");
            }
            m3ipc::Node::find(Path::new(directory)).and_then(m3ipc::Node::end).expect("it serves");
        }
        let _ = std::fs::remove_dir_all(&folder);
        is_ended
    });
    assert!(is_ended, "each daemon served before it was stopped");
}
