//! Epoll sets of this process: what they watch, and waits in them.
//!
//! ```text
//!   wait ── control ── inherited     epoll_wait, epoll_ctl, sets of an earlier program
//!              └── sets ── children  all sets; children by fork
//!                    └── set         slots, marks, the armed poller
//!                         └── lost    bits that a hostile sender cleared
//! ```

mod children;
pub mod control;
mod due;
mod inherited;
mod lost;
mod marks;
mod own_poller;
mod self_wake;
pub mod set;
pub mod sets;
mod sleep_parts;
mod slot;
mod slots;
mod unarmed;
pub mod wait;
