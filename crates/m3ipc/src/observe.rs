//! Spans and events of the `tracing` crate, behind the feature `tracing`.
//!
//! | name | kind | fields |
//! |---|---|---|
//! | `call` | span | `verb`, `vm`, `endpoint`, `peer`, `outcome` |
//! | `bound`, `unbound` | event | `vm`, `endpoint` |
//! | `contact` | event | `vm`, `endpoint`, `peer`, `outcome` |
//! | `block` | event | `vm`, `endpoint`, `peer`, `area`, `block` |
//! | `death` | event | `vm`, `endpoint`, `peer` |
//!
//! Without the feature every function here is empty and costs nothing.

#[cfg(not(feature = "tracing"))]
mod off;
#[cfg(feature = "tracing")]
mod on;

#[cfg(not(feature = "tracing"))]
pub(crate) use off::{block, bound, call, contact, death, unbound};
#[cfg(feature = "tracing")]
pub(crate) use on::{block, bound, call, contact, death, unbound};
