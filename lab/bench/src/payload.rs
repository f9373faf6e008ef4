//! The message of a round trip: 48 bytes that both sides write, read and check.
//!
//! ```text
//! word 0: number of the trip << 8 | tag     words 1 to 4: word 0 plus a constant each
//! word 5: word 0 plus a constant, its low 31 bits (m3ipc sends it as the message's type)
//! ```
//! The tag is the byte of mechanisms that carry one byte: the low seven bits of the trip's number,
//! or `STOP_TAG`. An answer changes every word of its request by a mask, so an echo is no answer.
//! Additions and not a hash: this work is part of every figure, so it must cost next to nothing.

use crate::error::Error;

/// Size of a message in bytes.
pub const MESSAGE_BYTES: usize = 48;
const STOP_TAG: u64 = 0xff;
const ANSWER_MASK: u64 = 0x55;
const ODD: [u64; 6] = [
    0,
    0x9e37_79b9_7f4a_7c15,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0x27d4_eb2f_1656_67c5,
    0x85eb_ca77_c2b2_ae63,
];

/// Six words; see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Message {
    /// The words.
    pub words: [u64; 6],
}

const _: () = assert!(size_of::<Message>() == MESSAGE_BYTES);

impl Message {
    /// The request of this trip.
    #[inline]
    #[must_use]
    pub fn request(trip: u64) -> Self {
        Self::from_head(trip << 8 | trip & 0x7f)
    }

    /// The request after which the server ends. The server answers it like any other.
    #[must_use]
    pub fn stop() -> Self {
        Self::from_head(STOP_TAG)
    }

    /// Whether this request ends the server.
    #[inline]
    #[must_use]
    pub fn is_stop(&self) -> bool {
        self.words[0] & 0xff == STOP_TAG
    }

    /// The number of the trip.
    #[inline]
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.words[0] >> 8
    }

    /// The answer to this request.
    #[inline]
    #[must_use]
    pub fn answer(&self) -> Self {
        Self { words: self.words.map(|word| word ^ ANSWER_MASK) }
    }

    /// Checks that the words of a request belong to its head.
    ///
    /// # Errors
    /// [`Error::Payload`] with the first wrong word.
    #[inline]
    pub fn check_request(&self, bytes: usize) -> Result<(), Error> {
        if bytes == MESSAGE_BYTES {
            return self.check_against(&Self::from_head(self.words[0]), bytes, self.words[0] >> 8);
        }
        Ok(())
    }

    /// Checks the first `bytes` bytes of an answer against its request.
    ///
    /// # Errors
    /// [`Error::Payload`] with the first wrong word.
    #[inline]
    pub fn check_answer(&self, request: &Self, bytes: usize) -> Result<(), Error> {
        self.check_against(&request.answer(), bytes, request.words[0] >> 8)
    }

    /// The message as bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        bytemuck::bytes_of(self)
    }

    /// The message as bytes to read into.
    #[inline]
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::bytes_of_mut(self)
    }

    #[inline]
    fn from_head(head: u64) -> Self {
        let mut words = ODD.map(|odd| head.wrapping_add(odd));
        words[5] &= 0x7fff_ffff;
        Self { words }
    }

    #[inline]
    fn check_against(&self, wanted: &Self, bytes: usize, trip: u64) -> Result<(), Error> {
        let differs = self
            .words
            .iter()
            .zip(&wanted.words)
            .fold(0, |bits, (got, wanted)| bits | (got ^ wanted));
        if differs == 0 {
            return Ok(());
        }
        self.differing(wanted, bytes, trip)
    }

    #[cold]
    fn differing(&self, wanted: &Self, bytes: usize, trip: u64) -> Result<(), Error> {
        if self.bytes()[..bytes] == wanted.bytes()[..bytes] {
            return Ok(());
        }
        let word = (0..6).find(|&i| self.words[i] != wanted.words[i]).unwrap_or(0);
        Err(Error::Payload { trip, word, got: self.words[word], wanted: wanted.words[word] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flipped_bit_is_found() {
        let request = Message::request(12_345);
        for bit in 0..384 {
            let mut spoilt = request.answer();
            spoilt.words[bit / 64] ^= 1 << (bit % 64);
            assert!(spoilt.check_answer(&request, MESSAGE_BYTES).is_err(), "bit {bit}");
            let mut spoilt = request;
            spoilt.words[bit / 64] ^= 1 << (bit % 64);
            assert!(spoilt.check_request(MESSAGE_BYTES).is_err(), "bit {bit}");
        }
        assert!(request.check_request(MESSAGE_BYTES).is_ok());
        assert!(request.answer().check_answer(&request, MESSAGE_BYTES).is_ok());
    }

    #[test]
    fn one_byte_is_checked_alone() {
        let request = Message::request(3);
        let mut answer = Message::default();
        answer.bytes_mut()[0] = request.answer().bytes()[0];
        assert!(answer.check_answer(&request, 1).is_ok());
        answer.bytes_mut()[0] ^= 1;
        assert!(answer.check_answer(&request, 1).is_err());
    }

    #[test]
    fn only_stop_stops() {
        assert!(Message::stop().is_stop());
        assert!((0..1_000).all(|trip| !Message::request(trip).is_stop()));
        assert!((0..1_000).all(|trip| Message::request(trip).words[5] < 1 << 31));
    }
}
