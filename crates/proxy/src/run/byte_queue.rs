//! Bytes of a copy that wait for a program of this node.
//!
//! A whole piece of a copy is a part of the memory that its connection has read, and stays there. A
//! shorter one is copied: it would keep memory that is many times as long.

use bytes::{Bytes, BytesMut};
use m3ipc_fabric::PIECE_MAX_BYTES;
use std::collections::VecDeque;

/// The shortest piece that is kept as it came, in bytes. It keeps about twice as much memory.
const KEPT_BYTES: usize = PIECE_MAX_BYTES;

/// Bytes in order.
#[derive(Debug, Default)]
pub struct ByteQueue {
    whole: VecDeque<Bytes>,
    /// Short pieces behind them.
    joined: BytesMut,
    bytes: usize,
}

impl ByteQueue {
    /// Adds bytes behind the others.
    pub fn push(&mut self, piece: Bytes) {
        self.bytes += piece.len();
        if piece.len() < KEPT_BYTES {
            self.joined.extend_from_slice(&piece);
            return;
        }
        self.close_joined();
        self.whole.push_back(piece);
    }

    /// The short pieces so far become a whole one.
    fn close_joined(&mut self) {
        if !self.joined.is_empty() {
            self.whole.push_back(std::mem::take(&mut self.joined).freeze());
        }
    }

    /// Takes the first bytes, in parts. `None` if there are not so many.
    pub fn take(&mut self, bytes: usize) -> Option<Vec<Bytes>> {
        self.bytes = self.bytes.checked_sub(bytes)?;
        let (mut parts, mut left) = (Vec::new(), bytes);
        while left > 0 {
            if self.whole.is_empty() {
                self.close_joined();
            }
            let mut part = self.whole.pop_front()?;
            if part.len() > left {
                self.whole.push_front(part.split_off(left));
            }
            left -= part.len();
            parts.push(part);
        }
        Some(parts)
    }

    /// Whether so many bytes wait.
    pub fn has(&self, bytes: usize) -> bool {
        self.bytes >= bytes
    }

    /// Whether no bytes wait.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_leave_as_they_came(
            pieces in prop::collection::vec(
                prop_oneof![1..100_usize, KEPT_BYTES - 1..KEPT_BYTES + 2],
                0..20,
            ),
            taken in prop::collection::vec(1..100_000_usize, 1..40),
        ) {
            let mut next = 0_u8;
            let (mut queue, mut all, mut came) = (ByteQueue::default(), vec![], vec![]);
            let mut pieces = pieces.into_iter();
            for bytes in taken {
                if let Some(length) = pieces.next() {
                    next = next.wrapping_add(1);
                    let piece = vec![next; length];
                    all.extend_from_slice(&piece);
                    queue.push(piece.into());
                }
                let waits = all.len() - came.len();
                match queue.take(bytes) {
                    Some(parts) => came.extend_from_slice(&parts.concat()),
                    None => prop_assert!(bytes > waits),
                }
                prop_assert_eq!(queue.is_empty(), all.len() == came.len());
            }
            prop_assert!(all.starts_with(&came));
        }
    }

    #[test]
    fn short_pieces_keep_no_other_memory() {
        let mut queue = ByteQueue::default();
        let read = Bytes::from(vec![7; 64 << 10]);
        for at in 0..100 {
            queue.push(read.slice(at..=at));
        }
        assert!(read.is_unique());
        queue.push(read.clone());
        assert!(!read.is_unique(), "a long one is kept as it came");
        assert_eq!(queue.take(200).unwrap().concat(), [7; 200]);
    }
}
