//! The tables of one node: VMs, slots, endpoints, names, tickets, privileges, links, areas.
//!
//! The tables are pure: no I/O, no clock, no system call. The daemon passes in the caller's
//! identity, as the kernel reported it, and performs the effects that the tables return.
//!
//! Everything belongs to one [`Node`]. A changing method first checks its arguments. It then
//! expresses its effect as [`Record`]s and applies them; nothing else changes the tables. So the
//! journal cannot differ from the state: [`Node::replay`] of the records gives an equal node.
//!
//! ```text
//! Node ── Vm (id, owner, mode) ── slot ── Endpoint (member, privileges, names)
//!              │                   └ latest address      └ links: index ─ peer
//!              └ Area (members, extents)
//! ```
//!
//! Modules, from the bottom up; an arrow would point to an earlier line:
//!
//! | modules | content |
//! |---|---|
//! | `identity`, `error`, `index_pool`, `serde_abi`, [`deadlock`] | plain types |
//! | `lookup`, `privileges`, `area`, `link_table`, `vm`, `tickets`, `foreign` | single entries |
//! | `record`, `state` | a change, and the state that applies it |
//! | `node` | [`Node`]: checks, commits, read access |
//! | `areas`, `bind`, `links`, `names`, `snapshot`, `stand_ins`, `unbind`, `vms`, `waits` | its operations |
//!
//! Invariants:
//! - A process has at most one process endpoint. Its threads live in the same VM.
//! - The generation of a user slot rises at each bind.
//! - A link is in the tables of both parties, or of neither.
//! - A name belongs to a living endpoint.
//!
//! Limits: the journal has neither tickets nor quotas. A waiter registers again after a takeover,
//! and quotas are configuration.

mod area;
mod area_error;
mod areas;
mod bind;
pub mod deadlock;
mod error;
mod foreign;
mod identity;
mod index_pool;
mod link_table;
mod links;
mod lookup;
mod names;
mod node;
mod privileges;
mod record;
mod reservation;
mod serde_abi;
mod snapshot;
mod stand_ins;
mod state;
mod tickets;
mod unbind;
mod vm;
mod vms;
mod waits;

#[cfg(test)]
mod tests;

pub use area::{
    AREA_ALIGN_BYTES, AREA_LIMIT_MAX_BYTES, AREA_MEMBERS_MAX, Area, AreaMemberState, AreaMembership,
};
pub use area_error::AreaError;
pub use bind::Bound;
pub use error::{
    BindError, Denied, LinkError, LookupError, NameError, PlaceError, PrivError, ReplayError,
    UnbindError, VmError, WaitError,
};
pub use identity::{
    Credentials, MAY_END, Member, MemberId, MemberKind, OWNS_ALL, Rights, VmAccess, VmMode,
    with_capabilities,
};
pub use link_table::LinkedPeer;
pub use links::Link;
pub use lookup::{Holder, check_destination, slot_in_range};
pub use node::{Node, Quota};
pub use privileges::UNRESTRICTED;
pub use record::{NodeTerms, Record};
pub use tickets::TicketId;
pub use unbind::Death;
pub use vm::{Creator, Endpoint, GRACE_DEFAULT_MS, Vm, VmSpec, VmState};
pub use vms::Ending;
pub use waits::Wait;
