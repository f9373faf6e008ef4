//! Tracing: rings of stamped records, from the members of a VM to its tracer.
//!
//! ```text
//! tracer                   daemon                        member
//!   Begin ---------------> makes a ring; On -----------> maps it
//!   <---------------- Done seals it <------------ Mapped
//!   <------ Ring (the ring, read-only from now on)
//!   End, or its death ---> Off ------------------------> unmaps it
//! ```

use serde::{Deserialize, Serialize};

/// A request about tracing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TraceRequest {
    /// Traces a VM until the end of this connection. Each present and later endpoint gets a ring; a
    /// [`TraceEvent::Ring`] brings it. Only the VM's owner and root may trace. Reply: `Done`.
    Begin {
        /// The VM.
        vm: i32,
        /// Records per ring.
        slots: u32,
        /// Whether a stamp waits for earlier instructions. It is then more exact and more costly.
        sharp: bool,
    },
    /// Ends tracing. Reply: `Done`.
    End,
    /// After [`TraceEvent::On`]: the member has mapped its ring, or cannot. No reply.
    Mapped,
}

/// An event of tracing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TraceEvent {
    /// To a member: write stamps into the ring of the descriptor beside this event.
    On {
        /// As in [`TraceRequest::Begin`].
        sharp: bool,
    },
    /// To a member: write no more stamps.
    Off,
    /// To the tracer: the ring of this endpoint, in the descriptor beside this event.
    Ring {
        /// The endpoint.
        address: i32,
        /// Its process.
        pid: i32,
    },
    /// To the tracer: this endpoint has gone. Its ring keeps its records.
    Gone {
        /// The endpoint.
        address: i32,
    },
}
