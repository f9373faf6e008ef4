//! Requests to the daemon about areas, within the time limit of the surrounding call.
//!
//! The daemon may be stopped: then the limit ends the wait. It may be gone, or not yet started
//! again: then the request goes to its successor.

use super::Endpoint;
use super::daemon_limit::DaemonLimit;
use crate::error::Fail;
use m3ipc_abi::Code;
use m3ipc_wire::{Reply, Request};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The first and the longest pause while no daemon takes connections. Each attempt may start a
/// process.
const ABSENT_PAUSE: Duration = Duration::from_millis(2);
const ABSENT_PAUSE_MAX: Duration = Duration::from_millis(100);

impl Endpoint {
    /// Sends a request to the daemon, or to its successor if it died, and awaits the reply.
    pub(super) fn ask_within(
        &mut self,
        request: &Request,
        limit: DaemonLimit,
    ) -> Result<(Reply, Vec<OwnedFd>), Fail> {
        let limit = limit.begun();
        self.ask_to_limit(request, limit).map_err(|fail| match fail.code {
            Code::TimedOut => limit.failure(|| self.session.control().why_silent()),
            _ => fail,
        })
    }

    /// The same for a limit that has begun, whose end is [`Code::TimedOut`]: no refusal of the
    /// daemon has that code.
    pub(super) fn ask_to_limit(
        &mut self,
        request: &Request,
        limit: DaemonLimit,
    ) -> Result<(Reply, Vec<OwnedFd>), Fail> {
        let mut pause = ABSENT_PAUSE;
        loop {
            let on_signal = &mut || self.waiter.interruption().by_signal();
            let control = self.session.control_mut();
            let asked = if limit.is_no_wait() {
                control.request_unless_stopped(request, limit.at_ns(), on_signal)
            } else if limit.is_own() {
                control.request_until(request, limit.at_ns(), on_signal)
            } else {
                control.request_through(request, limit.at_ns())
            };
            match asked {
                Err(fail) if fail.code == Code::NotConn && limit.has_passed() => {
                    return Err(if limit.is_own() { Code::TimedOut.into() } else { fail });
                }
                Err(fail) if fail.code == Code::NotConn => {
                    self.find_daemon(limit, pause)?;
                    pause = (2 * pause).min(ABSENT_PAUSE_MAX);
                }
                other => return other,
            }
        }
    }

    /// Sends a request and waits for the reply until this time, or until a signal that ends the
    /// call.
    pub(super) fn request_until(
        &mut self,
        request: &Request,
        deadline_ns: u64,
    ) -> Result<(Reply, Vec<OwnedFd>), Fail> {
        let on_signal = &mut || self.waiter.interruption().by_signal();
        self.session.control_mut().request_until(request, deadline_ns, on_signal)
    }

    /// Connects to the successor of a daemon that is gone, or pauses.
    fn find_daemon(&mut self, limit: DaemonLimit, pause: Duration) -> Result<(), Fail> {
        if limit.is_no_wait() {
            self.reattach_soon();
        } else {
            self.reattach_if_closed();
        }
        self.membership.check_bound()?;
        if self.session.control_mut().is_closed() {
            std::thread::sleep(pause.min(limit.left()));
        }
        Ok(())
    }
}
