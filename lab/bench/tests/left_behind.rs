//! kill -9 of a run leaves no process and no message queue behind.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Polls until `found` gives a value. The time limit of the test run is the only one.
fn until<T>(mut found: impl FnMut() -> Option<T>) -> T {
    loop {
        match found() {
            Some(value) => return value,
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

fn children(of: u32) -> Vec<u32> {
    let listed =
        std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    listed.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// The queue whose last sender is one of these processes.
fn queue_of(pids: &[u32]) -> Option<String> {
    let queues = std::fs::read_to_string("/proc/sysvipc/msg").ok()?;
    queues.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let last_sender = fields.get(5)?.parse().ok()?;
        pids.contains(&last_sender).then(|| fields[1].to_owned())
    })
}

fn queue_is_there(id: &str) -> bool {
    let queues = std::fs::read_to_string("/proc/sysvipc/msg").unwrap_or_default();
    queues.lines().skip(1).any(|line| line.split_whitespace().nth(1) == Some(id))
}

fn is_running(pid: u32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

struct Run(Child);

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_killed_run_leaves_no_process_and_no_queue() {
    let mut run = Run(Command::new(env!("CARGO_BIN_EXE_m3-bench"))
        .args(["--only", "sysv-mq", "--only", "ipc2", "--millis", "60000"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts"));
    let pid = run.0.id();
    let (peers, queue) = until(|| {
        if run.0.try_wait().expect("it can be asked").is_some() {
            return Some((vec![], String::new()));
        }
        let peers = children(pid);
        queue_of(&peers).map(|queue| (peers, queue))
    });
    if peers.is_empty() {
        eprintln!("skipped: this kernel has no System V message queues");
        return;
    }
    run.0.kill().expect("it can be killed");
    until(|| (!peers.iter().any(|&peer| is_running(peer))).then_some(()));
    until(|| (!queue_is_there(&queue)).then_some(()));
}
