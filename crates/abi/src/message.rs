//! The message: 48 bytes, of which 44 travel. The source never travels; the daemon vouches for it.

use crate::endpoint::{Address, NONE, Slot};

/// Size of a message in bytes.
pub const MESSAGE_BYTES: usize = 48;
/// Size of its payload in bytes: the union of the formats m1 to m9 and mA.
pub const PAYLOAD_BYTES: usize = 40;
/// Type of a notification: this number, or-ed with the slot of the source.
pub const NOTIFY_MESSAGE: i32 = 0x1000;

/// Type of the message of a pulse: beyond the types of notifications.
pub const PULSE_MESSAGE: i32 = 0x20_0000;

/// A message as every language sees it.
///
/// ```text
/// 0        4        8                                            48
/// | source | m_type | payload: 40 bytes, eight-byte aligned        |
/// ```
///
/// ```
/// use m3ipc_abi::{Address, Message, NONE};
///
/// let mut message = Message::new(7).with_bytes(b"text");
/// assert_eq!((message.m_type, message.source), (7, NONE));
/// assert_eq!(&message.payload[..4], b"text");
/// message.set_word(1, -5);
/// message.set_long(4, 1 << 40);
/// assert_eq!((message.word(1), message.long(4)), (-5, 1 << 40));
/// // A notification of the endpoint in slot 3:
/// let notification = Message::notification(Address(3), 0, 0, 0);
/// assert!(notification.is_notification() && !message.is_notification());
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct Message {
    /// The sender. The receiver's library sets it to the identity that the node daemon vouched
    /// for, and never reads it from shared memory.
    pub source: Address,
    /// The type of the message. The programs choose its meaning.
    pub m_type: i32,
    /// The words of the formats. The programs choose their meaning.
    pub payload: [u8; PAYLOAD_BYTES],
}

const _: () = assert!(size_of::<Message>() == MESSAGE_BYTES);
const _: () = assert!(core::mem::offset_of!(Message, payload) == 8);

impl Message {
    /// A message of this type with an empty payload. The example is at [`Message`].
    #[must_use]
    pub const fn new(m_type: i32) -> Self {
        Self { source: NONE, m_type, payload: [0; PAYLOAD_BYTES] }
    }

    /// The same message with the first bytes of its payload set. The example is at [`Message`].
    ///
    /// # Panics
    /// If `bytes` is longer than [`PAYLOAD_BYTES`].
    #[must_use]
    pub const fn with_bytes(mut self, bytes: &[u8]) -> Self {
        assert!(
            bytes.len() <= PAYLOAD_BYTES,
            "a message has room for 40 bytes; send more with sendrec_bytes or send_bytes"
        );
        let (head, _) = self.payload.split_at_mut(bytes.len());
        head.copy_from_slice(bytes);
        self
    }

    /// The 32-bit word at `index` (0 to 9) of the payload. The example is at [`Message`].
    ///
    /// # Panics
    /// If `index` is above 9.
    #[must_use]
    pub fn word(&self, index: usize) -> i32 {
        check_index(index, PAYLOAD_BYTES / 4);
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.payload[index * 4..index * 4 + 4]);
        i32::from_ne_bytes(bytes)
    }

    /// Sets the 32-bit word at `index` (0 to 9) of the payload. The example is at [`Message`].
    ///
    /// # Panics
    /// If `index` is above 9.
    pub fn set_word(&mut self, index: usize, value: i32) {
        check_index(index, PAYLOAD_BYTES / 4);
        self.payload[index * 4..index * 4 + 4].copy_from_slice(&value.to_ne_bytes());
    }

    /// The 64-bit word at `index` (0 to 4) of the payload. The example is at [`Message`].
    ///
    /// # Panics
    /// If `index` is above 4.
    #[must_use]
    pub fn long(&self, index: usize) -> i64 {
        check_index(index, PAYLOAD_BYTES / 8);
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.payload[index * 8..index * 8 + 8]);
        i64::from_ne_bytes(bytes)
    }

    /// Sets the 64-bit word at `index` (0 to 4) of the payload. The example is at [`Message`].
    ///
    /// # Panics
    /// If `index` is above 4.
    pub fn set_long(&mut self, index: usize, value: i64) {
        check_index(index, PAYLOAD_BYTES / 8);
        self.payload[index * 8..index * 8 + 8].copy_from_slice(&value.to_ne_bytes());
    }

    /// The notification of `source`. `argument` is the pending set of HARDWARE or SYSTEM, else 0.
    /// The time is that of the notification.
    ///
    /// Format m9: two ints and a timespec. As in the releases, the second int (at 4) holds the low
    /// 32 bits of the argument. The first int (at 0) holds the high 32 bits. The example is at
    /// [`Message`].
    #[must_use]
    pub fn notification(source: Address, argument: u64, seconds: i64, nanoseconds: i64) -> Self {
        let mut message = Self::new(NOTIFY_MESSAGE | source.slot());
        message.source = source;
        let [low, high] = [argument & u64::from(u32::MAX), argument >> 32];
        message.set_word(0, word_of(high));
        message.set_word(1, word_of(low));
        message.set_long(1, seconds);
        message.set_long(2, nanoseconds);
        message
    }

    /// The pulse of `source`, or of a timer of the receiver that ran out `count` times.
    ///
    /// Two ints, the code (at 0) and the count (at 4), and the value (at 8).
    #[must_use]
    pub fn pulse(source: Address, code: u8, value: u64, count: u32) -> Self {
        let mut message = Self::new(PULSE_MESSAGE);
        message.source = source;
        message.set_word(0, i32::from(code));
        message.set_word(1, word_of(u64::from(count)));
        message.set_long(1, value.cast_signed());
        message
    }

    /// Whether this is a notification of its source. The example is at [`Message`].
    #[must_use]
    pub const fn is_notification(&self) -> bool {
        self.m_type == Self::notification_type(self.source.slot())
    }

    /// The type of a notification from `slot`.
    #[must_use]
    pub const fn notification_type(slot: Slot) -> i32 {
        NOTIFY_MESSAGE | slot
    }
}

/// Ends the program with a text that names the mistake.
#[inline]
fn check_index(index: usize, words: usize) {
    assert!(index < words, "a message has {words} words of this size, and no word {index}");
}

/// The low 32 bits of a number.
const fn word_of(half: u64) -> i32 {
    let [a, b, c, d, ..] = half.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

impl Default for Message {
    fn default() -> Self {
        Self::new(0)
    }
}

impl core::fmt::Debug for Message {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Message")
            .field("source", &self.source)
            .field("m_type", &self.m_type)
            .field("payload", &self.payload)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "room for 40 bytes; send more with sendrec_bytes")]
    fn bytes_beyond_the_payload_are_named() {
        let _ = Message::new(1).with_bytes(&[0; PAYLOAD_BYTES + 1]);
    }

    #[test]
    #[should_panic(expected = "a message has 10 words of this size, and no word 10")]
    fn a_word_beyond_the_payload_is_named() {
        let _ = Message::new(1).word(10);
    }

    #[test]
    #[should_panic(expected = "a message has 5 words of this size, and no word 5")]
    fn a_long_word_beyond_the_payload_is_named() {
        Message::new(1).set_long(5, 0);
    }

    #[test]
    fn the_argument_of_a_notification_is_its_second_word() {
        let message = Message::notification(crate::HARDWARE, 0x8000_0001_0000_0002, 7, 8);
        assert_eq!((message.word(1), message.word(0)), (2, i32::MIN + 1));
        assert_eq!((message.long(1), message.long(2)), (7, 8));
        assert!(message.is_notification());
    }
}
