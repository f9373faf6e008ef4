//! The supervisor as a program: crashes, hangs, names, order, reload, kills, process 1.
#![allow(clippy::unwrap_used)]

mod kills;
mod namespace;
mod reload;
mod services;
mod systemd;
