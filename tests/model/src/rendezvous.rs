//! The oracle: all verbs of one VM as one deterministic machine.
//!
//! [`Machine::step`] applies one [`Op`] and returns what ended by it: the call
//! itself, if it did not block, and calls of others that it let go on. Nothing
//! is left to chance: a machine that got the same ops is in the same state, so
//! real links can be held against it step by step.
//!
//! ```text
//!            send, sendrec: no receiver                 taken
//!  Running ───────────────────────────> Sending ─────────────────> Running (send)
//!     │                                    │ ^                └──> Awaiting (sendrec)
//!     │ receive, rcvrqst: nothing there    │ └── relay, not taken ──┘ │
//!     └────────────> Receiving ──────────┐ │ expired, signal,         │ any send or reply
//!                                        v v death of the peer        v of the peer
//!                                      Running <──────────────────────┘
//! ```
//!
//! | rule of the contract | where |
//! |---|---|
//! | order of checks | `Machine::step`, `Machine::peer` |
//! | who takes what, receive order | `receive` |
//! | send, sendrec, no-wait, time limit | `send` |
//! | reply, relay | `answer` |
//! | notify, wakeup | `notify` |
//! | death, withdrawal by time or signal | `death` |
//! | deadlock | `Machine::closes_cycle`, [`crate::deadlock`] |
//! | what must always hold | `check` |
//!
//! What it does not do: privileges (see [`crate::tables::Privileges`]), vcopy,
//! VM states, more than one thread in an endpoint's call (-106 is all of that).

mod answer;
mod check;
mod death;
mod machine;
mod notify;
mod op;
mod receive;
mod send;

#[cfg(test)]
mod tests;

pub use check::Violation;
pub use machine::{Fault, Machine, State};
pub use op::{Call, Completion, Fate, Limit, Op, Source};
