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

mod atom;
pub mod berth;
mod desk;
mod hints;
mod link;
mod pace;
pub mod slot;
mod status;
mod trace;
mod window;

pub use atom::{Page, View, Word32, Word64};
pub use desk::{
    Blocked, Counter, DESK_BYTES, DESK_PULSE, Desk, DeskView, FLAG_ENDED, FLAG_UNBOUND, FLAG_WOKEN,
    Verb,
};
pub use hints::{HINTS_BYTES, HINTS_MAX, Hints};
pub use link::{Answer, Arrival, Cargo, Incoming, LINK_BYTES, Link, Side};
pub use pace::{Pace, Patience, Step, Strategy};
pub use slot::{Broken, Kind, State};
pub use status::{Mode, PeerStatus, STATUS_BYTES, Status, WATCH_MAX};
pub use trace::{
    TRACE_SLOTS, TraceHalf, TraceRecord, TraceRing, TraceView, TraceWhat, trace_bytes,
};
pub use window::{Command, HALF_BYTES, Outcome, ServedWindow, WINDOW_BYTES, What, Window};
