//! Formats of typed requests and answers.

use postcard::ser_flavors::Flavor;
use serde::{Deserialize, Serialize};

/// The room of a new buffer in bytes. Most requests fit in it, so it grows once or never.
const USUAL_BYTES: usize = 256;

/// A format. The error is a text for people.
pub trait Codec: Send + Sync + 'static {
    /// Puts the bytes of a value in place of the content of `bytes`, whose memory is used again.
    ///
    /// # Errors
    /// What the format cannot express. The content of `bytes` is then of no use.
    fn encode_into<T: Serialize>(value: &T, bytes: &mut Vec<u8>) -> Result<(), String>;

    /// The value of these bytes. It may borrow from them.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String>;

    /// The bytes of a value.
    ///
    /// # Errors
    /// What the format cannot express.
    fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::with_capacity(USUAL_BYTES);
        Self::encode_into(value, &mut bytes)?;
        Ok(bytes)
    }
}

/// The format of [postcard](https://docs.rs/postcard): small, without names.
///
/// ```
/// use m3ipc_calls::{Codec, Postcard};
///
/// let bytes = Postcard::encode(&("two", 2)).unwrap();
/// assert_eq!(Postcard::decode::<(&str, i32)>(&bytes).unwrap(), ("two", 2));
/// ```
///
/// A `Vec<u8>` is a sequence of numbers for serde; the crate `serde_bytes` copies it at once.
#[derive(Clone, Copy, Debug)]
pub struct Postcard;

/// The end of a buffer, where postcard writes.
struct EndOf<'a>(&'a mut Vec<u8>);

impl Flavor for EndOf<'_> {
    type Output = ();

    #[inline]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    #[inline]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

impl Codec for Postcard {
    fn encode_into<T: Serialize>(value: &T, bytes: &mut Vec<u8>) -> Result<(), String> {
        bytes.clear();
        postcard::serialize_with_flavor(value, EndOf(bytes)).map_err(|error| error.to_string())
    }

    fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
        match postcard::take_from_bytes(bytes) {
            Ok((value, [])) => Ok(value),
            Ok((_, rest)) => Err(format!("{} bytes follow the value", rest.len())),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// JSON.
#[cfg(feature = "json")]
#[derive(Clone, Copy, Debug)]
pub struct Json;

#[cfg(feature = "json")]
impl Codec for Json {
    fn encode_into<T: Serialize>(value: &T, bytes: &mut Vec<u8>) -> Result<(), String> {
        bytes.clear();
        serde_json::to_writer(bytes, value).map_err(|error| error.to_string())
    }

    fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
        serde_json::from_slice(bytes).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again() {
        let mut bytes = Vec::new();
        Postcard::encode_into(&("a long text", 1_u64), &mut bytes).unwrap();
        let room = bytes.capacity();
        Postcard::encode_into(&"two", &mut bytes).unwrap();
        assert_eq!((&bytes[..], bytes.capacity()), (&b"\x03two"[..], room));
        assert_eq!(Postcard::encode(&"two").unwrap(), bytes);
    }

    #[test]
    fn bytes_that_follow_the_value_are_an_error() {
        let mut bytes = Postcard::encode(&7_u8).unwrap();
        bytes.push(0);
        assert_eq!(Postcard::decode::<u8>(&bytes), Err("1 bytes follow the value".to_owned()));
    }
}
