//! A daemon of another version: the library says so, and names both.

use m3ipc::Node;
use m3ipc_abi::Code;
use m3ipc_test_fixture::watchdog;
use m3ipc_wire::{FromDaemon, Refusal, Reply, Request, VERSION};
use std::os::fd::AsFd;
use std::path::PathBuf;

struct RuntimeDirectory(PathBuf);

impl RuntimeDirectory {
    fn new(name: &str) -> Self {
        watchdog(60);
        let path = std::env::temp_dir().join(format!("m3-test-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }
}

impl Drop for RuntimeDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Takes one connection after the other, and does this with each.
fn listen(directory: &RuntimeDirectory, each: impl Fn(std::os::fd::OwnedFd) + Send + 'static) {
    let listener =
        m3ipc_sys::listen(&directory.0.join(m3ipc_wire::SOCKET_NAME), 0o600).expect("a socket");
    std::thread::spawn(move || {
        while m3ipc_sys::wait_readable(&[listener.as_fd()], u64::MAX) == Ok(true) {
            if let Ok(socket) = m3ipc_sys::accept(&listener) {
                each(socket);
            }
        }
    });
}

fn names_this_process(why: &str) -> bool {
    let program = std::env::args().next().expect("a test has a name");
    why.contains(&format!("pid {}", std::process::id())) && why.contains(&program)
}

#[test]
fn a_daemon_that_refuses_the_version_is_named_with_both_versions() {
    let directory = RuntimeDirectory::new("older");
    listen(&directory, |socket| {
        let mut buffer = [0; 64];
        let _ = m3ipc_sys::wait_readable(&[socket.as_fd()], u64::MAX);
        let packet =
            m3ipc_sys::receive_packet(&socket, &mut buffer, false, false).expect("a hello");
        assert!(matches!(
            m3ipc_wire::decode(&buffer[..packet.bytes]),
            Ok(Request::Hello { version: VERSION })
        ));
        let why = format!("this daemon speaks version 77, the library {VERSION}");
        let refusal = Refusal { code: Code::Version.number(), why };
        let frame = m3ipc_wire::encode(&FromDaemon::Reply(Reply::Refused(refusal)));
        m3ipc_sys::send_packet(&socket, &frame, &[], false).expect("it listens");
    });
    let error = Node::find(&directory.0).expect_err("another version");
    assert_eq!(error.code(), Code::Version, "{error}");
    assert!(error.why().contains("77") && error.why().contains(&VERSION.to_string()), "{error}");
    assert!(names_this_process(error.why()), "{error}");
}

#[test]
fn a_daemon_with_unknown_frames_is_named_too() {
    let directory = RuntimeDirectory::new("strange");
    listen(&directory, |socket| {
        let _ = m3ipc_sys::wait_readable(&[socket.as_fd()], u64::MAX);
        m3ipc_sys::send_packet(&socket, &[0xff; 40], &[], false).expect("it listens");
    });
    let error = Node::find(&directory.0).expect_err("another version");
    assert_eq!(error.code(), Code::Version, "{error}");
    assert!(names_this_process(error.why()), "{error}");
}

#[test]
fn a_daemon_that_hangs_up_at_every_hello_is_named() {
    let directory = RuntimeDirectory::new("silent");
    listen(&directory, drop);
    let error = Node::find(&directory.0).expect_err("it closes");
    assert_eq!(error.code(), Code::DrvsInit, "{error}");
    assert!(names_this_process(error.why()) && error.why().contains("version"), "{error}");
}

#[test]
fn what_a_daemon_says_before_it_hangs_up_is_heard() {
    let directory = RuntimeDirectory::new("hasty");
    // It does not read the hello, which may come too late.
    listen(&directory, |socket| {
        let refusal = Refusal { code: Code::NoMem.number(), why: "no room".to_owned() };
        let frame = m3ipc_wire::encode(&FromDaemon::Reply(Reply::Refused(refusal)));
        let _ = m3ipc_sys::send_packet(&socket, &frame, &[], false);
    });
    for _ in 0..500 {
        let error = Node::find(&directory.0).expect_err("no room");
        assert_eq!((error.code(), error.why()), (Code::NoMem, "no room"));
    }
}
