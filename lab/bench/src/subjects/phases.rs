//! Round trips cut into the phases of the M3K and Fiasco study.
//!
//! ```text
//! T1 prepare   T2 deliver   T3 find the message   T4 handle it: copy, sender
//! T5 the two switches: publish to wake, wake to run, run to read     server: its own work
//! ```
//! Trips without stamps (for the total) and trips with stamps (for the parts) take turns block by
//! block. m3ipc's own path writes its stamps, as for `m3 trace`. Stamps of the kernel's mechanisms
//! stand around their system calls, so the work inside (T3, T4, the switch) is one part. The cost
//! of the stamps is measured in place: the extra time of trips with stamps by the client's clock.

mod kernel;
mod ours;
mod stamps;
mod window;

use crate::subject::Subject;

pub use stamps::{Costs, OURS, record};

/// The subjects, ours first.
pub fn all() -> Vec<&'static dyn Subject> {
    let mut all: Vec<&'static dyn Subject> = vec![&ours::OursInPhases];
    all.extend(kernel::ALL.iter().map(|subject| subject as &dyn Subject));
    all
}
