//! A library of another version: the daemon refuses its greeting, names both versions, and closes.

use m3ipc_abi::Code;
use m3ipc_wire::{FromDaemon, REPLY_MAX_BYTES, Refusal, Reply, Request, SOCKET_NAME, VERSION};
use std::os::fd::{AsFd, OwnedFd};

/// The next frame of the daemon; `None` after it has closed the connection.
fn next_frame(socket: &OwnedFd) -> Option<FromDaemon> {
    let mut buffer = vec![0; REPLY_MAX_BYTES];
    assert_eq!(m3ipc_sys::wait_readable(&[socket.as_fd()], u64::MAX), Ok(true));
    let packet = m3ipc_sys::receive_packet(socket, &mut buffer, false, false).ok()?;
    let frame = buffer.get(..packet.bytes).filter(|frame| !frame.is_empty())?;
    Some(m3ipc_wire::decode(frame).expect("a frame of this version"))
}

#[test]
fn a_library_of_another_version_is_refused_with_both_versions() {
    let node = m3ipc::test::node();
    for version in [VERSION - 1, VERSION + 1] {
        let socket = m3ipc_sys::connect(&node.directory().join(SOCKET_NAME)).expect("a daemon");
        let hello = m3ipc_wire::encode(&Request::Hello { version });
        m3ipc_sys::send_packet(&socket, &hello, &[], false).expect("the daemon reads");
        let Some(FromDaemon::Reply(Reply::Refused(Refusal { code, why }))) = next_frame(&socket)
        else {
            panic!("version {version} is not refused");
        };
        assert_eq!(code, Code::Version.number());
        let named = [VERSION, version].map(|version| format!("version {version}"));
        assert!(named.iter().all(|version| why.contains(version)), "{why}");
        assert_eq!(next_frame(&socket), None);
    }
}
