//! Records: what a connection's socket carries. A bell, or bytes that found no block.
//!
//! | bits | of a bell | of bytes |
//! |---|---|---|
//! | 0 to 31 | 0 | how many follow |
//! | 32 to 63 | 0 | the low half of the tail: the bytes of blocks before it come first |

/// Size of a record's head, in bytes.
pub(crate) const RECORD_BYTES: usize = 8;
/// Bytes that follow one head at most.
pub(crate) const BODY_MAX_BYTES: usize = 64 * 1024;

/// A record's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Bell,
    Bytes { count: u32, behind: u32 },
}

/// The low half of a number.
#[allow(clippy::cast_possible_truncation)]
pub(crate) fn low_half(number: u64) -> u32 {
    (number & u64::from(u32::MAX)) as u32
}

impl Record {
    pub(crate) fn encode(self) -> [u8; RECORD_BYTES] {
        match self {
            Self::Bell => [0; RECORD_BYTES],
            Self::Bytes { count, behind } => {
                (u64::from(count) | u64::from(behind) << 32).to_le_bytes()
            }
        }
    }

    /// Whatever comes has a meaning, or none.
    pub(crate) fn decode(bytes: [u8; RECORD_BYTES]) -> Option<Self> {
        let word = u64::from_le_bytes(bytes);
        let (count, behind) = (low_half(word), low_half(word >> 32));
        match (count, behind) {
            (0, 0) => Some(Self::Bell),
            (1.., _) if count as usize <= BODY_MAX_BYTES => Some(Self::Bytes { count, behind }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_its_encoding_and_nonsense_is_none() {
        for record in [
            Record::Bell,
            Record::Bytes { count: 1, behind: 0 },
            Record::Bytes { count: 65_536, behind: 7 },
        ] {
            assert_eq!(Record::decode(record.encode()), Some(record));
        }
        assert_eq!(Record::decode([0xff; 8]), None);
        assert_eq!(Record::decode((7_u64 << 32).to_le_bytes()), None);
    }
}
