//! A message of the benchmark as a message of m3ipc.

use crate::payload::Message;

/// Converts a message; the low half of its last word becomes the type.
#[inline]
pub fn outward(message: &Message) -> m3ipc::Message {
    let [words @ .., last] = &message.words;
    let mut out = m3ipc::Message::new((last & 0x7fff_ffff) as i32);
    out.payload = bytemuck::cast(*words);
    out
}

/// Converts a message back.
#[inline]
pub fn inward(message: &m3ipc::Message, to: &mut Message) {
    let [words @ .., last] = &mut to.words;
    *words = bytemuck::cast(message.payload);
    *last = u64::from(message.m_type.cast_unsigned());
}

/// A message of this type that carries words.
#[inline]
pub fn with_words(message_type: i32, words: [u64; 4]) -> m3ipc::Message {
    let mut message = m3ipc::Message::new(message_type);
    message.payload[..32].copy_from_slice(bytemuck::bytes_of(&words));
    message
}

/// The words of a message of [`with_words`].
#[inline]
pub fn words_of(message: &m3ipc::Message) -> [u64; 4] {
    let mut words = [0; 4];
    bytemuck::bytes_of_mut(&mut words).copy_from_slice(&message.payload[..32]);
    words
}

/// A message of this type that carries a number.
#[inline]
pub fn with_number(message_type: i32, number: u64) -> m3ipc::Message {
    with_words(message_type, [number, 0, 0, 0])
}

/// The number of a message of [`with_number`].
#[inline]
pub fn number_in(message: &m3ipc::Message) -> u64 {
    words_of(message)[0]
}
