use super::*;
use m3ipc_wire::REPLY_MAX_BYTES;

/// A control connection, and the daemon's end of it.
pub(super) fn pair(name: &str) -> (Control, OwnedFd) {
    let path = std::env::temp_dir().join(format!("m3-control-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = m3ipc_sys::listen(&path, 0o600).expect("a listener");
    let socket = m3ipc_sys::connect(&path).expect("a connection");
    let daemon = m3ipc_sys::accept(&listener).expect("the connection");
    std::fs::remove_file(&path).expect("own file");
    let control = Control {
        _not_for_children: ParentOnlyFd::new(&socket),
        socket,
        directory: PathBuf::new(),
        limit: RequestLimit::ANSWER,
        events: VecDeque::new(),
        activity: 0,
        closed: false,
        open: OpenRequests::default(),
        returns: Vec::new(),
        late_areas: Vec::new(),
        gate_memory: None,
    };
    (control, daemon)
}

fn died(address: i32) -> Vec<u8> {
    m3ipc_wire::encode(&FromDaemon::Event(DaemonEvent::Died(address)))
}

/// The next request that the daemon reads.
fn next_request(daemon: &OwnedFd) -> Request {
    let mut buffer = [0; 256];
    let packet = m3ipc_sys::receive_packet(daemon, &mut buffer, true, true).expect("a frame");
    m3ipc_wire::decode(&buffer[..packet.bytes]).expect("a request")
}

#[test]
fn the_ticket_of_a_wait_that_was_given_up_goes_back() {
    let (mut control, daemon) = pair("ticket");
    let wait = Request::Await(m3ipc_wire::AwaitedEvent::Name("late".to_owned()));
    let reply = |reply| {
        let frame = m3ipc_wire::encode(&FromDaemon::Reply(reply));
        m3ipc_sys::send_packet(&daemon, &frame, &[], false).expect("room");
    };
    let grant = |ticket| {
        assert_eq!(next_request(&daemon), wait);
        reply(Reply::Wait(ticket));
    };
    // The time limit passes before the reply comes.
    let ended = control.request_until(&wait, 0, &mut stop);
    assert_eq!(ended.expect_err("no reply").code, Code::TimedOut);
    grant(7);
    assert!(control.next_event().expect("it is open").is_none());
    assert_eq!(next_request(&daemon), Request::Forget(7));
    reply(Reply::Done);
    // The future of a wait drops before its reply comes, and after it.
    let early = control.begin(&wait).expect("room");
    control.forget(&early);
    grant(8);
    assert!(control.next_event().expect("it is open").is_none());
    assert_eq!(next_request(&daemon), Request::Forget(8));
    reply(Reply::Done);
    let late = control.begin(&wait).expect("room");
    grant(9);
    assert!(control.next_event().expect("it is open").is_none());
    control.forget(&late);
    assert_eq!(next_request(&daemon), Request::Forget(9));
}

/// The ticket goes back after that reply: replies come in the order of the requests.
#[test]
fn a_late_ticket_takes_no_reply_of_the_next_request() {
    let (mut control, daemon) = pair("late");
    let wait = Request::Await(m3ipc_wire::AwaitedEvent::Name("late".to_owned()));
    let ended = control.request_until(&wait, 0, &mut stop);
    assert_eq!(ended.expect_err("no reply").code, Code::TimedOut);
    // Both replies come while the next request awaits its own.
    for reply in [Reply::Wait(7), Reply::Number(1), Reply::Done] {
        let frame = m3ipc_wire::encode(&FromDaemon::Reply(reply));
        m3ipc_sys::send_packet(&daemon, &frame, &[], false).expect("room");
    }
    let answer = control.request(&Request::NodeInfo).expect("an answer").0;
    assert_eq!(answer, Reply::Number(1));
    assert_eq!((next_request(&daemon), next_request(&daemon)), (wait, Request::NodeInfo));
    assert!(control.next_event().expect("it is open").is_none());
    assert_eq!(next_request(&daemon), Request::Forget(7));
}

#[test]
fn a_frame_without_memory_shifts_no_later_reply() {
    type Ask = fn(&mut Control) -> Result<(Reply, Vec<OwnedFd>), Fail>;
    let asks: [(&str, Ask); 4] = [
        ("plain", |control| control.request(&Request::NodeInfo)),
        ("through", |control| control.request_through(&Request::NodeInfo, u64::MAX)),
        ("unless-stopped", |control| {
            control.request_unless_stopped(&Request::NodeInfo, u64::MAX, &mut go_on)
        }),
        ("while-running", |control| control.request_while_running(&Request::NodeInfo)),
    ];
    for (name, ask) in asks {
        let (mut control, daemon) = pair(name);
        let send = |frame: FromDaemon| {
            let frame = m3ipc_wire::encode(&frame);
            m3ipc_sys::send_packet(&daemon, &frame, &[], false).expect("room");
        };
        send(FromDaemon::Event(DaemonEvent::Died(7)));
        send(FromDaemon::Reply(Reply::Number(1)));
        send(FromDaemon::Reply(Reply::Number(2)));
        frame::shortage::begin(1);
        assert_eq!(ask(&mut control).expect_err("no memory").code, Code::NoMem, "{name}");
        assert_eq!(ask(&mut control).expect("an answer").0, Reply::Number(2), "{name}");
        let event = control.next_event().expect("it is open").expect("an event").0;
        assert_eq!(event, DaemonEvent::Died(7), "{name}");
    }
}

#[test]
fn a_wait_for_a_reply_ends_where_its_frame_finds_no_memory() {
    let (mut control, daemon) = pair("shortage");
    let open = control.begin(&Request::NodeInfo).expect("room");
    let reply = m3ipc_wire::encode(&FromDaemon::Reply(Reply::Number(1)));
    m3ipc_sys::send_packet(&daemon, &reply, &[], false).expect("room");
    frame::shortage::begin(u32::MAX);
    control.wait_until(&open, u64::MAX);
    frame::shortage::begin(0);
    assert!(matches!(control.poll(&open), RequestState::Ended(Ok(Reply::Number(1)))));
}

#[test]
fn an_extent_whose_request_was_given_up_goes_back() {
    let (mut control, daemon) = pair("extent");
    let request =
        Request::Area(AreaRequest::Extent { area: 3, needed: 1, wanted: 1, from_back: false });
    let ended = control.request_until(&request, 0, &mut stop);
    assert_eq!(ended.expect_err("no reply").code, Code::TimedOut);
    control.note_failed_extent(3);
    assert_eq!(next_request(&daemon), request);
    let extent = Extent {
        allocator: 1,
        offset: 8192,
        bytes: 4096,
        first_number: 0,
        numbers: 1,
        generation: 0,
    };
    let reply = FromDaemon::Reply(Reply::Area(AreaReply::Extent(extent)));
    m3ipc_sys::send_packet(&daemon, &m3ipc_wire::encode(&reply), &[], false).expect("room");
    assert!(control.next_event().expect("it is open").is_none());
    let release = AreaRequest::Release { area: 3, offset: 8192 };
    assert_eq!(next_request(&daemon), Request::Area(release));
}

#[test]
fn a_reset_hides_no_event_from_before_it() {
    type Look = fn(&mut Control);
    let looks: [(&str, Look); 3] = [
        ("closed", |control| assert!(control.is_closed())),
        ("event", |_control| {}),
        ("area", |control| assert!(control.take_area_events().is_empty())),
    ];
    for (name, look) in looks {
        let (mut control, daemon) = pair(name);
        for address in [7, 8] {
            m3ipc_sys::send_packet(&daemon, &died(address), &[], false).expect("room");
        }
        // The daemon ends without a look at this request: the kernel reports a reset.
        control.send(&Request::NodeInfo).expect("the daemon's end is open");
        drop(daemon);
        look(&mut control);
        for address in [7, 8] {
            let event = control.next_event().expect("an event").expect("an event").0;
            assert_eq!(event, DaemonEvent::Died(address), "{name}");
        }
        assert!(control.next_event().is_err_and(|fail| fail.code == Code::NotConn));
        assert!(control.is_closed());
    }
}

#[test]
fn frames_of_all_lengths_are_read_whole_and_leave_no_memory_behind() {
    let (mut control, daemon) = pair("lengths");
    for length in [0, 1, 1_000, REPLY_MAX_BYTES - 16] {
        let reply = Reply::Unreachable("x".repeat(length));
        for frame in [died(7), m3ipc_wire::encode(&FromDaemon::Reply(reply.clone()))] {
            m3ipc_sys::send_packet(&daemon, &frame, &[], false).expect("room");
        }
        assert_eq!(control.request(&Request::NodeInfo).expect("an answer").0, reply);
        assert_eq!(next_request(&daemon), Request::NodeInfo);
        let event = control.next_event().expect("it is open").expect("an event").0;
        assert_eq!((event, control.events.capacity()), (DaemonEvent::Died(7), 0));
    }
}
