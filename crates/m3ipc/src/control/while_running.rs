//! Requests whose reply waits for other processes: they have no limit while the daemon runs.

use super::{CHECK_NS, Control, IfAbsent, OnSignal, RequestLimit, answered, go_on};
use crate::error::Fail;
use crate::timeout::Timeout;
use m3ipc_abi::Code;
use m3ipc_wire::{Reply, Request};
use std::os::fd::OwnedFd;
use std::time::Duration;

impl Control {
    /// Sends a request whose reply waits for other processes, and awaits it while the daemon runs.
    /// Signals do not end the wait. After a failure, a later reply counts as given up.
    pub(crate) fn request_while_running(
        &mut self,
        request: &Request,
    ) -> Result<(Reply, Vec<OwnedFd>), Fail> {
        self.send(request)?;
        self.answer_while_running(&mut go_on)
    }

    /// As [`request_while_running`](Self::request_while_running), but until a signal
    /// that ends the wait.
    pub(crate) fn request_while_running_or_signal(
        &mut self,
        request: &Request,
        on_signal: OnSignal<'_>,
    ) -> Result<(Reply, Vec<OwnedFd>), Fail> {
        self.send(request)?;
        m3ipc_sys::pause_point("client.contact_requested");
        self.answer_while_running(on_signal)
    }

    fn answer_while_running(
        &mut self,
        on_signal: OnSignal<'_>,
    ) -> Result<(Reply, Vec<OwnedFd>), Fail> {
        loop {
            let check_ns = m3ipc_sys::monotonic_ns() + CHECK_NS;
            if let Some(answer) = self.read_answer_until(check_ns, on_signal)? {
                return answered(answer);
            }
            // A daemon that takes a new connection runs.
            let limit = RequestLimit::of(Timeout::After(Duration::from_nanos(CHECK_NS)));
            if let Err(fail) = Self::connect_within(&self.directory, IfAbsent::Fail, limit) {
                // The daemon may have ended meanwhile, which its connection says.
                if let Some(answer) = self.read_answer()? {
                    return answered(answer);
                }
                self.open.give_up();
                return Err(fail.with_code(Code::TimedOut));
            }
        }
    }
}
