//! Writing down what changes, also where the runtime directory is full.
//!
//! Before a request that changes the tables there must be room for its record,
//! else it is refused: nobody is promised what a successor would not know. What
//! must be done all the same (a death) may find no room; then the journal is
//! begun anew as soon as there is some.

use crate::server::{Alarm, Server};
use m3ipc_abi::Code;
use m3ipc_wire::Request;

/// How long until a journal that did not fit is tried again.
const AGAIN_NS: u64 = 100_000_000;

/// Whether a request may change what a successor must know.
fn changes(request: &Request) -> bool {
    matches!(
        request,
        Request::NodeInit(_)
            | Request::VmInit(_)
            | Request::Bind { .. }
            | Request::BindOther { .. }
            | Request::Contact(_)
            | Request::ContactNow(_)
            | Request::Renew(_)
            | Request::NameAttach(_)
            | Request::SetPrivileges { .. }
    )
}

impl Server {
    /// Whether there is room to write down what this request may change; else it is refused.
    pub(crate) fn has_room(&mut self, token: u64, request: &Request) -> bool {
        if !changes(request) {
            return true;
        }
        let Err(cause) = self.journal.reserve() else { return true };
        let directory = self.home.path.display().to_string();
        let why = format!(
            "the runtime directory {directory} has no room for the journal ({cause}); make some"
        );
        self.refuse(token, Code::NoMem, why);
        false
    }

    /// Writes down what has changed; before anybody is told of it.
    pub(crate) fn record(&mut self) {
        let records = self.node.drain_records();
        if records.is_empty() {
            return;
        }
        match self.journal.append(&records) {
            Ok(()) if self.journal.is_long() => self.begin_journal(),
            Ok(()) => {}
            // What follows a torn record would not be read: all of it, or nothing.
            Err(_cause) => self.begin_journal(),
        }
    }

    /// Begins the journal anew: it is long, the tables are others now, or a record did not fit.
    pub(crate) fn begin_journal(&mut self) {
        self.cancel_alarm(Alarm::Journal);
        if let Err(cause) = self.journal.shorten(&self.node.snapshot()) {
            tracing::error!(%cause, "the journal cannot be written: until it can, a successor would know less");
            self.set_alarm(AGAIN_NS, Alarm::Journal);
        }
    }
}
