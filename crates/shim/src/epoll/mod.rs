//! Epoll sets of this process: what they watch, and waits in them.
//!
//! ```text
//!   wait ── control ── inherited     epoll_wait, epoll_ctl, sets of an earlier program
//!              └── sets ── children  all sets; children by fork
//!                    └── set         slots, marks, the armed poller
//! ```

mod children;
pub mod control;
mod due;
mod inherited;
mod marks;
mod own_poller;
mod self_wake;
pub mod set;
pub mod sets;
mod slot;
mod unarmed;
pub mod wait;
