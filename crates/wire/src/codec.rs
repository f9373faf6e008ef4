//! Frames as bytes: postcard, without trailing bytes.

use serde::{Serialize, de::DeserializeOwned};

/// Bytes that are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the frame of {bytes} bytes is malformed; use a library and a daemon of one version")]
pub struct Malformed {
    /// Length of the bytes.
    pub bytes: usize,
}

/// The bytes of a frame.
///
/// # Panics
/// Never: all frames are plain records of numbers, strings and lists.
pub fn encode<T: Serialize>(frame: &T) -> Vec<u8> {
    postcard::to_allocvec(frame).expect("plain records always have bytes")
}

/// The frame in these bytes.
///
/// # Errors
/// [`Malformed`] if the bytes are no frame of this type, or if bytes are left over.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Malformed> {
    match decode_first(bytes)? {
        (frame, []) => Ok(frame),
        _ => Err(Malformed { bytes: bytes.len() }),
    }
}

/// The first frame in these bytes, and the bytes behind it: a greeting and the first request may
/// share a packet.
///
/// # Errors
/// [`Malformed`] if the bytes begin with no frame of this type.
pub fn decode_first<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, &[u8]), Malformed> {
    postcard::take_from_bytes(bytes).map_err(|_malformed| Malformed { bytes: bytes.len() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FromDaemon, Refusal, Reply, Request, VERSION};

    #[test]
    fn a_frame_survives_its_encoding_without_trailing_bytes() {
        let frame = Request::Hello { version: VERSION };
        let mut bytes = encode(&frame);
        assert_eq!(decode::<Request>(&bytes), Ok(frame));
        bytes.push(0);
        assert_eq!(decode::<Request>(&bytes), Err(Malformed { bytes: bytes.len() }));
        assert!(decode::<Request>(&[]).is_err());
        assert!(decode::<Request>(&[0xff; 40]).is_err());
    }

    /// A daemon and a library of different versions must understand these three frames.
    #[test]
    fn the_greeting_has_the_same_bytes_in_every_version() {
        assert_eq!(encode(&Request::Hello { version: 1 }), [0, 1]);
        assert_eq!(encode(&FromDaemon::Reply(Reply::Welcome { version: 1 })), [0, 0, 1]);
        let refusal = Refusal { code: -502, why: "no".to_owned() };
        let refused = FromDaemon::Reply(Reply::Refused(refusal));
        assert_eq!(encode(&refused), [0, 14, 0xeb, 7, 2, b'n', b'o']);
    }
}
