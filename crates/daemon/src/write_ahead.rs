//! Write-ahead: the journal gets each change before the daemon reports it to a member. One change
//! needs no record: the end of a process or thread, which a successor sees too. Its peers wait for
//! the report, so the record comes after it.
//!
//! A request that changes the tables needs room for its record. Without room the daemon refuses
//! the request, so that it never promises a state that a successor would not know. A death may
//! find no room either. The daemon then writes a new journal as soon as there is room.

use crate::server::Server;
use crate::state::timers::Timer;
use crate::token::Token;
use m3ipc_abi::Code;
use m3ipc_wire::{AreaAudience, AreaRequest, NodesRequest, Request};

/// The pause before a new attempt to write a journal that did not fit.
const RETRY_NS: u64 = 100_000_000;

/// The most bytes of one extent, member or address in the record of an area.
const AREA_ROW_BYTES: u64 = 32;

/// Whether the daemon reserves room for the record of a request: where its change may be refused.
///
/// Requests that end something need none, as deaths do. A new request must be put on one side.
fn changes_state(request: &Request) -> bool {
    match request {
        Request::NodeInit(_)
        | Request::VmInit(_)
        | Request::VmOpen(_)
        | Request::Bind { .. }
        | Request::BindOther { .. }
        | Request::Contact(_)
        | Request::ContactNow(_)
        | Request::Renew(_)
        | Request::NameAttach { .. }
        | Request::NameReserve { .. }
        | Request::Nodes(NodesRequest::StandIn { .. })
        | Request::SetPrivileges { .. } => true,
        Request::Area(request) => match request {
            AreaRequest::Create(_)
            | AreaRequest::Attach(_)
            | AreaRequest::Mapped(_)
            | AreaRequest::Index { .. }
            | AreaRequest::Extent { .. } => true,
            AreaRequest::Release { .. }
            | AreaRequest::Detach(_)
            | AreaRequest::Recall(_)
            | AreaRequest::Orphaned { .. }
            | AreaRequest::Close(_)
            | AreaRequest::List { .. } => false,
        },
        Request::NodeEnd
        | Request::VmEnd(_)
        | Request::Unbind { .. }
        | Request::Left
        | Request::Move => false,
        Request::Hello { .. }
        | Request::NodeInfo
        | Request::Usage { .. }
        | Request::VmInfo(_)
        | Request::VmFind(_)
        | Request::VmList
        | Request::Mapped
        | Request::MappedNoReply
        | Request::Claim
        | Request::GetEndpoint(_)
        | Request::Await(_)
        | Request::Forget(_)
        | Request::NameLocate(_)
        | Request::Wakeup { .. }
        | Request::GetPrivileges { .. }
        | Request::NotifyFor { .. }
        | Request::Endpoints { .. }
        | Request::Recall(_)
        | Request::OpenDoorbell
        | Request::DoorbellSender(_)
        | Request::IsDeadlock
        | Request::CopyGate { .. }
        | Request::CopyGateReady { .. }
        | Request::Reattach { .. }
        | Request::Notify { .. }
        | Request::Trace(_)
        | Request::Nodes(_)
        | Request::Sock(_) => false,
    }
}

impl Server {
    /// Reserves room for the record of this request; refuses the request if there is none.
    pub(crate) fn reserve_record(&mut self, token: Token, request: &Request) -> bool {
        if !changes_state(request) {
            return true;
        }
        let bytes = self.record_bytes(token, request);
        let Err(cause) = self.journal.reserve(bytes) else { return true };
        let path = self.runtime_directory.path.display();
        let why = match cause.kind() {
            std::io::ErrorKind::FileTooLarge => format!(
                "the limit of file sizes leaves no room for the journal in {path}; start the \
                 daemon where `ulimit -Hf` says unlimited"
            ),
            _ => format!(
                "the runtime directory {path} has no room for the journal ({cause}); free some \
                 space there"
            ),
        };
        self.refuse(token, Code::NoMem, why);
        false
    }

    /// The room that the records of a request need, besides the reserve of each request.
    fn record_bytes(&self, token: Token, request: &Request) -> u64 {
        let area = match request {
            Request::VmInit(_)
            | Request::VmOpen(_)
            | Request::SetPrivileges { .. }
            | Request::Area(AreaRequest::Create(_)) => {
                return m3ipc_wire::encode(request).len() as u64;
            }
            Request::Area(
                AreaRequest::Attach(area)
                | AreaRequest::Mapped(area)
                | AreaRequest::Index { area, .. }
                | AreaRequest::Extent { area, .. },
            ) => *area,
            _ => return 0,
        };
        let entry = self.endpoint_of(token).and_then(|id| self.node.area(id.vm, area).ok());
        let rows = entry.map_or(0, |area| {
            let audience = match &area.params.audience {
                AreaAudience::Set(list) => list.len(),
                AreaAudience::Pair(_) | AreaAudience::Vm => 0,
            };
            area.extents.len() + area.members.len() + audience
        });
        // An attach writes the area twice: the new member, and its state.
        rows as u64 * 2 * AREA_ROW_BYTES
    }

    /// Writes the records of all changes. Call it before any member learns of them.
    pub(crate) fn record(&mut self) {
        let records = self.node.drain_records();
        if records.is_empty() {
            return;
        }
        match self.journal.append(&records) {
            Ok(()) if self.journal.is_long() => self.rewrite_journal(),
            Ok(()) => {}
            // A replay stops at a torn record, so later records would be lost: write a new journal.
            Err(_cause) => self.rewrite_journal(),
        }
    }

    /// Writes a new journal from a snapshot: the old one is long, obsolete, or lacks a record.
    pub(crate) fn rewrite_journal(&mut self) {
        self.sources.cancel_timer(Timer::Journal);
        if let Err(cause) = self.journal.rewrite(&self.node.snapshot()) {
            // Each change of any member tries again.
            if crate::log::admits(u32::MAX) {
                tracing::error!(
                    %cause,
                    "the journal cannot be written, and a successor would miss the last changes; \
                     free some space in the runtime directory"
                );
            }
            self.sources.set_timer(RETRY_NS, Timer::Journal);
        }
    }
}
