//! Frames: what a train carries. A train is the payload of one message.
//!
//! ```text
//! length u32 | kind u32 | number u64 | body: length bytes      little endian, no padding
//! ```
//!
//! The message itself has the type [`TRAIN`] and the nonce of its sender, which tells a restarted
//! peer from its predecessor at the same address. Everything here comes from a peer: each length is
//! checked against the train.

use m3ipc::Message;

/// The type of the messages that carry trains.
pub(crate) const TRAIN: i32 = 0x4D33_1000;
/// The bytes of the head of a frame.
pub(crate) const HEAD_BYTES: usize = 16;

/// The bytes of a train around the body of its only request: two heads and a deadline.
pub(crate) const AROUND_BYTES: usize = 2 * HEAD_BYTES + 8;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A request: its deadline in nanoseconds of the monotonic clock, 0 for none; then its body.
    Request = 1,
    /// The answer to a request.
    Answer = 2,
    /// A failure as the answer: UTF-8 text.
    Fault = 3,
    /// The request was not begun: one byte of reason.
    Refused = 4,
    /// The client gave the request up.
    Cancel = 5,
    /// The number of requests that the client may have in flight.
    Window = 6,
    /// A piece of the client's stream.
    Up = 7,
    /// The end of the client's stream.
    UpEnd = 8,
    /// A piece of the server's stream.
    Down = 9,
    /// The server accepts so many more bytes of the client's stream: u64.
    CreditUp = 10,
    /// The client accepts so many more bytes of the server's stream: u64.
    CreditDown = 11,
}

/// A frame of a peer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: Kind,
    pub(crate) number: u64,
    pub(crate) body: &'a [u8],
}

/// What came is no train.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Appends a frame to a train.
pub(crate) fn push(train: &mut Vec<u8>, kind: Kind, number: u64, body: &[&[u8]]) {
    let length: usize = body.iter().map(|part| part.len()).sum();
    let length = u32::try_from(length).expect("bodies are at most 1 GiB");
    train.extend_from_slice(&length.to_le_bytes());
    train.extend_from_slice(&(kind as u32).to_le_bytes());
    train.extend_from_slice(&number.to_le_bytes());
    body.iter().for_each(|part| train.extend_from_slice(part));
}

/// Takes the first frame off a train.
pub(crate) fn pop<'a>(train: &mut &'a [u8]) -> Result<Frame<'a>, Malformed> {
    let (head, rest) = train.split_first_chunk::<HEAD_BYTES>().ok_or(Malformed)?;
    let [a, b, c, d, e, f, g, h, number @ ..] = *head;
    let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).map_err(|_| Malformed)?;
    let kind = match u32::from_le_bytes([e, f, g, h]) {
        1 => Kind::Request,
        2 => Kind::Answer,
        3 => Kind::Fault,
        4 => Kind::Refused,
        5 => Kind::Cancel,
        6 => Kind::Window,
        7 => Kind::Up,
        8 => Kind::UpEnd,
        9 => Kind::Down,
        10 => Kind::CreditUp,
        11 => Kind::CreditDown,
        _ => return Err(Malformed),
    };
    let (body, rest) = rest.split_at_checked(length).ok_or(Malformed)?;
    *train = rest;
    Ok(Frame { kind, number: u64::from_le_bytes(number), body })
}

/// The number of an encoded frame.
pub(crate) fn number_of(frame: &[u8]) -> Option<u64> {
    frame.get(8..HEAD_BYTES)?.try_into().ok().map(u64::from_le_bytes)
}

/// A copy of bytes of a peer; `None` without memory for it.
pub(crate) fn copied(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).ok()?;
    copy.extend_from_slice(bytes);
    Some(copy)
}

/// The message of a train.
pub(crate) fn message(nonce: u64) -> Message {
    Message::new(TRAIN).with_bytes(&nonce.to_le_bytes())
}

/// The nonce of the sender of a train.
pub(crate) fn nonce(message: &Message) -> u64 {
    message.payload.first_chunk().copied().map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_whole() {
        let mut train = Vec::new();
        push(&mut train, Kind::Request, 7, &[&[1; 8], b"body"]);
        push(&mut train, Kind::Cancel, u64::MAX, &[]);
        let mut rest = &train[..];
        let first = pop(&mut rest).unwrap();
        assert_eq!((first.kind, first.number, first.body.len()), (Kind::Request, 7, 12));
        assert_eq!(pop(&mut rest).unwrap().number, u64::MAX);
        assert!(rest.is_empty());
    }

    #[test]
    fn each_cut_and_each_foreign_byte_is_an_error_or_a_frame() {
        let mut train = Vec::new();
        push(&mut train, Kind::Answer, 1, &[b"some text"]);
        for length in 0..train.len() {
            assert_eq!(pop(&mut &train[..length]), Err(Malformed));
        }
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..100_000 {
            let bytes: Vec<u8> = (0..random.usize(..64)).map(|_| random.u8(..)).collect();
            let mut rest = &bytes[..];
            while let Ok(frame) = pop(&mut rest) {
                assert!(frame.body.len() <= bytes.len());
            }
        }
    }
}
