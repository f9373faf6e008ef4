//! The data plane: what two endpoints share, and how they wait for each other.
//!
//! ```text
//!   link page (both write)        status page (owner writes, peers see)
//!   hints page (all peers write)  desk page (owner and node daemon write)
//! ```
//!
//! A message is one slot of a link going from EMPTY to FULL to TAKEN
//! ([`slot`]); everything else here is about finding it ([`Hints`],
//! [`Status`]) and about not sleeping through it ([`Pace`]).

mod adaptive_spin;
mod bounce_buffer;
mod control_page;
pub mod copy_gate;
mod link;
pub mod notification;
mod ready_bitmap;
pub mod slot;
mod status;
mod trace;
mod words;

pub use adaptive_spin::{AdaptiveSpin, SpinStep, SpinWait, WaitStrategy};
pub use bounce_buffer::{
    BOUNCE_BUFFER_BYTES, BOUNCE_HALF_BYTES, BounceBuffer, CopyCommand, CopyDirection, CopyOutcome,
    ServedBounceBuffer,
};
pub use control_page::{
    CONTROL_PAGE_BYTES, ControlPage, ControlPageView, Counter, FLAG_ENDED, FLAG_UNBOUND,
    FLAG_WOKEN, LIVENESS_LOCK_OFFSET, Verb, WaitRecord,
};
pub use link::{AnswerOutcome, Arrival, LINK_BYTES, Link, LinkSide, Payload, TakenMessage};
pub use ready_bitmap::{READY_BITMAP_BYTES, READY_BITMAP_LINKS, ReadyBitmap};
pub use slot::{MessageKind, RuleBroken, SlotState};
pub use status::{HOT_SET_MAX, OwnStatus, PeerStatus, STATUS_BYTES, WaitMode};
pub use trace::{
    TRACE_SLOTS, TraceHalf, TraceRecord, TraceRing, TraceView, TraceWhat, trace_bytes,
};
pub use words::{Page, View, Word32, Word64};
