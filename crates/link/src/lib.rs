//! The data plane: the pages that two endpoints share, and the rules of waiting for each other.
//!
//! ```text
//!   link page (both parties write)        status page (owner writes, peers read)
//!   ready bitmap (all peers write)        control page (owner and node daemon write)
//!   bounce buffer (both parties write)    trace ring (owner writes, tracer reads)
//! ```
//!
//! A message is one slot of a link that goes from EMPTY to FULL to TAKEN ([`slot`]). The ready
//! bitmap and the status page let a receiver find it ([`ReadyBitmap`], [`OwnStatus`]). [`waiting`]
//! keeps a waiter from sleeping through it, and [`AdaptiveSpin`] decides when a waiter sleeps at
//! all. [`ends`] says how a message ends that is not answered.
//!
//! All rules are generic over the memory ([`Page`], [`View`]), so that a model checker runs the
//! same steps (`tests/loom.rs`).
#![forbid(unsafe_code)]

mod adaptive_spin;
pub mod armed;
mod bounce_buffer;
mod bounce_layout;
mod control_page;
mod copy_command;
pub mod copy_gate;
pub mod demand;
pub mod ends;
mod head;
pub mod held;
mod layout;
mod link;
mod message;
pub mod notification;
mod pulse_places;
mod ready_bitmap;
mod served_bounce_buffer;
pub mod slot;
mod status;
mod trace_record;
mod trace_ring;
mod trace_view;
mod wait_call;
mod wait_mode;
pub mod waiting;
mod words;

pub use adaptive_spin::{AdaptiveSpin, FastSpin, SpinStep, SpinWait, WaitStrategy};
pub use bounce_buffer::BounceBuffer;
pub use bounce_layout::{BOUNCE_BUFFER_BYTES, BOUNCE_HALF_BYTES};
pub use control_page::{
    CONTROL_PAGE_BYTES, ControlPage, ControlPageView, Counter, DAEMON_MARK_OFFSET, DaemonMark,
    FLAG_ENDED, FLAG_UNBOUND, FLAG_WOKEN, LIVENESS_LOCK_OFFSET, WaitRecord,
};
pub use copy_command::{CopyCommand, CopyDirection, CopyOutcome};
pub use layout::{LINK_BYTES, LinkSide, PULSES_MAX};
pub use link::{Link, Look, RequestCanceller};
pub use message::{AnswerOutcome, Arrival, Payload, TakenMessage};
pub use ready_bitmap::{READY_BITMAP_BYTES, READY_BITMAP_LINKS, ReadyBitmap};
pub use served_bounce_buffer::ServedBounceBuffer;
pub use slot::{
    Cancelled, Held, MessageFate, MessageKind, RuleBroken, SlotRefusal, SlotState, Withdrawing,
};
pub use status::{HOT_SET_MAX, OwnStatus, PRIORITY_MAX, PeerStatus, STATUS_BYTES};
pub use trace_record::{TraceHalf, TraceRecord, TraceWhat};
pub use trace_ring::{TRACE_SLOTS, TraceRing, trace_bytes};
pub use trace_view::TraceView;
pub use wait_call::WaitCall;
pub use wait_mode::{WaitMode, WakeAction};
pub use words::{LinePage, Page, View, Word32, Word64};
