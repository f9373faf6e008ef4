//! A daemon in the background that a signal ends before it serves.

use m3ipc_daemon::EXIT_KILLED;
use std::process::Command;

#[test]
fn a_start_that_a_signal_ended_has_an_exit_code_of_its_own() {
    let directory = std::env::temp_dir().join(format!("m3-killed-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    // The first write of the daemon to its journal raises SIGXFSZ.
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -c 0; ulimit -f 0; exec \"$0\" --detach --runtime-dir \"$1\""]);
    let output = shell.arg(env!("CARGO_BIN_EXE_m3d")).arg(&directory).output();
    let output = output.expect("a shell");
    let _ = std::fs::remove_dir_all(&directory);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(i32::from(EXIT_KILLED)), "{text}");
    assert!(text.contains("the daemon ended: signal"), "{text}");
}
