//! The head of a message: its type and what it brings beside its payload, in one word of its slot.

use m3ipc_abi::LONG_MAX_BYTES;

/// Flag beside the length: the long payload is the name of a block.
const IS_BLOCK: u32 = 1 << 31;

/// The head of a message. A peer may have written anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The type of the message.
    pub(crate) m_type: i32,
    /// The length of the long payload, or of the name of a block with its flag.
    long: u32,
}

impl Head {
    /// The head of a message with nothing beside its payload.
    #[inline(always)]
    pub(crate) const fn short(m_type: i32) -> Self {
        Self { m_type, long: 0 }
    }

    /// The head of a message with so many bytes beside its payload.
    ///
    /// # Panics
    /// If a link has no room for them.
    pub(crate) fn long(m_type: i32, bytes: usize, is_block: bool) -> Self {
        assert!(bytes <= LONG_MAX_BYTES, "no longer than a link has room for");
        let flag = if is_block { IS_BLOCK } else { 0 };
        Self { m_type, long: u32::try_from(bytes).unwrap_or(0) | flag }
    }

    /// The word of a slot.
    #[inline(always)]
    pub(crate) const fn word(self) -> u64 {
        self.m_type.cast_unsigned() as u64 | (self.long as u64) << 32
    }

    /// The head in a word.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)] // the two halves
    pub(crate) const fn of(word: u64) -> Self {
        Self { m_type: (word as u32).cast_signed(), long: (word >> 32) as u32 }
    }

    /// Whether nothing lies beside the payload.
    #[inline(always)]
    pub(crate) const fn is_short(self) -> bool {
        self.long == 0
    }

    /// Whether the message claims to bring the name of a block.
    #[inline]
    pub(crate) const fn has_block(self) -> bool {
        self.long & IS_BLOCK != 0
    }

    /// The claimed length of what lies beside the payload, which may exceed a link.
    #[inline]
    pub(crate) const fn claimed_bytes(self) -> usize {
        (self.long & !IS_BLOCK) as usize
    }

    /// The length of the long payload. `None` for a block, or beyond a link.
    #[inline]
    pub(crate) const fn long_bytes(self) -> Option<usize> {
        let bytes = self.claimed_bytes();
        if self.has_block() || bytes > LONG_MAX_BYTES { None } else { Some(bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_has_the_whole_head() {
        for m_type in [0, 7, -1, i32::MIN, i32::MAX] {
            assert_eq!(Head::of(Head::short(m_type).word()), Head { m_type, long: 0 });
            let head = Head::of(Head::long(m_type, LONG_MAX_BYTES, false).word());
            assert_eq!((head.m_type, head.long_bytes()), (m_type, Some(LONG_MAX_BYTES)));
            let block = Head::of(Head::long(m_type, 16, true).word());
            assert_eq!((block.has_block(), block.claimed_bytes()), (true, 16));
            assert_eq!((block.long_bytes(), block.is_short()), (None, false));
        }
    }

    #[test]
    fn a_length_beyond_a_link_is_none() {
        for long in [1793, u32::MAX, IS_BLOCK] {
            assert_eq!(Head::of(u64::from(long) << 32).long_bytes(), None);
        }
    }
}
