//! Requests whose replies later calls take.

use super::{Control, OpenRequest, RequestState};
use crate::error::Fail;
use m3ipc_wire::Request;
use std::os::fd::AsFd;

impl Control {
    /// Sends a request whose reply a later call takes with [`poll`](Self::poll).
    pub(crate) fn begin(&mut self, request: &Request) -> Result<OpenRequest, Fail> {
        self.send(request)?;
        Ok(self.open.begin())
    }

    /// The state of an open request. Never waits.
    pub(crate) fn poll(&mut self, request: &OpenRequest) -> RequestState {
        while let Ok(true) = self.read_one_event() {}
        self.open.poll(request)
    }

    /// Waits until the open request has its reply, or until this time. Without memory for a frame,
    /// a later [`poll`](Self::poll) takes the reply.
    pub(crate) fn wait_until(&mut self, request: &OpenRequest, deadline_ns: u64) {
        loop {
            let read_all = loop {
                match self.read_one_event() {
                    Ok(true) => {}
                    Ok(false) => break true,
                    Err(_) => break false,
                }
            };
            let left_ns = deadline_ns.saturating_sub(m3ipc_sys::monotonic_ns());
            // A signal ends the wait too.
            if !read_all
                || !self.open.is_open(request)
                || left_ns == 0
                || m3ipc_sys::wait_readable(&[self.socket.as_fd()], left_ns) != Ok(true)
                || self.is_closed()
            {
                return;
            }
        }
    }

    /// Notes that the request for the events of an area has ended without its reply, if it has: the
    /// reply and the events are still to come.
    pub(crate) fn note_open_recall(&mut self) {
        self.open.note_recall();
    }

    /// Whether events of an area that were asked for are still to come.
    pub(crate) fn has_open_recall(&self) -> bool {
        self.open.has_recall()
    }
}
