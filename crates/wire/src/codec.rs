//! Frames as bytes: postcard, with nothing left over.

use serde::{Serialize, de::DeserializeOwned};

/// Bytes that are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the frame of {bytes} bytes is malformed")]
pub struct Malformed {
    /// Length of what came.
    pub bytes: usize,
}

/// The bytes of a frame.
///
/// # Panics
/// Never: all frames are plain records of numbers, strings and lists.
pub fn encode<T: Serialize>(frame: &T) -> Vec<u8> {
    postcard::to_allocvec(frame).expect("plain records always have bytes")
}

/// The frame in these bytes, all of them.
///
/// # Errors
/// [`Malformed`] where they are no frame of this type or bytes are left over.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Malformed> {
    match postcard::take_from_bytes(bytes) {
        Ok((frame, [])) => Ok(frame),
        _ => Err(Malformed { bytes: bytes.len() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Request, VERSION};

    #[test]
    fn a_frame_survives_its_encoding_and_nothing_may_follow_it() {
        let frame = Request::Hello { version: VERSION };
        let mut bytes = encode(&frame);
        assert_eq!(decode::<Request>(&bytes), Ok(frame));
        bytes.push(0);
        assert_eq!(decode::<Request>(&bytes), Err(Malformed { bytes: bytes.len() }));
        assert!(decode::<Request>(&[]).is_err());
        assert!(decode::<Request>(&[0xff; 40]).is_err());
    }
}
