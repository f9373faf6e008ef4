//! Payloads that are longer than the caller's memory for them: an error, and a message that is
//! taken all the same.

use m3ipc::asynchronous::AsyncEndpoint;
use m3ipc::{Code, Endpoint, Message, ReceiveError, SendRecError, Source};
use m3ipc_test_fixture::{NodeFixture, watchdog};

const LENGTHS: [usize; 3] = [500, 1792, 100_000];

/// A node, a server in slot 1 and a client in slot 2.
fn pair(name: &str) -> (NodeFixture, Endpoint, Endpoint) {
    watchdog(60);
    let fixture = NodeFixture::new(name);
    let vm = fixture.vm(name);
    let server = vm.bind(1).expect("slot 1 is free");
    let client = vm.bind_additional(Some(2)).expect("slot 2 is free");
    (fixture, server, client)
}

/// Checks the error of a payload of this length, and answers its sender.
fn check_cut(server: &mut Endpoint, cut: ReceiveError, bytes: usize, room: usize) {
    assert_eq!(cut.code(), Code::MsgSize);
    let ReceiveError::BufferTooSmall { message, needed_bytes, buffer_bytes, is_request } = cut
    else {
        panic!("{cut}");
    };
    assert_eq!((needed_bytes, buffer_bytes, is_request), (bytes, room, true));
    assert_eq!(message.m_type, 7);
    server.reply(message.source, &Message::new(8)).expect("the client waits");
}

#[test]
fn no_receive_drops_a_payload_without_an_error() {
    for bytes in LENGTHS {
        let (_fixture, mut server, mut client) = pair("receive");
        let to = server.address();
        let client = std::thread::spawn(move || {
            for _ in 0..5 {
                assert_eq!(client.sendrec_bytes(to, 7, &vec![9; bytes], None).unwrap().0.m_type, 8);
            }
        });
        let mut room = [0; 100];
        let cut = server.receive(Source::Any).unwrap_err();
        check_cut(&mut server, cut, bytes, 0);
        let cut = server.receive_long(Source::Any, &mut room, None).unwrap_err();
        check_cut(&mut server, cut, bytes, 100);
        assert_eq!(room, [9; 100], "the front of the payload");
        let cut = server.rcvrqst(&mut room[..10], None).unwrap_err();
        check_cut(&mut server, cut, bytes, 10);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (mut server, cut) = runtime.block_on(async move {
            let mut server = AsyncEndpoint::new(server).unwrap();
            let cut = server.receive(Source::Any).await.unwrap_err();
            (server.into_inner(), cut)
        });
        check_cut(&mut server, cut, bytes, 0);
        let (request, whole) = server.receive_bytes(Source::Any, None).unwrap();
        assert_eq!(whole, vec![9; bytes]);
        server.reply(request.message.source, &Message::new(8)).unwrap();
        client.join().unwrap();
    }
}

#[test]
fn no_request_drops_the_payload_of_its_answer_without_an_error() {
    for bytes in LENGTHS {
        let (_fixture, server, mut client) = pair("sendrec");
        let to = server.address();
        let _thread = m3ipc::test::serve_bytes(server, move |_| vec![9; bytes]);
        let cut = client.sendrec(to, &Message::new(7)).unwrap_err();
        assert_eq!(cut.code(), Code::MsgSize);
        let mut room = [0; 100];
        let cut = client.sendrec_long(to, &Message::new(7), &[], &mut room, None).unwrap_err();
        let SendRecError::BufferTooSmall { needed_bytes, buffer_bytes, is_request, .. } = cut
        else {
            panic!("{cut}");
        };
        assert_eq!((needed_bytes, buffer_bytes, is_request), (bytes, 100, false));
        assert_eq!(room, [9; 100], "the front of the payload");
        assert_eq!(client.sendrec_bytes(to, 7, &[], None).unwrap().1, vec![9; bytes]);
    }
}

/// Between awake endpoints each of these calls takes the fast path, up to the length of a link.
#[test]
fn payloads_of_all_lengths_cross_whole_in_turn() {
    let (_fixture, mut server, mut client) = pair("turns");
    let to = server.address();
    let echo = std::thread::spawn(move || {
        let mut room = [0; 2000];
        loop {
            let received = server.receive_long(Source::Any, &mut room, None).unwrap();
            let source = received.message.source;
            if !received.is_request {
                return server.send_long(source, &Message::new(2), &room[..received.bytes], None);
            }
            let answer = Message { m_type: received.message.m_type + 1, ..received.message };
            server.reply_long(source, &answer, &room[..received.bytes]).unwrap();
        }
    });
    let mut room = [0; 2000];
    // More than the messages between two looks at the clock.
    for number in 0..200 {
        let long: Vec<u8> = (0..=250).cycle().skip(number).take(number * 97 % 1900).collect();
        let request = Message::new(7).with_bytes(&number.to_ne_bytes());
        let (answer, bytes) = client.sendrec_long(to, &request, &long, &mut room, None).unwrap();
        assert_eq!((answer.m_type, answer.payload), (8, request.payload));
        assert_eq!(room[..bytes], long);
        // Nothing of an earlier payload is left.
        let (_answer, whole) =
            client.sendrec_bytes(to, 7, &long[..number.min(long.len())], None).unwrap();
        assert_eq!(whole, long[..number.min(long.len())]);
    }
    client.send_long(to, &Message::new(1), b"the last one", None).unwrap();
    let (received, whole) = client.receive_bytes(to, None).unwrap();
    assert_eq!(
        (received.message.m_type, &whole[..], received.bytes),
        (2, &b"the last one"[..], 12)
    );
    echo.join().unwrap().unwrap();
}

#[test]
fn calls_of_all_lengths_are_answered() {
    let (_fixture, mut server, mut client) = pair("calls");
    let to = server.address();
    let thread = std::thread::spawn(move || server.serve(|call| call.bytes.to_vec()));
    let mut answer = vec![1; 5000];
    for number in 0..200 {
        let bytes: Vec<u8> = (0..=250).cycle().skip(number).take(number * 97 % 1900).collect();
        client.call_into(to, &bytes, &mut answer, None).unwrap();
        assert_eq!(answer, bytes);
    }
    // A server that still runs remembers it, which is no success here.
    let _ = client.wakeup(to);
    thread.join().unwrap().unwrap();
}
