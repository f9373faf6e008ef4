//! The daemon of the tests: `m3d`, built with them.

use clap::Parser;
use std::os::fd::AsFd;
use std::process::ExitCode;

fn main() -> ExitCode {
    // It never outlives its test, however that ends.
    match std::env::var("M3_TESTS_OWNER").ok().and_then(|pid| pid.parse().ok()) {
        // Started by a member in need, it is nobody's child.
        Some(owner) => leave_with(owner),
        None => drop(m3ipc_sys::die_with_parent()),
    }
    m3ipc_daemon::run(&m3ipc_daemon::Args::parse())
}

/// Ends this process when that one has ended.
fn leave_with(owner: i32) {
    let Ok(owner) = m3ipc_sys::open_process(owner) else { std::process::exit(98) };
    std::thread::spawn(move || {
        while m3ipc_sys::wait_readable(&[owner.as_fd()], u64::MAX) != Ok(true) {}
        std::process::exit(98);
    });
}
