//! TCP acknowledges late where answers come through a ring: the end that still sends through the
//! kernel must not wait for it.
#![allow(unsafe_code, clippy::unwrap_used)]

#[path = "processes/end.rs"]
#[allow(dead_code)]
mod end;

use end::End;
use m3ipc_shim::counters::{self, Counter};
use m3ipc_shim::kernel::socket::{option, set_option};
use m3ipc_shim::prepare;
use m3ipc_shim::settings::Settings;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

fn trip(from: &End, to: &End) {
    let mut got = [0; 10];
    from.send_all(b"some bytes").unwrap();
    to.receive_all(&mut got).unwrap();
    assert_eq!(&got, b"some bytes");
}

fn nodelay(end: &End) -> i32 {
    option(end.fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY).unwrap()
}

/// One end answers in the kernel (its program corked the socket for a while, as a switch needs it).
/// From the peer's first bytes in a ring on, it sends at once.
#[test]
fn an_end_that_answers_through_the_kernel_sends_at_once() {
    let home = std::env::temp_dir().join(format!("m3-answers-{}", std::process::id()));
    std::fs::create_dir_all(&home).unwrap();
    // SAFETY: the only thread that looks at the environment.
    unsafe { std::env::set_var("M3_RUNTIME_DIR", &home) };
    prepare(Settings {
        ring_bytes: 4096,
        upgrade_after_calls: 0,
        always_wake: false,
        spin_ns: 0,
        same_process: true,
        pins_bulk: false,
        rests: false,
        by_message: false,
        on: true,
    });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let server = listener.accept().unwrap().0;
    let (client, server) = (End::new(client.into(), true), End::new(server.into(), true));
    let cork = |value| {
        set_option(server.fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CORK, value).unwrap();
    };
    trip(&client, &server);
    trip(&server, &client);
    // A corked socket does not switch.
    cork(1);
    while counters::read(Counter::RingBytes) == 0 {
        trip(&client, &server);
    }
    assert_eq!(counters::read(Counter::Upgrades), 1, "the client's direction alone");
    cork(0);
    assert_eq!(nodelay(&server), 0);
    server.send_all(b"some bytes").unwrap();
    assert_eq!(nodelay(&server), 1);
    let socket = server.socket.unwrap();
    assert_eq!(socket.latency_option(libc::TCP_NODELAY, None), Some(0), "as the program set it");
    let _ = std::fs::remove_dir_all(&home);
}
