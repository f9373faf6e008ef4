//! Requests that the proxy of this node decides. It may be stopped, and holds no caller then.
//!
//! | answer in time | after that, the daemon says | so |
//! |---|---|---|
//! | yes | | the answer |
//! | no | that the request is given up | the proxy decides it no more |
//! | no | the answer, which came meanwhile | the answer |
//! | no | nothing: it is stopped too | nobody knows |
//!
//! A request behind a deferred one gives that one up, and answers keep the order of the requests.
//! So the daemon alone decides which of the two came first: the answer, or the end of the wait.

use super::{Control, NO_WAIT_NS, answered, go_on};
use crate::error::Fail;
use crate::timeout::Deadline;
use m3ipc_abi::Code;
use m3ipc_wire::{NodesRequest, Reply, Request};
use std::os::fd::{AsFd, OwnedFd};

/// The time of the proxy for its decision, for a caller without an earlier limit: after so long a
/// silence a node counts as lost, too.
const DECISION_NS: u64 = 3_000_000_000;
/// The longest sleep until the caller is asked whether a signal ends the wait.
const SIGNAL_CHECK_NS: u64 = 1_000_000_000;
/// The time of the daemon to say what became of a request that is given up.
const END_NS: u64 = 1_500_000_000;

/// How a request that the proxy decides has ended.
#[derive(Debug)]
pub(crate) enum Decided {
    /// By this answer.
    Answered(Reply),
    /// The caller has given it up, and it has no effect later. The reason of the silence.
    GivenUp(String),
    /// The daemon is silent, for this reason: nobody knows.
    Unknown(String),
}

impl Control {
    /// Sends a request that the proxy decides, and awaits its end until this deadline and for three
    /// seconds at most. `ends` is asked after each signal and once a second, and ends the wait.
    ///
    /// # Errors
    /// The failure in the answer. [`Code::NotConn`] if the daemon has ended. [`Code::TimedOut`] if
    /// it is stopped and takes no request.
    pub(crate) fn request_decided(
        &mut self,
        request: &Request,
        deadline: Deadline,
        ends: impl FnMut() -> bool,
    ) -> Result<Decided, Fail> {
        let now_ns = m3ipc_sys::monotonic_ns();
        let until_ns = match deadline.no_wait {
            true => now_ns + NO_WAIT_NS,
            false => deadline.at_ns.min(now_ns + DECISION_NS),
        };
        self.give_back();
        self.send_until(request, until_ns)?;
        m3ipc_sys::pause_point("client.decision_asked");
        if let Some(answer) = self.read_decision_until(until_ns, ends)? {
            return answered(answer).map(|(reply, _)| Decided::Answered(reply));
        }
        let end_ns = m3ipc_sys::monotonic_ns() + END_NS;
        let is_asked = self.send_until(&Request::Nodes(NodesRequest::List), end_ns);
        if is_asked.as_ref().is_err_and(|fail| fail.code == Code::NotConn) {
            return is_asked.map(|()| Decided::Unknown(String::new()));
        }
        let end = self.read_answer_until(end_ns, &mut go_on)?;
        let Some((reply, fds)) = end else {
            let why = self.why_silent();
            self.open.give_up();
            if is_asked.is_ok() {
                self.open.give_up();
            }
            return Ok(Decided::Unknown(why));
        };
        let proxy = match is_asked.and_then(|()| self.read_answer_until(end_ns, &mut go_on)) {
            Ok(Some((Reply::OtherNodes { proxy_pid, .. }, _))) => proxy_pid,
            Ok(None) => {
                self.open.give_up();
                None
            }
            // The second request was never sent, or the daemon has ended.
            Ok(Some(_)) | Err(_) => None,
        };
        match reply {
            Reply::Refused(refusal) if refusal.code == Code::TimedOut.number() => {
                Ok(Decided::GivenUp(why_undecided(proxy)))
            }
            reply => answered((reply, fds)).map(|(reply, _)| Decided::Answered(reply)),
        }
    }

    /// Reads an answer; `None` if none has come until the deadline, or until `ends` says so.
    fn read_decision_until(
        &mut self,
        deadline_ns: u64,
        mut ends: impl FnMut() -> bool,
    ) -> Result<Option<(Reply, Vec<OwnedFd>)>, Fail> {
        loop {
            if let Some(answer) = self.read()? {
                return Ok(Some(answer));
            }
            let left_ns = deadline_ns.saturating_sub(m3ipc_sys::monotonic_ns());
            // A signal that comes just before the sleep does not end it.
            let readable =
                m3ipc_sys::wait_readable(&[self.socket.as_fd()], left_ns.min(SIGNAL_CHECK_NS));
            if readable != Ok(true) && (left_ns == 0 || ends()) {
                return Ok(None);
            }
        }
    }
}

/// Why the proxy does not decide in time, and the next step.
fn why_undecided(pid: Option<i32>) -> String {
    match pid {
        Some(pid) if m3ipc_sys::is_stopped(pid) == Ok(true) => format!(
            "the proxy (process {pid}) does not answer: it is stopped; continue it with `kill \
             -CONT {pid}`"
        ),
        Some(pid) => {
            format!("the proxy (process {pid}) does not answer in time; try again, or see its log")
        }
        None => "the proxy does not answer in time; try again, or see its log".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::RequestState;
    use super::super::tests::pair;
    use super::*;
    use crate::timeout::Timeout;
    use m3ipc_wire::{FromDaemon, Refusal};
    use std::thread::JoinHandle;
    use std::time::Duration;

    fn answer(socket: &OwnedFd, reply: Reply) {
        let frame = m3ipc_wire::encode(&FromDaemon::Reply(reply));
        m3ipc_sys::send_packet(socket, &frame, &[], false).expect("room");
    }

    /// A daemon that answers to the first request when it has read the second one.
    fn daemon(socket: OwnedFd, first: Reply) -> JoinHandle<OwnedFd> {
        std::thread::spawn(move || {
            for _request in 0..2 {
                m3ipc_sys::wait_readable(&[socket.as_fd()], u64::MAX).expect("no signal comes");
                let read = m3ipc_sys::receive_packet(&socket, &mut [0; 1024], false, true);
                assert!(read.expect("a packet").bytes > 0);
            }
            answer(&socket, first);
            answer(&socket, others());
            socket
        })
    }

    fn given_up() -> Reply {
        Reply::Refused(Refusal { code: Code::TimedOut.number(), why: "given up".to_owned() })
    }

    fn others() -> Reply {
        Reply::OtherNodes { proxy_pid: Some(std::process::id().cast_signed()), list: Vec::new() }
    }

    fn decide(control: &mut Control) -> Result<Decided, Fail> {
        let deadline = Timeout::After(Duration::from_millis(20)).deadline();
        control.request_decided(&Request::Move, deadline, || false)
    }

    /// The next request gets its own answer.
    fn is_in_step(control: &mut Control, socket: &OwnedFd) {
        let next = control.begin(&Request::NodeInfo).expect("room");
        assert!(matches!(control.poll(&next), RequestState::Open));
        answer(socket, Reply::Number(7));
        assert!(matches!(control.poll(&next), RequestState::Ended(Ok(Reply::Number(7)))));
    }

    #[test]
    fn the_daemon_says_which_came_first_the_answer_or_the_end_of_the_wait() {
        for is_answered in [true, false] {
            let (mut control, socket) = pair("decision");
            let daemon = daemon(socket, if is_answered { Reply::Done } else { given_up() });
            match decide(&mut control) {
                Ok(Decided::Answered(Reply::Done)) if is_answered => {}
                Ok(Decided::GivenUp(why)) if !is_answered => assert!(why.contains("process")),
                other => panic!("{other:?}"),
            }
            is_in_step(&mut control, &daemon.join().expect("no panic"));
        }
    }

    #[test]
    fn a_caller_that_is_interrupted_gives_the_request_up() {
        let (mut control, socket) = pair("decision-interrupted");
        let daemon = daemon(socket, given_up());
        let mut asked = 0;
        let ends = || {
            asked += 1;
            asked == 2
        };
        let deadline = Timeout::Never.deadline();
        let decided = control.request_decided(&Request::Move, deadline, ends);
        assert!(matches!(decided, Ok(Decided::GivenUp(_))), "{decided:?}");
        assert_eq!(asked, 2, "it went on once");
        is_in_step(&mut control, &daemon.join().expect("no panic"));
    }

    #[test]
    fn a_silent_daemon_leaves_it_unknown_and_its_late_answers_disturb_no_other_request() {
        let (mut control, socket) = pair("decision-silent");
        let decided = decide(&mut control);
        assert!(matches!(decided, Ok(Decided::Unknown(_))), "{decided:?}");
        answer(&socket, given_up());
        answer(&socket, others());
        is_in_step(&mut control, &socket);
    }
}
