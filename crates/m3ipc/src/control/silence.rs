//! Waits for a silent daemon: why it is silent, and the callers that do not wait for a stopped one.

use super::{Control, OnSignal, answered, go_on, stop};
use crate::daemon;
use crate::error::Fail;
use m3ipc_abi::Code;
use m3ipc_wire::{Reply, Request};
use std::os::fd::OwnedFd;

/// The time limit of a request that the daemon can answer at once.
const SOON_NS: u64 = 200_000_000;
/// The time that a daemon has for an answer before a caller that does not wait checks whether it is
/// stopped.
const STOPPED_CHECK_NS: u64 = 10_000_000;
/// The reason of a silence is read so long before the end of the wait: it is in several files.
const REASON_NS: u64 = 20_000_000;

impl Control {
    /// Why the daemon does not answer in time, and the next step.
    pub(crate) fn why_silent(&self) -> String {
        daemon::silence(&self.directory, &self.socket)
    }

    pub(super) fn silence(&self) -> Fail {
        Fail::new(Code::TimedOut, self.why_silent())
    }

    fn is_stopped(&self) -> bool {
        daemon::is_stopped(&self.directory, Some(&self.socket))
    }

    /// Waits for the reply to a request, and says why there is none. A caller that does not wait
    /// gets this failure soon if the daemon is stopped.
    pub(super) fn answer(&mut self, deadline_ns: u64) -> Result<(Reply, Vec<OwnedFd>), Fail> {
        let is_brief = self.limit.is_brief();
        let first_ns = if is_brief {
            deadline_ns.min(m3ipc_sys::monotonic_ns() + STOPPED_CHECK_NS)
        } else {
            deadline_ns.saturating_sub(REASON_NS)
        };
        if let Some(answer) = self.read_answer_until(first_ns, &mut go_on)? {
            return answered(answer);
        }
        let silence = self.silence();
        let end_ns = if is_brief && self.is_stopped() { first_ns } else { deadline_ns };
        self.answer_until(end_ns, &mut go_on).map_err(|fail| {
            let is_silent = fail.code == Code::TimedOut && !fail.has_details();
            if is_silent { silence } else { fail }
        })
    }

    /// Sends a request and waits for the reply until the deadline or a signal that ends the wait.
    /// If the daemon is stopped, the wait ends soon. A later reply counts as given up.
    pub(crate) fn request_unless_stopped(
        &mut self,
        request: &Request,
        deadline_ns: u64,
        on_signal: OnSignal<'_>,
    ) -> Result<(Reply, Vec<OwnedFd>), Fail> {
        self.send_until(request, deadline_ns)?;
        m3ipc_sys::pause_point("client.contact_requested");
        let check_ns = deadline_ns.min(m3ipc_sys::monotonic_ns() + STOPPED_CHECK_NS);
        if let Some(answer) = self.read_answer_until(check_ns, on_signal)? {
            return answered(answer);
        }
        let end_ns = if self.is_stopped() { check_ns } else { deadline_ns };
        self.answer_until(end_ns, on_signal)
    }

    /// Sends a request in a call that ends at this deadline, with a short limit of its own and
    /// without a wait for a stopped daemon.
    pub(crate) fn request_soon(
        &mut self,
        request: &Request,
        deadline_ns: u64,
    ) -> Result<(Reply, Vec<OwnedFd>), Fail> {
        let soon_ns = m3ipc_sys::monotonic_ns() + SOON_NS;
        self.request_unless_stopped(request, soon_ns.min(deadline_ns), &mut stop)
    }
}

#[cfg(test)]
mod tests {
    use super::super::RequestLimit;
    use super::super::tests::pair;
    use super::*;
    use crate::timeout::Timeout;
    use m3ipc_wire::FromDaemon;
    use std::process::{Child, Command};

    /// A process that stands for the daemon of a directory.
    struct Daemon(Child, std::path::PathBuf);

    impl Daemon {
        fn new(name: &str, is_stopped: bool) -> Self {
            let directory = format!("m3-silence-{}-{name}", std::process::id());
            let directory = std::env::temp_dir().join(directory);
            std::fs::create_dir(&directory).expect("a fresh directory");
            let child = Command::new("sleep").arg("600").spawn().expect("a process");
            let pid = child.id().cast_signed();
            std::fs::write(directory.join("lock"), pid.to_string()).expect("a lock file");
            let daemon = Self(child, directory);
            if is_stopped {
                let process = m3ipc_sys::open_process(pid).expect("it runs");
                m3ipc_sys::signal(&process, m3ipc_sys::Signal::STOP).expect("it runs");
                while m3ipc_sys::is_stopped(pid) != Ok(true) {
                    std::thread::yield_now();
                }
            }
            daemon
        }
    }

    impl Drop for Daemon {
        fn drop(&mut self) {
            let _ = (self.0.kill(), self.0.wait());
            let _ = std::fs::remove_dir_all(&self.1);
        }
    }

    #[test]
    fn a_call_that_does_not_wait_awaits_no_stopped_daemon() {
        let daemon = Daemon::new("stopped", true);
        let (mut control, _socket) = pair("silence-stopped");
        control.directory.clone_from(&daemon.1);
        control.limit = RequestLimit::of(Timeout::NoWait);
        control.send(&Request::NodeInfo).expect("room");
        // Without the check, these calls never end.
        let failed = control.answer(u64::MAX).expect_err("no answer");
        assert_eq!(failed.code, Code::TimedOut);
        let why = failed.why();
        assert!(why.contains("it is stopped"), "{why}");
        let failed = control.request_unless_stopped(&Request::NodeInfo, u64::MAX, &mut stop);
        assert_eq!(failed.expect_err("no answer").code, Code::TimedOut);
    }

    #[test]
    fn a_call_that_does_not_wait_awaits_a_running_daemon() {
        let daemon = Daemon::new("running", false);
        let (mut control, socket) = pair("silence-running");
        control.directory.clone_from(&daemon.1);
        control.limit = RequestLimit::of(Timeout::NoWait);
        let answering = std::thread::spawn(move || {
            let answer = m3ipc_wire::encode(&FromDaemon::Reply(Reply::Done));
            for _request in 0..2 {
                std::thread::sleep(std::time::Duration::from_nanos(2 * STOPPED_CHECK_NS));
                m3ipc_sys::send_packet(&socket, &answer, &[], false).expect("room");
            }
            socket
        });
        control.send(&Request::NodeInfo).expect("room");
        assert_eq!(control.answer(u64::MAX).expect("an answer").0, Reply::Done);
        let answered = control.request_unless_stopped(&Request::NodeInfo, u64::MAX, &mut stop);
        assert_eq!(answered.expect("an answer").0, Reply::Done);
        drop(answering.join());
    }
}
