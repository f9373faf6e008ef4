//! A socket that this process made: the kernel is asked for nothing before its sixteenth data call.
//!
//! A file stands in for the socket. Any question to the kernel would show that it is none.
#![allow(clippy::unwrap_used)]

use m3ipc_shim::outcome::Outcome;
use m3ipc_shim::pin::PinReason;
use m3ipc_shim::process::descriptors::{self, Entry};
use m3ipc_shim::process::{forks, policy};
use m3ipc_shim::settings::Settings;
use m3ipc_shim::{counters, lifecycle, prepare, prepare_tables, sockets};
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};

/// A send of the descriptor; whether the call is counted as that of a socket.
fn is_counted(fd: RawFd) -> bool {
    let socket = sockets::find(fd).expect("a descriptor of accept");
    let outcome = socket.kernel_route_of_send().unwrap();
    if let Outcome::Counted(call) = outcome {
        call.end(Ok(1));
    }
    matches!(outcome, Outcome::Counted(_))
}

#[test]
fn the_kernel_is_asked_for_nothing_before_that_pays() {
    prepare_tables();
    policy::store(b"", "unseen", 0).unwrap();
    let settings = Settings::default();
    prepare(settings);
    let file = || File::open("/dev/null").unwrap();
    let (one, other, pinned) = (file(), file(), file());

    let fd = one.as_raw_fd();
    lifecycle::opened_connected(fd);
    for call in 0..settings.upgrade_after_calls {
        assert!(is_counted(fd), "call {call}");
    }
    assert!(!is_counted(fd), "the kernel says that it is no socket");
    assert!(lifecycle::closing(fd));
    lifecycle::closed(fd);
    assert_eq!(descriptors::get(fd), Entry::Unknown);

    let fd = other.as_raw_fd();
    lifecycle::opened_connected(fd);
    assert!(is_counted(fd));
    forks::note();
    assert!(!is_counted(fd), "another process may have it now");

    let fd = pinned.as_raw_fd();
    lifecycle::opened_connected(fd);
    assert!(is_counted(fd));
    let pins = counters::read(counters::Counter::Pins);
    assert!(sockets::pin(fd, PinReason::Option) && !is_counted(fd));
    assert_eq!(counters::read(counters::Counter::Pins), pins + 1);
}
