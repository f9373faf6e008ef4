//! A user has so many pairs at most. Connections beyond stay in the kernel.
#![allow(unsafe_code, clippy::unwrap_used)]

#[path = "processes/end.rs"]
#[allow(dead_code)]
mod end;

use end::End;
use m3ipc_shim::connection::pairs::PAIRS_MAX;
use m3ipc_shim::counters::{self, Counter};
use m3ipc_shim::prepare;
use m3ipc_shim::settings::Settings;
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// A connection, and the number of its directions that use a ring.
fn upgrades() -> u64 {
    let before = counters::read(Counter::Upgrades);
    let (one, other) = UnixStream::pair().unwrap();
    let [one, other] = [End::new(one.into(), true), End::new(other.into(), true)];
    for _trip in 0..20 {
        for (from, to) in [(&one, &other), (&other, &one)] {
            let mut got = [0; 10];
            from.send_all(b"some bytes").unwrap();
            to.receive_all(&mut got).unwrap();
            assert_eq!(&got, b"some bytes");
        }
    }
    counters::read(Counter::Upgrades) - before
}

#[test]
fn connections_beyond_the_limit_stay_in_the_kernel_until_there_is_room() {
    let home = PathBuf::from(format!("/dev/shm/m3sock-full-{}", std::process::id()));
    std::fs::create_dir(&home).unwrap();
    // SAFETY: the only thread that looks at the environment.
    unsafe { std::env::set_var("M3_RUNTIME_DIR", &home) };
    prepare(Settings { upgrade_after_calls: 0, same_process: true, ..Settings::default() });
    assert_eq!(upgrades(), 2);
    let directory = std::fs::read_dir(&home).unwrap().next().unwrap().unwrap().path();
    let names = (0..2 * PAIRS_MAX).map(|name| directory.join(format!("other-{name}")));
    names.clone().for_each(|name| drop(File::create(name).unwrap()));
    // A server forks a child for each connection: each child counts.
    // SAFETY: the child makes calls of the library, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = i32::try_from(upgrades()).unwrap_or(100);
        // SAFETY: ends the child.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: one integer.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0, "a child makes a pair");
    // The process counts after each few pairs.
    let made = (0..40).filter(|_connection| upgrades() > 0).count();
    assert!(made < 40 && upgrades() == 0, "{made} of 40 connections have pairs");
    names.for_each(|name| std::fs::remove_file(name).unwrap());
    assert_eq!(upgrades(), 2);
    std::fs::remove_dir_all(&home).unwrap();
}
