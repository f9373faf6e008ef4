//! Connections over loopback: both backends do what the traits promise, whatever the peer does.
//!
//! Tests give the time, so a limit of seconds passes at once. They wait for bytes, never for time.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use m3ipc_proxy::NodeName;
use m3ipc_proxy::keys::{self, NodeKeys};
use m3ipc_proxy::transport::frames::FrameError;
use m3ipc_proxy::transport::plain::Plain;
use m3ipc_proxy::transport::tls::Tls;
use m3ipc_proxy::transport::{
    Connection, End, Limits, Listener, Reason, SendError, Sent, Transport,
};

const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

fn limits() -> Limits {
    Limits { frame_bytes: 64 << 10, output_bytes: 128 << 10, ..Limits::default() }
}

fn node(name: &str) -> NodeName {
    NodeName::new(name).expect("a test uses valid names")
}

/// Keys in a directory that the drop removes.
struct Keys(PathBuf);

impl Keys {
    fn new(test: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("m3-proxy-{}-{test}", std::process::id()));
        keys::make(&directory, &[node("a"), node("b"), node("c")]).expect("keys can be made");
        Self(directory)
    }

    fn tls(&self, name: &str) -> Tls {
        let keys = NodeKeys::read(&self.0, &node(name)).expect("the keys exist");
        Tls::new(keys, limits()).expect("the keys belong together")
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn plain(name: &str) -> Plain {
    Plain::without_security(node(name), limits())
}

/// Both sides of a connection, while it begins.
struct Pair {
    client: Box<dyn Connection>,
    server: Box<dyn Connection>,
    now: Instant,
}

/// What a side finds within many turns.
type Found = Result<Option<Vec<u8>>, End>;

fn turn(side: &mut dyn Connection, now: Instant) -> Found {
    Ok(side.receive(now)?.map(Into::into))
}

fn accept(listener: &mut dyn Listener, now: Instant) -> Box<dyn Connection> {
    loop {
        if let Some(connection) = listener.accept(now).expect("the listener works") {
            return connection;
        }
    }
}

impl Pair {
    fn begin(a: &dyn Transport, b: &dyn Transport, expected: &str) -> Self {
        let now = Instant::now();
        let mut listener = b.listen(LOOPBACK.into()).expect("loopback works");
        let at = listener.address().expect("it is bound");
        let client = a.connect(&node(expected), at, now).expect("a socket is free");
        let server = accept(&mut *listener, now);
        Self { client, server, now }
    }

    /// Turns until both sides know each other.
    fn met(a: &dyn Transport, b: &dyn Transport) -> Self {
        let mut pair = Self::begin(a, b, "b");
        while pair.client.peer().is_none() || pair.server.peer().is_none() {
            assert_eq!(turn(&mut *pair.client, pair.now), Ok(None));
            assert_eq!(turn(&mut *pair.server, pair.now), Ok(None));
        }
        pair
    }

    /// Turns until the server finds something; the client keeps what it finds.
    fn until_server(&mut self) -> Result<Vec<u8>, End> {
        loop {
            let _ = turn(&mut *self.client, self.now);
            if let Some(frame) = turn(&mut *self.server, self.now)? {
                return Ok(frame);
            }
        }
    }

    fn until_client_ends(&mut self) -> End {
        loop {
            let _ = turn(&mut *self.server, self.now);
            if let Err(end) = turn(&mut *self.client, self.now) {
                return end;
            }
        }
    }

    fn until_server_ends(&mut self) -> End {
        loop {
            let _ = turn(&mut *self.client, self.now);
            if let Err(end) = turn(&mut *self.server, self.now) {
                return end;
            }
        }
    }
}

/// The same test with both backends.
fn with_both(test: &str, check: impl Fn(&dyn Transport, &dyn Transport)) {
    let keys = Keys::new(test);
    check(&keys.tls("a"), &keys.tls("b"));
    check(&plain("a"), &plain("b"));
}

#[test]
fn frames_arrive_in_order_and_names_are_known() {
    with_both("order", |a, b| {
        let mut pair = Pair::met(a, b);
        assert_eq!(pair.client.peer(), Some(&node("b")));
        assert_eq!(pair.server.peer(), Some(&node("a")));
        for number in 0..2_000_u32 {
            let mut frame = number.to_le_bytes().to_vec();
            frame.resize(4 + (number as usize * 37) % 9_000, 7);
            assert_eq!(pair.client.send(&frame, &[], pair.now), Ok(Sent::Taken));
            assert_eq!(pair.until_server(), Ok(frame));
        }
    });
}

#[test]
fn a_peer_that_does_not_read_fills_a_bounded_output() {
    with_both("full", |a, b| {
        let mut pair = Pair::met(a, b);
        let mut taken = 0_u32;
        // The peer never reads: sockets and output fill, then each frame is refused.
        while pair.client.send(&[9; 32 << 10], &[], pair.now) == Ok(Sent::Taken) {
            taken += 1;
            assert!(taken < 10_000, "the output has no bound");
        }
        assert!(pair.client.wants_write());
        assert_eq!(pair.client.send(&[9; 32 << 10], &[], pair.now), Ok(Sent::Full));
        // Nothing of it is lost when the peer reads again.
        for _ in 0..taken {
            assert_eq!(pair.until_server().map(|frame| frame.len()), Ok(32 << 10));
        }
        assert_eq!(pair.client.send(&[9; 32 << 10], &[], pair.now), Ok(Sent::Taken));
    });
}

#[test]
fn a_frame_beyond_the_limit_is_the_callers_mistake() {
    with_both("large", |a, b| {
        let mut pair = Pair::met(a, b);
        let (bytes, limit) = ((64 << 10) + 1, 64 << 10);
        let refused = pair.client.send(&vec![1; bytes], &[], pair.now);
        assert_eq!(refused, Err(SendError::TooLarge { bytes, limit }));
        assert_eq!(pair.client.send(&vec![1; limit], &[], pair.now), Ok(Sent::Taken));
        assert_eq!(pair.until_server().map(|frame| frame.len()), Ok(limit));
    });
}

#[test]
fn a_close_tells_its_reason_after_all_frames() {
    with_both("close", |a, b| {
        let mut pair = Pair::met(a, b);
        assert_eq!(pair.client.send(b"last", &[], pair.now), Ok(Sent::Taken));
        pair.client.close(Reason(77));
        assert_eq!(pair.until_server(), Ok(b"last".to_vec()));
        assert_eq!(pair.until_server_ends(), End::Closed(Reason(77)));
        assert_eq!(pair.until_client_ends(), End::ClosedHere(Reason(77)));
        // An end is final.
        assert_eq!(pair.until_server_ends(), End::Closed(Reason(77)));
        let refused = pair.server.send(b"late", &[], pair.now);
        assert_eq!(refused, Err(SendError::Ended(End::Closed(Reason(77)))));
    });
}

#[test]
fn a_reason_is_read_after_a_write_that_failed() {
    let (mut client, mut server, now) = stranger(&plain("b"));
    client.write_all(&[3, 1, 0, 0, b'a']).expect("the server reads");
    while server.peer().is_none() {
        assert_eq!(turn(&mut *server, now), Ok(None));
    }
    // A frame, the reason, and a reset: the peer had not read all that lay before it.
    client.write_all(&[0, 1, 0, 0, 9, 2, 2, 0, 0, 7, 0]).expect("the server has room");
    let at_once = Some(Duration::ZERO);
    rustix::net::sockopt::set_socket_linger(&client, at_once).expect("it is a socket");
    drop(client);
    for _ in 0..2 {
        let _ = server.send(b"late", &[], now);
        server.flush();
    }
    assert_eq!(turn(&mut *server, now), Ok(Some(vec![9])));
    assert_eq!(end_of(&mut *server, now), End::Closed(Reason(7)));
}

#[test]
fn a_died_peer_is_an_end_without_reason() {
    with_both("died", |a, b| {
        let mut pair = Pair::met(a, b);
        assert_eq!(pair.client.send(b"last", &[], pair.now), Ok(Sent::Taken));
        pair.client.flush();
        let Pair { client, mut server, now } = pair;
        // The kernel closes the sockets of a killed process in the same way.
        drop(client);
        let mut frames = vec![];
        let end = loop {
            match turn(&mut *server, now) {
                Ok(frame) => frames.extend(frame),
                Err(end) => break end,
            }
        };
        assert_eq!(frames, [b"last".to_vec()]);
        assert!(matches!(end, End::Lost(_)), "{end}");
    });
}

#[test]
fn silence_ends_a_connection_and_beats_keep_it() {
    with_both("silence", |a, b| {
        let Pair { mut client, mut server, mut now } = Pair::met(a, b);
        let silence = limits().silence;
        for _ in 0..20 {
            let due = client.deadline().max(server.deadline()).expect("both live");
            assert!(due > now && due - now <= silence / 4 + Duration::from_millis(1));
            now = due;
            assert_eq!(turn(&mut *client, now), Ok(None));
            assert_eq!(turn(&mut *server, now), Ok(None));
            // Loopback delivers at once, but the other side may still need a turn.
            assert_eq!(turn(&mut *client, now), Ok(None));
        }
        // The client stops. The server hears what is under way, then nothing.
        assert_eq!(turn(&mut *server, now), Ok(None));
        now += silence;
        assert_eq!(turn(&mut *server, now), Err(End::Silent(silence)));
    });
}

#[test]
fn a_node_with_another_name_is_refused() {
    with_both("name", |a, b| {
        let mut pair = Pair::begin(a, b, "c");
        match pair.until_client_ends() {
            End::WrongName { expected, found } => {
                assert_eq!((expected, found), (node("c"), node("b")));
            }
            End::Tls(text) => assert!(text.contains("not valid for name"), "{text}"),
            other => panic!("{other}"),
        }
        let end = pair.until_server_ends();
        assert!(matches!(end, End::Lost(_) | End::Tls(_)), "{end}");
    });
}

#[test]
fn a_node_of_another_ca_is_refused_by_either_side() {
    let (ours, theirs) = (Keys::new("ours"), Keys::new("theirs"));
    let mut pair = Pair::begin(&theirs.tls("a"), &ours.tls("b"), "b");
    assert!(matches!(pair.until_client_ends(), End::Tls(_)));
    let end = pair.until_server_ends();
    assert!(matches!(end, End::Lost(_) | End::Tls(_)), "{end}");
    assert_eq!(pair.server.peer(), None);
}

#[test]
fn a_client_with_a_certificate_of_another_ca_stays_unknown() {
    let (ours, theirs) = (Keys::new("server-ca"), Keys::new("client-ca"));
    let read = |keys: &Keys| NodeKeys::read(&keys.0, &node("a")).expect("the keys exist");
    let mixed = NodeKeys { roots: read(&ours).roots, ..read(&theirs) };
    let mixed = Tls::new(mixed, limits()).expect("the keys belong together");
    let mut pair = Pair::begin(&mixed, &ours.tls("b"), "b");
    assert!(matches!(pair.until_server_ends(), End::Tls(_)));
    assert_eq!(pair.server.peer(), None);
    assert!(matches!(pair.until_client_ends(), End::Tls(_) | End::Lost(_)));
}

/// Gives a node a certificate of the same CA that has ended.
fn end_certificate(keys: &Keys, name: &str) {
    let read = |file: &str| std::fs::read_to_string(keys.0.join(file)).expect("the keys exist");
    let pair = |file| rcgen::KeyPair::from_pem(&read(file)).expect("a key");
    let mut ca = rcgen::CertificateParams::new(vec![]).expect("no names");
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
    ca.distinguished_name.push(rcgen::DnType::CommonName, "m3ipc nodes");
    ca.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign, rcgen::KeyUsagePurpose::CrlSign];
    let issuer = rcgen::Issuer::new(ca, pair("ca.key"));
    let mut own = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("a name");
    own.not_after = rcgen::date_time_ymd(2001, 1, 1);
    own.not_before = rcgen::date_time_ymd(2000, 1, 1);
    own.use_authority_key_identifier_extension = true;
    own.key_usages = vec![rcgen::KeyUsagePurpose::DigitalSignature];
    own.extended_key_usages = vec![
        rcgen::ExtendedKeyUsagePurpose::ServerAuth,
        rcgen::ExtendedKeyUsagePurpose::ClientAuth,
    ];
    let ended = own.signed_by(&pair(&format!("{name}.key")), &issuer).expect("it can be made");
    std::fs::write(keys.0.join(format!("{name}.pem")), ended.pem()).expect("a test may write");
}

#[test]
fn an_ended_certificate_is_named_on_both_sides_and_a_new_one_takes_its_place() {
    for ended in ["a", "b"] {
        let keys = Keys::new(&format!("ended-{ended}"));
        let good = std::fs::read(keys.0.join(format!("{ended}.pem"))).expect("the keys exist");
        end_certificate(&keys, ended);
        let (client, server) = (keys.tls("a"), keys.tls("b"));
        let mut pair = Pair::begin(&client, &server, "b");
        // The side that refuses tells the other one, which must not blame the CA.
        let [of_client, of_server] = if ended == "b" {
            let of_client = pair.until_client_ends().to_string();
            [of_client, pair.until_server_ends().to_string()]
        } else {
            let of_server = pair.until_server_ends().to_string();
            [pair.until_client_ends().to_string(), of_server]
        };
        let (refuses, refused) =
            if ended == "b" { (of_client, of_server) } else { (of_server, of_client) };
        assert!(refuses.contains("certificate of the other node has ended"), "{refuses}");
        assert!(refused.contains("certificate of this node has ended"), "{refused}");
        std::fs::write(keys.0.join(format!("{ended}.pem")), good).expect("a test may write");
        let renewed = if ended == "a" { &client } else { &server };
        let read = NodeKeys::read(&keys.0, &node(ended)).expect("the keys exist");
        renewed.replace(read).expect("the keys belong together");
        let pair = Pair::met(&client, &server);
        assert_eq!(pair.client.peer(), Some(&node("b")));
    }
}

#[test]
fn a_client_without_tls_stays_unknown() {
    let keys = Keys::new("plain-to-tls");
    let mut pair = Pair::begin(&plain("a"), &keys.tls("b"), "b");
    let end = pair.until_server_ends();
    assert!(matches!(end, End::Tls(_)), "{end}");
    assert_eq!(pair.server.peer(), None);
}

/// A server with a stranger that writes bare bytes.
fn stranger(transport: &dyn Transport) -> (TcpStream, Box<dyn Connection>, Instant) {
    let now = Instant::now();
    let mut listener = transport.listen(LOOPBACK.into()).expect("loopback works");
    let stream = TcpStream::connect(listener.address().expect("it is bound"));
    let server = accept(&mut *listener, now);
    (stream.expect("it listens"), server, now)
}

fn end_of(server: &mut dyn Connection, now: Instant) -> End {
    loop {
        if let Err(end) = turn(server, now) {
            return end;
        }
    }
}

#[test]
fn garbage_ends_the_connection() {
    let keys = Keys::new("garbage");
    for transport in [&keys.tls("b") as &dyn Transport, &plain("b")] {
        for garbage in [vec![0xff; 4_096], vec![b'\n'; 64], (0..=255).collect(), vec![0x16; 70_000]]
        {
            let (mut stream, mut server, now) = stranger(transport);
            // The server may have closed before the end of the garbage.
            let _ = stream.write_all(&garbage);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let end = end_of(&mut *server, now);
            assert!(
                matches!(end, End::Tls(_) | End::Broken(_) | End::NoName | End::Lost(_)),
                "{end}"
            );
        }
    }
}

#[test]
fn an_oversize_header_ends_the_connection_before_its_bytes_come() {
    let (mut stream, mut server, now) = stranger(&plain("b"));
    stream.write_all(&[3, 1, 0, 0, b'a', 0, 1, 0, 1]).expect("it is open");
    let end = end_of(&mut *server, now);
    let (bytes, limit) = ((64 << 10) + 1, 64 << 10);
    assert_eq!(end, End::Broken(FrameError::Length { kind: 0, bytes, limit }));
}

#[test]
fn data_before_a_name_and_a_second_name_are_refused() {
    let cases: [(&[u8], FrameError); 2] = [
        (&[0, 1, 0, 0, 7], FrameError::Early),
        (&[3, 1, 0, 0, b'a', 3, 1, 0, 0, b'a'], FrameError::Name),
    ];
    for (bytes, error) in cases {
        let (mut stream, mut server, now) = stranger(&plain("b"));
        stream.write_all(bytes).expect("it is open");
        assert_eq!(end_of(&mut *server, now), End::Broken(error));
    }
}

#[test]
fn a_slow_handshake_and_a_slow_frame_have_limits() {
    let keys = Keys::new("slow");
    let Limits { handshake, frame, silence, .. } = limits();
    for transport in [&keys.tls("b") as &dyn Transport, &plain("b")] {
        let (_stream, mut server, now) = stranger(transport);
        assert_eq!(turn(&mut *server, now + handshake / 2), Ok(None));
        let (what, limit) = ("handshake", handshake);
        assert_eq!(end_of(&mut *server, now + handshake), End::TooSlow { what, limit });
    }
    // A byte now and then is no silence, but the frame must end.
    let (mut stream, mut server, mut now) = stranger(&plain("b"));
    stream.write_all(&[3, 1, 0, 0, b'a', 0, 100, 0, 0]).expect("it is open");
    let end = loop {
        let _ = stream.write_all(&[1]);
        now += silence / 10;
        match turn(&mut *server, now) {
            Ok(found) => assert_eq!(found, None),
            Err(end) => break end,
        }
    };
    assert_eq!(end, End::TooSlow { what: "frame", limit: frame });
}

#[test]
fn a_refused_connect_is_an_end() {
    let now = Instant::now();
    let free: SocketAddr = {
        let listener = TcpListener::bind(SocketAddr::from(LOOPBACK)).expect("loopback works");
        listener.local_addr().expect("it is bound")
    };
    let mut client = plain("a").connect(&node("b"), free, now).expect("a socket is free");
    assert_eq!(end_of(&mut *client, now), End::Lost(ErrorKind::ConnectionRefused));
}

#[test]
fn existing_keys_are_never_replaced_and_secrets_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let keys = Keys::new("keys");
    let read = |name: &str| std::fs::read(keys.0.join(name)).expect("it exists");
    let (ca, key) = (read("ca.pem"), read("a.key"));
    assert!(keys::make(&keys.0, &[node("a")]).is_err());
    assert!(keys::make(&keys.0, &[node("d")]).is_ok_and(|written| written.len() == 2));
    assert!(keys::make(&keys.0, &[node("ca")]).is_err());
    assert_eq!((read("ca.pem"), read("a.key")), (ca, key));
    for name in ["ca.key", "a.key"] {
        let mode =
            std::fs::metadata(Path::new(&keys.0).join(name)).map(|it| it.permissions().mode());
        assert_eq!(mode.expect("it exists") & 0o777, 0o600);
    }
    // A node that came later is one of the same CA.
    let mut pair = Pair::begin(&keys.tls("d"), &keys.tls("b"), "b");
    while pair.server.peer().is_none() {
        assert_eq!(turn(&mut *pair.client, pair.now), Ok(None));
        assert_eq!(turn(&mut *pair.server, pair.now), Ok(None));
    }
    assert_eq!(pair.server.peer(), Some(&node("d")));
}

#[test]
fn a_closed_socket_reads_as_ended_for_bare_peers_too() {
    let (mut stream, mut server, now) = stranger(&plain("b"));
    stream.write_all(&[3, 1, 0, 0, b'a']).expect("it is open");
    while server.peer().is_none() {
        assert_eq!(turn(&mut *server, now), Ok(None));
    }
    server.close(Reason(5));
    let mut bytes = vec![];
    stream.read_to_end(&mut bytes).expect("the server closed");
    assert!(bytes.ends_with(&[2, 2, 0, 0, 5, 0]), "{bytes:?}");
}
