//! What the node daemon knows: VMs, slots, names, waits, privileges, links.
//!
//! Everything hangs on one [`Node`]. A changing method checks first, then
//! expresses its effect as one or more [`Record`]s and applies those; nothing
//! else ever changes the tables. So the journal cannot differ from the state,
//! and [`Node::replay`] of the records gives an equal node.
//!
//! ```text
//! Node ── Vm (id, owner, mode) ── slot ── Endpoint (member, privileges, names)
//!                                  └ last address     └ links: index ─ peer
//! ```
//!
//! Invariants: a pid has at most one process endpoint, and its threads live in
//! the same VM; a slot's generation rises at each bind; a link is in the tables
//! of both its parties or of neither; a name belongs to a living endpoint.
//!
//! What it does not do: find out who the caller is (the daemon tells, from what
//! the kernel told it), wait (a [`Wait`] is registered under an opaque token and
//! the token is handed back), serialise (records derive serde, the daemon writes).
//! Waits and quotas are not journalled: who waits must ask again, and the quota is configuration.

mod areas;
mod bind;
mod dense;
mod error;
mod foreign;
mod identity;
mod journal;
mod links;
mod lookup;
mod names;
mod node;
mod privileges;
mod snapshot;
mod unbind;
mod vm;
mod vms;
mod waits;

#[cfg(test)]
mod tests;

pub use areas::{
    AREA_ALIGN_BYTES, AREA_LIMIT_MAX_BYTES, AREA_MEMBERS_MAX, Area, AreaExtent, AreaMemberState,
    AreaMembership, AreaSpec, Audience,
};
pub use bind::Bound;
pub use error::{
    AreaError, BindError, Denied, LinkError, LookupError, NameError, PrivError, ReplayError,
    UnbindError, VmError, WaitError,
};
pub use identity::{Credentials, Member, MemberId, MemberKind, VmMode, Want};
pub use journal::Record;
pub use links::{Link, LinkedPeer};
pub use lookup::{Holder, check_destination, slot_in_range};
pub use node::{Node, Quota};
pub use privileges::{Privileges, SlotSet, Traps, Verb};
pub use unbind::Death;
pub use vm::{Endpoint, VmInfo, VmSpec, VmState};
pub use vms::Ending;
pub use waits::Wait;
