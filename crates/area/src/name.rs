//! The name of a block. A message carries the name instead of the bytes.

/// Size of a name in bytes.
pub const NAME_BYTES: usize = 32;

const FLAG_SHARED: u32 = 1;
const FLAG_PAYLOAD: u32 = 2;

/// The name of a block, given or shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockName {
    /// The number of the area in its VM.
    pub area: u32,
    /// The number of the block.
    pub number: u32,
    /// The generation of the block.
    pub generation: u32,
    /// The hop at which the receiver will hold it. For a shared block: the hop of its holder.
    pub hop: u32,
    /// The length of its content in bytes.
    pub bytes: u64,
    /// Whether the receiver reads the block and does not hold it.
    pub shared: bool,
    /// Whether the block is the long payload of a message.
    pub payload: bool,
}

/// A name from a peer. Only its form has been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimedBlockName(pub(crate) BlockName);

impl BlockName {
    /// The bytes of the name.
    #[must_use]
    pub fn encode(&self) -> [u8; NAME_BYTES] {
        let flags =
            if self.shared { FLAG_SHARED } else { 0 } | if self.payload { FLAG_PAYLOAD } else { 0 };
        let mut bytes = [0; NAME_BYTES];
        let words = [self.area, self.number, self.generation, self.hop];
        for (chunk, word) in bytes.chunks_exact_mut(4).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes[16..24].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[24..28].copy_from_slice(&flags.to_le_bytes());
        bytes
    }
}

impl ClaimedBlockName {
    /// The name in these bytes; `None` if they are no name.
    #[must_use]
    pub fn decode(bytes: &[u8; NAME_BYTES]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let flags = word(24)?;
        if flags & !(FLAG_SHARED | FLAG_PAYLOAD) != 0 || word(28)? != 0 {
            return None;
        }
        Some(Self(BlockName {
            area: word(0)?,
            number: word(4)?,
            generation: word(8)?,
            hop: word(12)?,
            bytes: u64::from(word(16)?) | u64::from(word(20)?) << 32,
            shared: flags & FLAG_SHARED != 0,
            payload: flags & FLAG_PAYLOAD != 0,
        }))
    }

    /// The claimed area.
    #[must_use]
    pub fn area(&self) -> u32 {
        self.0.area
    }

    /// The claimed length in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// Whether the name claims to be the long payload of a message.
    #[must_use]
    pub fn is_payload(&self) -> bool {
        self.0.payload
    }

    /// Whether the name claims to be shared.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.0.shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_their_encoding_and_other_bytes_are_refused() {
        let name = BlockName {
            area: 1,
            number: 2,
            generation: 3,
            hop: 4,
            bytes: u64::MAX - 5,
            shared: true,
            payload: false,
        };
        assert_eq!(ClaimedBlockName::decode(&name.encode()), Some(ClaimedBlockName(name)));
        assert_eq!(ClaimedBlockName::decode(&[0xff; NAME_BYTES]), None);
    }
}
