//! The fixture of the tests of large payloads: a node whose daemon can be killed or stopped,
//! payloads that show any change, and the resources that a process has.

mod payload;
mod resources;

pub use payload::{is_intact, payload};
pub use resources::Resources;

use m3ipc::test::TestNode;
use m3ipc::{Endpoint, PendingRequest, ReceiveError, Received, SendRecError, Source, Timeout};
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::time::{Duration, Instant};

/// The time that a daemon may take until it listens.
const START_LIMIT: Duration = Duration::from_secs(40);
const POLL: Duration = Duration::from_millis(1);

/// The pid of the daemon of a runtime directory, if one has written it.
#[must_use]
pub fn daemon_pid(directory: &Path) -> Option<i32> {
    let text = std::fs::read_to_string(directory.join("lock")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// Sends a signal to the daemon of a node, and returns its pid.
///
/// # Panics
/// If there is no daemon.
pub fn signal_daemon(node: &TestNode, signal: Signal) -> i32 {
    let begun = Instant::now();
    loop {
        let pid = daemon_pid(node.directory());
        let process = pid.and_then(Pid::from_raw);
        if let (Some(pid), Some(process)) = (pid, process)
            && kill_process(process, signal).is_ok()
        {
            return pid;
        }
        assert!(begun.elapsed() < START_LIMIT, "no daemon to send {signal:?}");
        std::thread::sleep(POLL);
    }
}

/// The server takes a pending request of the client. The first contact of the two, or the room for
/// a large payload, may take longer than the begin of the request: then a poll posts the request.
///
/// # Panics
/// If a call fails, or if there is an answer already.
pub fn take_pending(
    server: &mut Endpoint,
    client: &mut Endpoint,
    pending: &mut PendingRequest,
) -> (Received, Vec<u8>) {
    loop {
        match server.receive_bytes(Source::Any, Timeout::NoWait) {
            Err(ReceiveError::WouldBlock(_)) => {}
            received => return received.expect("the server receives"),
        }
        let answer = client.poll_request_bytes(pending).expect("the server lives");
        assert!(answer.is_none(), "an answer before the request was taken");
        std::thread::sleep(POLL);
    }
}

/// The outcome of a request that was begun.
///
/// # Errors
/// As the poll of the request.
pub fn outcome(
    client: &mut Endpoint,
    pending: &mut PendingRequest,
) -> Result<Vec<u8>, SendRecError> {
    loop {
        if let Some((_, answer)) = client.poll_request_bytes(pending)? {
            return Ok(answer);
        }
        std::thread::sleep(POLL);
    }
}

/// Kills the daemon of a node and waits until it is gone. The next call that needs a daemon starts
/// its successor.
///
/// # Panics
/// If there is no daemon.
pub fn kill_daemon(node: &TestNode) {
    let pid = signal_daemon(node, Signal::KILL);
    let gone = || match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Err(_) => true,
        Ok(stat) => stat.rsplit(')').next().is_some_and(|rest| rest.trim().starts_with('Z')),
    };
    while !gone() {
        std::thread::sleep(POLL);
    }
}

/// Ends this process if a test takes longer than the given time, and than five minutes: a lost
/// wake-up must not hang CI, and a loaded machine is slow.
pub fn watchdog(limit: Duration) {
    let limit = limit.max(Duration::from_secs(300));
    std::thread::spawn(move || {
        std::thread::sleep(limit);
        println!("the watchdog ends this test after {limit:?}");
        std::process::exit(97);
    });
}
