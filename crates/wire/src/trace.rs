//! Tracing: rings of stamped records, from members to one who may look at their VM.
//!
//! ```text
//! tracer                daemon                     member
//!   Begin ------------->  ring made, News::On ----->  maps it
//!   <----------- Done     sealed  <--------- Mapped
//!   <--- News::Ring (the ring, read-only from now on)
//!   End, or its death -->  News::Off -------------->  lets go of it
//! ```

use serde::{Deserialize, Serialize};

/// A request about tracing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TraceRequest {
    /// Traces a VM until the end of this connection: every endpoint that is there or comes gets a ring,
    /// which then comes as news. For the VM's owner and root. Answer: `Done`.
    Begin {
        /// The VM.
        vm: i32,
        /// Records that a ring holds.
        slots: u32,
        /// Whether stamps wait for what comes before them: sharper and dearer.
        sharp: bool,
    },
    /// Ends it. Answer: `Done`.
    End,
    /// After `TraceNews::On`: the member has mapped its ring. No answer.
    Mapped,
}

/// News about tracing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TraceEvent {
    /// To a member: stamp from now on, into the ring that came with this.
    On {
        /// As in `TraceRequest::Begin`.
        sharp: bool,
    },
    /// To a member: stamp no more.
    Off,
    /// To the tracer: the ring of this endpoint, which came with this.
    Ring {
        /// The endpoint.
        address: i32,
        /// Its process.
        pid: i32,
    },
    /// To the tracer: this endpoint has gone. What it wrote stays in its ring.
    Gone {
        /// The endpoint.
        address: i32,
    },
}
