//! The supervisor as process 1 of a PID namespace.

use m3ipc_test_fixture::program;
use m3ipc_test_supervise::VM;
use std::process::{Command, Stdio};

/// Runs in the namespace: starts the supervisor in its place as process 1.
const INSIDE: &str = "exec \"$SUPERVISE\" run services.toml 2>log";
/// Runs as a service in the namespace: looks at it, then ends process 1 in order.
const LOOK: &str = "\
read -r short < short
for i in $(seq 500); do test -e /proc/$short || break; sleep 0.02; done
for stat in /proc/[0-9]*/stat; do
  case $(cat $stat 2>/dev/null) in *') Z '*) cat $stat >> zombies;; esac
done
cat /proc/1/comm > one
\"$SUPERVISE\" services services > list
kill -TERM 1
sleep 1000
";

#[test]
fn process_1_reaps_orphans_and_leaves_nothing() {
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]);
    let probe = unshare.arg("true").stderr(Stdio::null()).status();
    if !probe.is_ok_and(|status| status.success()) {
        println!("SKIP process 1: this machine allows no namespaces");
        return;
    }
    let folder = std::env::temp_dir().join(format!("m3-process-1-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("look"), LOOK).unwrap();
    let service = program("m3-tests-service");
    let services = format!(
        "vm = '{VM}'\n\
         [service.orphan]\nrun = ['{}', 'orphan']\n\
         [service.look]\nrun = ['sh', 'look']\nready = 'start'\nneeds = ['orphan']\n\
         stop-limit = '100ms'\n",
        service.display()
    );
    std::fs::write(folder.join("services.toml"), services).unwrap();
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]);
    unshare.args(["--kill-child", "sh", "-c", INSIDE]).current_dir(&folder);
    unshare.env("M3_RUNTIME_DIR", folder.join("node")).stdin(Stdio::null());
    unshare.env("M3_DAEMON", program("m3-tests-daemon")).env("M3_TESTS_OWNER", "1");
    unshare.env("SUPERVISE", program("m3-tests-supervise"));
    let ended = unshare.status().unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    let log = read("log");
    assert!(ended.success(), "{ended}: {log}");
    assert!(read("one").starts_with("m3-tests-superv"), "{log}");
    assert_eq!(read("zombies"), "", "{log}");
    assert!(read("list").contains("orphan") && read("list").contains("ready"), "{}", read("list"));
    assert!(log.contains("orphan: stopped"), "{log}");
    std::fs::remove_dir_all(&folder).unwrap();
}
