//! The supervisor of m3ipc: starts services under names, and keeps them running.
//!
//! ```text
//! command ── arguments, dispatch, exit codes
//!   ├ launcher    the process of a service, before it executes its program
//!   ├ services    the client: `m3 services`
//!   └ supervisor  the event loop
//!       ├ requests   what clients ask, and the answers
//!       ├ processes  children: start, signal, reap
//!       ├ systemd    the protocol of sd_notify(3)
//!       └ fleet      all services together (pure)
//!           └ policy    the life of one service (pure)
//! config ── reads the file;  spec: services as the file describes them
//! ```
//!
//! # The design in short
//!
//! - A service is a child of the supervisor. The kernel kills it when the supervisor dies
//!   (`PR_SET_PDEATHSIG`), so a killed supervisor leaves no service behind.
//! - Its death is a SIGCHLD. A hang is a notification that it does not take: each program that
//!   receives takes notifications, so a program needs no code for pings.
//! - A service is ready when it has bound its name or its slot.
//! - Clients call names, or addresses of fixed system slots, which no restart changes.
//!
//! # Limits
//!
//! A process that has left the group of its service gets no signal before the service ends, and is
//! killed then. A program with set-user-ID escapes that. See CAVEATS.md.
#![forbid(unsafe_code)]

pub mod command;
pub mod config;
mod failure;
pub mod fleet;
mod launcher;
mod log;
pub mod policy;
mod processes;
mod requests;
mod services;
pub mod spec;
mod supervisor;
mod systemd;
