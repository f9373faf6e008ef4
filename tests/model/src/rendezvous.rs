//! The rendezvous machine: all verbs of one VM, without time and chance.
//!
//! [`Machine::step`] applies one [`Op`]. It returns the calls that ended by the step: the call
//! itself, if it did not block, and calls of other endpoints. Equal steps give equal machines, so a
//! test can compare real links with the machine step by step.
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
//! | rule of the contract | place |
//! |---|---|
//! | order of checks | [`Machine::step`], `Machine::check_peer` |
//! | which message a receive takes, and in which order | `receive` |
//! | send, sendrec, no-wait, time limit | `send` |
//! | reply, relay | `answer` |
//! | notify, wakeup, pulses | `notify` |
//! | death, withdrawal by time or signal | `death` |
//! | deadlock | `Machine::deadlock`, [`crate::cycle`] |
//! | invariants | [`Machine::check`] |
//!
//! Limits: no privileges, no vcopy, no VM states, and one call at a time per endpoint (a second
//! call gets -106).

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
pub use notify::PULSES_MAX;
pub use op::{Call, Completion, Fate, Limit, Op, Source};
