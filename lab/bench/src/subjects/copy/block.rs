//! A block in private memory, at a chosen distance from a page, with a content that is checked.
//!
//! ```text
//! | number of the trip (8) | pattern by position and seed | the number's complement (8) |
//! ```
//! Each trip writes its two numbers, so that an old block is not taken for a new one. The pattern
//! is written once at first, and once more for the last check.

use m3ipc_report::PAGE_BYTES;

use crate::error::Error;
use crate::job::Test;

/// Bytes of each number.
const NUMBER: usize = 8;
/// Size of the least block: two numbers.
pub const LEAST_BYTES: usize = 2 * NUMBER;
/// Number of the last block, which is checked as a whole.
pub const LAST: u64 = u64::MAX >> 8;
/// Seeds of the pattern: of the first blocks and of the last.
const SEEDS: (u8, u8) = (0x35, 0xa7);

/// Distances from a page, in bytes, of a misaligned block at its source and at its destination.
const SKEW: (usize, usize) = (3, 13);

/// Distances from a page of the blocks of this test, at source and destination.
pub const fn skews(test: Test) -> (usize, usize) {
    match test {
        Test::Copy1 { aligned: false } | Test::Copy2 { aligned: false } => SKEW,
        _ => (0, 0),
    }
}

/// One block.
pub struct PrivateBlock {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl PrivateBlock {
    /// A block of zeroes that begins `skew` bytes after a page, all pages present.
    pub fn new(bytes: usize, skew: usize) -> Result<Self, Error> {
        if bytes < LEAST_BYTES {
            return Err(Error::Usage(format!(
                "a block has at least {LEAST_BYTES} bytes, not {bytes}"
            )));
        }
        let mut memory = vec![0_u8; bytes + skew + PAGE_BYTES];
        // Fresh zeroed memory has no pages yet.
        memory.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *std::hint::black_box(byte) = 0);
        let start = memory.as_ptr().align_offset(PAGE_BYTES) + skew;
        Ok(Self { memory, start, bytes })
    }

    /// Its address in this process.
    pub fn address(&self) -> usize {
        self.bytes().as_ptr() as usize
    }

    /// The memory, the offset of the block in it, and its length.
    pub fn into_parts(self) -> (Vec<u8>, usize, usize) {
        (self.memory, self.start, self.bytes)
    }

    /// Its content.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.bytes]
    }

    /// Its content, to be written.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.bytes]
    }
}

/// Fills a block with the first pattern.
pub fn fill(block: &mut [u8]) {
    paint(block, SEEDS.0);
}

/// Fills a block as the last one.
pub fn fill_last(block: &mut [u8]) {
    paint(block, SEEDS.1);
    stamp(block, LAST);
}

/// Writes the number of the trip at both ends.
#[inline]
pub fn stamp(block: &mut [u8], trip: u64) {
    let end = block.len() - NUMBER;
    block[..NUMBER].copy_from_slice(&trip.to_le_bytes());
    block[end..].copy_from_slice(&(!trip).to_le_bytes());
}

/// The number of the trip, from both ends.
#[inline]
pub fn number(block: &[u8]) -> Result<u64, Error> {
    let read = |at: usize| {
        let mut bytes = [0; NUMBER];
        bytes.copy_from_slice(&block[at..at + NUMBER]);
        u64::from_le_bytes(bytes)
    };
    let (first, last) = (read(0), !read(block.len() - NUMBER));
    if first == last {
        Ok(first)
    } else {
        Err(Error::Payload {
            trip: first,
            word: block.len() / NUMBER - 1,
            got: !last,
            wanted: !first,
        })
    }
}

/// Checks the last block as a whole.
pub fn check_last(block: &[u8]) -> Result<(), Error> {
    let trip = number(block)?;
    if trip != LAST {
        return Err(Error::Payload { trip, word: 0, got: trip, wanted: LAST });
    }
    let body = NUMBER..block.len() - NUMBER;
    match body.into_iter().find(|&at| block[at] != pattern(at, SEEDS.1)) {
        None => Ok(()),
        Some(at) => Err(Error::Payload {
            trip,
            word: at / NUMBER,
            got: block[at].into(),
            wanted: pattern(at, SEEDS.1).into(),
        }),
    }
}

fn paint(block: &mut [u8], seed: u8) {
    block.iter_mut().enumerate().for_each(|(at, byte)| *byte = pattern(at, seed));
}

/// Differs between neighbours, between pages, and between seeds.
fn pattern(at: usize, seed: u8) -> u8 {
    let mixed = at.wrapping_mul(0x9e37_79b9) ^ (at >> 12).wrapping_mul(0x85eb_ca6b);
    (mixed >> 3).to_le_bytes()[1] ^ at.to_le_bytes()[0] ^ seed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_begins_at_its_distance_from_a_page() {
        for skew in [0, 3, 13] {
            let buffer = PrivateBlock::new(100, skew).expect("100 bytes are enough");
            assert_eq!((buffer.address() % PAGE_BYTES, buffer.bytes().len()), (skew, 100));
        }
        assert!(PrivateBlock::new(LEAST_BYTES - 1, 0).is_err());
    }

    #[test]
    fn every_wrong_byte_is_found() {
        for bytes in [LEAST_BYTES, 64, 3 * PAGE_BYTES + 5] {
            let mut block = vec![0; bytes];
            fill_last(&mut block);
            check_last(&block).expect("as it was filled");
            for at in 0..bytes {
                block[at] ^= 0x10;
                assert!(check_last(&block).is_err(), "byte {at} of {bytes}");
                block[at] ^= 0x10;
            }
        }
    }

    #[test]
    fn an_old_block_is_not_the_last() {
        let mut block = vec![0; 4096];
        fill(&mut block);
        stamp(&mut block, 7);
        assert_eq!(number(&block).expect("both ends agree"), 7);
        assert!(check_last(&block).is_err());
        stamp(&mut block, LAST);
        assert!(check_last(&block).is_err(), "the first pattern is not the last one");
    }

    #[test]
    fn two_pages_differ() {
        let mut block = vec![0; 2 * PAGE_BYTES];
        fill(&mut block);
        assert_ne!(block[..PAGE_BYTES], block[PAGE_BYTES..]);
    }
}
