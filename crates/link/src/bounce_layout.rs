//! The layout of a bounce buffer, and the counts in it.
//!
//! ```text
//! 0x0000 the command: number, direction, space, address, bytes   requester writes
//! 0x0040 requester's progress: number and chunks; it sleeps      requester writes
//! 0x0080 party's progress: number and chunks; outcome, bytes     party writes
//! 0x00c0 wake word of the requester
//! 0x1400 first half, 64 KiB       0x12400 second half
//! ```

use crate::slot::RuleBroken;
use crate::words::Page;

/// Size of one half in bytes: the longest chunk.
pub const BOUNCE_HALF_BYTES: usize = 64 * 1024;
/// Size of a bounce buffer in bytes.
pub const BOUNCE_BUFFER_BYTES: usize = HALVES + 2 * HALF_STEP_BYTES;

pub(crate) const NUMBER: usize = 0x00;
pub(crate) const DIRECTION: usize = 0x04;
pub(crate) const SPACE: usize = 0x08;
pub(crate) const ADDRESS: usize = 0x10;
pub(crate) const BYTES: usize = 0x18;
pub(crate) const REQUESTER_PROGRESS: usize = 0x40;
pub(crate) const REQUESTER_SLEEPS: usize = 0x48;
pub(crate) const PARTY_PROGRESS: usize = 0x80;
pub(crate) const OUTCOME: usize = 0x88;
pub(crate) const DONE_BYTES: usize = 0x90;
pub(crate) const WAKE_WORD: usize = 0xc0;
const HALVES: usize = 0x1000;
/// Distance between the two halves.
const HALF_STEP_BYTES: usize = BOUNCE_HALF_BYTES + 0x1000;
/// Offset of a half in its first page. Blocks of programs begin at a page or a few bytes behind. If
/// the destination of a copy lies a few bytes behind its source, modulo a page, the copy takes four
/// times as long: the CPU takes its loads for loads of bytes just stored.
const HALF_SHIFT: usize = 0x400;
/// Chunks that one side may be ahead of the other.
const AHEAD_MAX: u32 = 2;
/// The outcome of a successful copy. Codes are negative.
pub(crate) const SUCCESS: i32 = 1;

/// A count, tagged with the number of its command.
pub(crate) fn tagged(number: u32, count: u32) -> u64 {
    u64::from(number) << 32 | u64::from(count)
}

/// The count in a word; 0 if the word belongs to another command.
pub(crate) fn count_of(word: u64, number: u32) -> u32 {
    if word >> 32 == u64::from(number) { (word & 0xffff_ffff) as u32 } else { 0 }
}

/// Offset of the half of a chunk.
pub(crate) fn half(chunk: u32) -> usize {
    HALVES + (chunk as usize % 2) * HALF_STEP_BYTES + HALF_SHIFT
}

/// Copies the half of a chunk out.
pub(crate) fn read_half(page: &impl Page, chunk: u32, bytes: &mut [u8]) {
    let length = bytes.len().min(BOUNCE_HALF_BYTES);
    page.read(half(chunk), &mut bytes[..length]);
}

/// Copies into the half of a chunk, from an offset on.
pub(crate) fn write_half(page: &impl Page, chunk: u32, offset: usize, bytes: &[u8]) {
    let length = bytes.len().min(BOUNCE_HALF_BYTES.saturating_sub(offset));
    page.write(half(chunk) + offset, &bytes[..length]);
}

/// Checks a count of the other side against the own count. The filling side is ahead of the
/// emptying side, by two chunks at most.
pub(crate) fn check_ahead(other_fills: bool, count: u32, own: u32) -> Result<u32, RuleBroken> {
    let ahead = if other_fills { count.wrapping_sub(own) } else { own.wrapping_sub(count) };
    if ahead <= AHEAD_MAX { Ok(count) } else { Err(RuleBroken) }
}
