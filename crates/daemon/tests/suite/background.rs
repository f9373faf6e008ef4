//! A daemon in the background that a signal ends before it serves.

use m3ipc_daemon::EXIT_KILLED;
use std::os::unix::fs::DirBuilderExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// Kills the daemon of a directory as soon as it runs, unless it serves before.
fn kill_daemon_of(directory: &str, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        for entry in std::fs::read_dir("/proc").expect("/proc is there").flatten() {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line);
            let pid = entry.file_name().to_string_lossy().parse();
            if line.contains(directory) && !line.contains("--detach") {
                let daemon = m3ipc_sys::open_process(pid.expect("a process has a number"));
                let _ = daemon.map(|it| m3ipc_sys::signal(&it, m3ipc_sys::Signal::KILL));
                return;
            }
        }
    }
}

#[test]
fn a_start_that_a_signal_ended_has_an_exit_code_of_its_own() {
    // A daemon may serve before it is killed. Then another one must do.
    let is_seen = (0..100).any(|round| {
        let folder = std::env::temp_dir().join(format!("m3-killed-{}-{round}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&folder).expect("a new directory");
        let directory = folder.to_str().expect("a plain path");
        let is_over = AtomicBool::new(false);
        let output = std::thread::scope(|scope| {
            scope.spawn(|| kill_daemon_of(directory, &is_over));
            let mut starter = Command::new(env!("CARGO_BIN_EXE_m3d"));
            starter.args(["--detach", "--runtime-dir", directory]);
            let output = starter.output().expect("m3d is built");
            is_over.store(true, Ordering::Relaxed);
            output
        });
        let _ = std::fs::remove_dir_all(&folder);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            return false;
        }
        assert_eq!(output.status.code(), Some(i32::from(EXIT_KILLED)), "{text}");
        assert!(text.contains("the daemon ended: signal"), "{text}");
        true
    });
    assert!(is_seen, "each daemon served before it was killed");
}
