//! Payloads that carry their own length and checksum.

const HEAD_BYTES: usize = 16;

/// A payload of at least 16 bytes: its length, its checksum, and bytes made from `seed`.
#[must_use]
pub fn payload(seed: u64, bytes: usize) -> Vec<u8> {
    let bytes = bytes.max(HEAD_BYTES);
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut made = vec![0; bytes];
    rng.fill(&mut made[HEAD_BYTES..]);
    let sum = checksum(&made[HEAD_BYTES..]);
    made[..8].copy_from_slice(&(bytes as u64).to_le_bytes());
    made[8..HEAD_BYTES].copy_from_slice(&sum.to_le_bytes());
    made
}

/// Whether this payload arrived whole.
#[must_use]
pub fn is_intact(found: &[u8]) -> bool {
    let word = |at: usize| {
        let word: [u8; 8] = found.get(at..at + 8)?.try_into().ok()?;
        Some(u64::from_le_bytes(word))
    };
    word(0) == Some(found.len() as u64) && word(8) == found.get(HEAD_BYTES..).map(checksum)
}

/// FNV-1a over words, then over the rest.
fn checksum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    words
        .chain(rest.iter().map(|byte| u64::from(*byte)))
        .fold(0xcbf2_9ce4_8422_2325, |sum, word| (sum ^ word).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_or_a_cut_shows() {
        for bytes in [16, 17, 1_792, 100_001] {
            let mut made = payload(7, bytes);
            assert!(is_intact(&made));
            assert!(!is_intact(&made[..bytes - 1]));
            made[bytes - 1] ^= 1;
            assert!(!is_intact(&made), "{bytes}");
        }
        assert!(!is_intact(&[]));
    }
}
