//! The records in the socket of a connection: a wakeup, or bytes that found no free block.
//!
//! | bits | of a wakeup record | of a record with bytes |
//! |---|---|---|
//! | 0 to 31 | 0 | the number of bytes that follow |
//! | 32 to 63 | 0 | the low half of the tail: bytes of blocks below it come first |

/// The size of a record's head, in bytes.
pub(crate) const RECORD_BYTES: usize = 8;
/// The most bytes that follow one head.
pub(crate) const BODY_MAX_BYTES: usize = 64 * 1024;

/// The head of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Wakeup,
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
            Self::Wakeup => [0; RECORD_BYTES],
            Self::Bytes { count, behind } => {
                (u64::from(count) | u64::from(behind) << 32).to_le_bytes()
            }
        }
    }

    /// Decodes a head; `None` where no sender encodes it.
    pub(crate) fn decode(bytes: [u8; RECORD_BYTES]) -> Option<Self> {
        let word = u64::from_le_bytes(bytes);
        let (count, behind) = (low_half(word), low_half(word >> 32));
        match (count, behind) {
            (0, 0) => Some(Self::Wakeup),
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
            Record::Wakeup,
            Record::Bytes { count: 1, behind: 0 },
            Record::Bytes { count: 65_536, behind: 7 },
        ] {
            assert_eq!(Record::decode(record.encode()), Some(record));
        }
        assert_eq!(Record::decode([0xff; 8]), None);
        assert_eq!(Record::decode((7_u64 << 32).to_le_bytes()), None);
    }
}
