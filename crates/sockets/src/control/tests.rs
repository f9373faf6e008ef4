use super::*;
use m3ipc_wire::SockKind;

/// A control connection, and the daemon's end of it.
fn control() -> (Control, OwnedFd) {
    let (daemon, socket) = m3ipc_sys::packet_pair().unwrap();
    let control = Control {
        _closed_in_children: ParentOnlyFd::new(&socket),
        socket,
        directory: PathBuf::from("/nonexistent"),
        buffer: vec![0; REPLY_MAX_BYTES].into_boxed_slice(),
        given_up: VecDeque::new(),
    };
    (control, daemon)
}

fn answer(daemon: &OwnedFd, reply: SockReply) {
    let frame = m3ipc_wire::encode(&FromDaemon::Reply(Reply::Sock(reply)));
    m3ipc_sys::send_packet(daemon, &frame, &[], true).unwrap();
}

fn next_request(daemon: &OwnedFd) -> Request {
    let mut buffer = vec![0; REPLY_MAX_BYTES];
    let packet = m3ipc_sys::receive_packet(daemon, &mut buffer, true, false).unwrap();
    m3ipc_wire::decode(&buffer[..packet.bytes]).unwrap()
}

fn bind(port: u16) -> Request {
    Request::Sock(SockRequest::Bind { kind: SockKind::Stream, port })
}

fn info(slot: u16) -> SockConnection {
    SockConnection {
        pair: 9,
        side: 1,
        slot,
        own: (1, 1),
        peer: (2, 2),
        by: (3, 3),
        with_pair: false,
    }
}

fn closed(slot: u16) -> Request {
    Request::Sock(SockRequest::Closed { pair: 9, side: 1, slot })
}

#[test]
fn what_comes_without_its_descriptors_goes_back() {
    let (mut control, daemon) = control();
    let connected = SockReply::Connected(info(4), vec![info(5)]);
    let mut frame = m3ipc_wire::encode(&FromDaemon::Reply(Reply::Sock(connected)));
    // A longer packet counts as truncated, as one that has lost its descriptors.
    control.buffer = vec![0; frame.len()].into_boxed_slice();
    frame.push(0);
    m3ipc_sys::send_packet(&daemon, &frame, &[], true).unwrap();
    let connect = SockRequest::Connect { address: 2, port: 2, from: 0, prepared: 1 };
    let connect = Request::Sock(connect);
    let RequestError::Refused(error) = control.ask(&connect).unwrap_err() else { panic!() };
    assert_eq!(error.errno(), Errno::MFILE);
    assert_eq!([(); 3].map(|()| next_request(&daemon)), [connect, closed(5), closed(4)]);
}

#[test]
fn a_late_answer_is_not_taken_for_that_of_the_next_request() {
    let (mut control, daemon) = control();
    let late = control.ask_within(&bind(0), 1);
    assert!(matches!(late, Err(RequestError::TimedOut(_))), "{late:?}");
    let connect = SockRequest::Connect { address: 2, port: 2, from: 0, prepared: 1 };
    let late = control.ask_within(&Request::Sock(connect.clone()), 1);
    assert!(matches!(late, Err(RequestError::TimedOut(_))), "{late:?}");
    answer(&daemon, SockReply::Port(1001));
    answer(&daemon, SockReply::Connected(info(4), vec![info(5)]));
    answer(&daemon, SockReply::Port(1002));
    let (reply, _) = control.ask(&bind(0)).unwrap();
    assert_eq!(reply, Reply::Sock(SockReply::Port(1002)));
    let requests = [(); 6].map(|()| next_request(&daemon));
    let release = SockRequest::Release { kind: SockKind::Stream, port: 1001 };
    let wanted =
        [bind(0), Request::Sock(connect), bind(0), Request::Sock(release), closed(5), closed(4)];
    assert_eq!(requests, wanted);
}
