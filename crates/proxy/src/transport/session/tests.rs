//! Each session talks to one of rustls' own interface with buffers.

use std::io::{Read, Write};

use super::*;
use crate::keys::{self, NodeKeys};
use crate::transport::Limits;
use crate::transport::frames::Frame;
use crate::transport::tls::Tls;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection as Buffered, ServerConnection};

/// The transports of nodes a and b.
fn pair(test: &str) -> (Tls, Tls) {
    let directory = std::env::temp_dir().join(format!("m3-proxy-{}-{test}", std::process::id()));
    let node = |name: &str| NodeName::new(name).expect("a test uses valid names");
    keys::make(&directory, &[node("a"), node("b")]).expect("keys can be made");
    let tls = |name: &str| {
        let keys = NodeKeys::read(&directory, &node(name)).expect("the keys exist");
        Tls::new(keys, Limits::default()).expect("the keys belong together")
    };
    let both = (tls("a"), tls("b"));
    let _ = std::fs::remove_dir_all(&directory);
    both
}

fn name_of_b() -> ServerName<'static> {
    ServerName::try_from("b").expect("it is a DNS name")
}

/// A session of this proxy, and the other end.
struct Talk {
    own: Session,
    other: Buffered,
    decoder: Decoder,
}

impl Talk {
    fn server(test: &str) -> Self {
        let (a, b) = pair(test);
        let other = ClientConnection::new(a.sides().client, name_of_b()).expect("it is valid");
        let own = UnbufferedServerConnection::new(b.sides().server).expect("it is valid");
        Self::begin(Side::Server(own), other.into())
    }

    fn client(test: &str) -> Self {
        let (a, b) = pair(test);
        let other = ServerConnection::new(b.sides().server).expect("it is valid");
        let own =
            UnbufferedClientConnection::new(a.sides().client, name_of_b()).expect("it is valid");
        Self::begin(Side::Client(own), other.into())
    }

    fn begin(side: Side, other: Buffered) -> Self {
        let own = Session::new(side).expect("a session begins");
        Self { own, other, decoder: Decoder::new(1 << 20) }
    }

    /// The other end's records.
    fn of_other(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.other.wants_write() {
            self.other.write_tls(&mut bytes).expect("a vector takes all bytes");
        }
        bytes
    }

    /// Gives the session bytes, some at a time.
    fn give(&mut self, mut bytes: &[u8], at_once: usize) -> Result<(), End> {
        while !bytes.is_empty() {
            let room = self.own.room();
            let count = room.len().min(at_once).min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
            self.own.open(count, &mut self.decoder)?;
            bytes = &bytes[count..];
        }
        Ok(())
    }

    /// Gives the other end all records of the session. What it reads.
    fn take(&mut self) -> Vec<u8> {
        let records = self.own.records.waiting().to_vec();
        self.own.records.written(records.len());
        let (mut rest, mut plain) = (&records[..], Vec::new());
        while !rest.is_empty() {
            self.other.read_tls(&mut rest).expect("the session is open");
            self.other.process_new_packets().expect("the session is honest");
            let mut part = [0; 4096];
            while let Ok(count) = self.other.reader().read(&mut part)
                && count > 0
            {
                plain.extend_from_slice(&part[..count]);
            }
        }
        plain
    }

    fn shake_hands(&mut self, at_once: usize) {
        for _ in 0..10 {
            self.take();
            let bytes = self.of_other();
            self.give(&bytes, at_once).expect("the other end is honest");
        }
        assert!(!self.own.is_handshaking() && !self.other.is_handshaking());
    }

    fn sealed_by_other(&mut self, plain: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in plain.chunks(32 << 10) {
            self.other.writer().write_all(part).expect("the session takes them");
            bytes.extend(self.of_other());
        }
        bytes
    }
}

/// A frame of bytes that tell their place.
fn frame(bytes: usize) -> (Vec<u8>, Vec<u8>) {
    let data: Vec<u8> = (0..=250).cycle().take(bytes).collect();
    let mut frame = Vec::new();
    Frame::Data(&data).encode(&mut frame);
    (data, frame)
}

#[test]
fn bytes_arrive_whole_however_they_are_cut() {
    for (round, at_once) in [1, 7, 1_000, 5_000, READ_BYTES].into_iter().enumerate() {
        for mut talk in [Talk::server(&format!("s{round}")), Talk::client(&format!("c{round}"))] {
            talk.shake_hands(at_once);
            assert_eq!(talk.own.proven().map(|name| name.is_some()), Ok(true));
            for bytes in [0, 1, 16_384, 16_385, 200_000] {
                let (data, frame) = frame(bytes);
                let records = talk.sealed_by_other(&frame);
                talk.give(&records, at_once).expect("the other end is honest");
                assert_eq!(talk.decoder.next_frame(), Ok(Some(Frame::Data(data.clone().into()))));
            }
        }
    }
}

#[test]
fn the_other_end_reads_what_is_sealed() {
    for mut talk in [Talk::server("reads-s"), Talk::client("reads-c")] {
        talk.shake_hands(READ_BYTES);
        let (_, frame) = frame(300_000);
        let mut read = Vec::new();
        for part in frame.chunks(SEAL_BYTES) {
            assert_eq!(talk.own.advance(None, part), Ok(part.len()));
            read.extend(talk.take());
        }
        assert!(read == frame);
        assert!(talk.own.records.bytes.len() <= 2 * RECORDS_BYTES, "room is used again");
    }
}

#[test]
fn new_keys_of_the_other_end_change_nothing() {
    let mut talk = Talk::server("new-keys");
    talk.shake_hands(READ_BYTES);
    for _ in 0..20 {
        talk.other.refresh_traffic_keys().expect("the session is open");
        let (data, frame) = frame(20_000);
        let records = talk.sealed_by_other(&frame);
        talk.give(&records, 3_000).expect("the other end is honest");
        assert_eq!(talk.decoder.next_frame(), Ok(Some(Frame::Data(data.clone().into()))));
        assert_eq!(talk.own.advance(None, &frame), Ok(frame.len()));
        assert!(talk.take() == frame);
    }
}

#[test]
fn a_changed_record_ends_the_session_with_an_alert() {
    let mut talk = Talk::server("changed");
    talk.shake_hands(READ_BYTES);
    let mut records = talk.sealed_by_other(&frame(100).1);
    records[20] ^= 1;
    assert!(matches!(talk.give(&records, READ_BYTES), Err(End::Tls(_))));
    assert_eq!(talk.decoder.pending_bytes(), 0);
    let mut alert = talk.own.records.waiting();
    assert!(!alert.is_empty());
    talk.other.read_tls(&mut alert).expect("the session is open");
    let told = talk.other.process_new_packets().expect_err("the session has failed");
    assert_eq!(told, Error::AlertReceived(rustls::AlertDescription::BadRecordMac));
}

#[test]
fn an_endless_handshake_is_refused() {
    let mut talk = Talk::server("endless");
    // A client's greeting of 16 MB, of which one part follows another.
    let mut greeting = vec![1, 0xff, 0xff, 0xff];
    greeting.resize(1 << 20, 0);
    let records: Vec<u8> = greeting
        .chunks(1 << 14)
        .flat_map(|part| {
            let length = u16::try_from(part.len()).expect("a record is small").to_be_bytes();
            [&[22, 3, 3], &length[..], part].concat()
        })
        .collect();
    assert!(matches!(talk.give(&records, READ_BYTES), Err(End::Tls(_))));
    assert!(talk.own.input.len() <= INPUT_BYTES);
    let mut talk = Talk::server("small-parts");
    let records: Vec<u8> =
        greeting[..60_000].iter().flat_map(|byte| [22, 3, 3, 0, 1, *byte]).collect();
    assert!(matches!(talk.give(&records, READ_BYTES), Err(End::Tls(_))));
}

#[test]
fn bytes_after_the_end_of_a_session_end_the_connection() {
    let mut talk = Talk::server("after-end");
    talk.shake_hands(READ_BYTES);
    talk.other.send_close_notify();
    let bytes = talk.of_other();
    assert_eq!(talk.give(&bytes, READ_BYTES), Ok(()));
    let end = talk.give(b"more", READ_BYTES);
    assert_eq!(end, Err(End::Lost(ErrorKind::UnexpectedEof)));
}
