//! Formats of typed requests and answers.

use serde::{Serialize, de::DeserializeOwned};

/// A format. The error is a text for people.
pub trait Codec: Send + Sync + 'static {
    /// The bytes of a value.
    ///
    /// # Errors
    /// What the format cannot express.
    fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, String>;

    /// The value of these bytes.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String>;
}

/// The format of [postcard](https://docs.rs/postcard): small, without names.
///
/// ```
/// use m3ipc_calls::{Codec, Postcard};
///
/// let bytes = Postcard::encode(&("two", 2)).unwrap();
/// assert_eq!(Postcard::decode::<(String, i32)>(&bytes).unwrap(), ("two".to_owned(), 2));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Postcard;

impl Codec for Postcard {
    fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, String> {
        postcard::to_allocvec(value).map_err(|error| error.to_string())
    }

    fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
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
    fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, String> {
        serde_json::to_vec(value).map_err(|error| error.to_string())
    }

    fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
        serde_json::from_slice(bytes).map_err(|error| error.to_string())
    }
}
