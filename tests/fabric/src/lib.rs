//! Several proxies in one process, with a virtual clock, a network and faults, all from one seed.
//!
//! [`run`] gives the machines random verbs and random trouble, heals everything, lets all calls
//! end, and checks the promises of `m3ipc_fabric`:
//! at most once; order per pair; no late delivery; one outcome per call, and a true one; bounded
//! memory; fair shares of users; deaths and notifications are not lost; silence is noticed; a slot
//! has one holder.
#![forbid(unsafe_code)]

mod acts;
mod copies;
mod healing;
mod ledger;
mod moves;
mod network;
mod node;
mod places;
mod shares;
mod world;

pub use world::{Trouble, run};
