//! Streams beside a request: pieces in both directions, bounded by credit.
//!
//! A receiver grants bytes, and a sender sends no more than was granted. The client's stream begins
//! without credit: the handler grants the first bytes when it asks for a piece, so no piece comes
//! before its request. The server's stream begins with [`FIRST_DOWN`] bytes. A receiver grants what
//! it has consumed. A peer that exceeds its credit, or grants without end, ends its own calls.
//! Credit is a promise of the peer. What a sender queues is also bounded by the [`Room`] of the
//! peer, which returns only when the peer takes a train.

use crate::frame::{Frame, Kind, Malformed};
use crate::room::{Part, Room};
use std::sync::Arc;
use tokio::sync::{Notify, Semaphore, SemaphorePermit, mpsc};

/// The bytes that a server may send before the client has said more.
pub(crate) const FIRST_DOWN: usize = 512 << 10;
/// The bytes that a handler grants at first.
pub(crate) const FIRST_UP: usize = 512 << 10;
/// Length of a piece in a train. Longer ones are split.
pub(crate) const PIECE_BYTES: usize = 128 << 10;
/// Consumed bytes for one grant. The rest of the first credit is no shorter than a piece, so a
/// sender never waits for a grant that does not come.
pub(crate) const GRANT_BYTES: u64 = PIECE_BYTES as u64;
/// The credit that a peer may give at most.
const CREDIT_MAX: usize = 64 << 20;

/// What the peer accepts. Closed at the end of the request.
#[derive(Debug)]
pub(crate) struct Credit {
    bytes: Semaphore,
    ended: Notify,
}

impl Credit {
    /// Waits for the credit of so many bytes. `None` if the request has ended.
    pub(crate) async fn take(&self, bytes: u32) -> Option<SemaphorePermit<'_>> {
        self.bytes.acquire_many(bytes).await.ok()
    }

    /// Waits for the end of the request.
    pub(crate) async fn closed(&self) {
        let ended = self.ended.notified();
        tokio::pin!(ended);
        ended.as_mut().enable();
        if !self.bytes.is_closed() {
            ended.await;
        }
    }
}

/// The part of a stream in the state of its peer.
#[derive(Debug)]
pub(crate) struct StreamEnd {
    credit: Arc<Credit>,
    pieces: Option<mpsc::UnboundedSender<Vec<u8>>>,
    /// What the peer may still send.
    left: u64,
}

/// The part of a stream in its user's hands.
#[derive(Debug)]
pub(crate) struct StreamHalf {
    pub(crate) credit: Arc<Credit>,
    pub(crate) room: Room,
    pub(crate) pieces: mpsc::UnboundedReceiver<Vec<u8>>,
}

impl StreamHalf {
    /// Waits for the room of a piece. `None` if the request or the peer has ended.
    pub(crate) async fn part(&self, piece_bytes: usize) -> Option<Part<'_>> {
        tokio::select! {
            biased;
            part = self.room.part(piece_bytes) => part,
            () = self.credit.closed() => None,
        }
    }
}

impl StreamEnd {
    /// The parts of a stream: the peer may send `left` bytes, and accepts `credit`.
    pub(crate) fn pair(left: usize, credit: usize, room: Room) -> (Self, StreamHalf) {
        let (sender, pieces) = mpsc::unbounded_channel();
        let credit = Arc::new(Credit { bytes: Semaphore::new(credit), ended: Notify::new() });
        let half = StreamHalf { credit: Arc::clone(&credit), room, pieces };
        (Self { credit, pieces: Some(sender), left: left as u64 }, half)
    }

    pub(crate) fn grant(&mut self, bytes: u64) {
        self.left += bytes;
    }

    pub(crate) fn apply(&mut self, frame: &Frame<'_>) -> Result<(), Malformed> {
        match frame.kind {
            Kind::UpEnd => self.pieces = None,
            Kind::CreditUp | Kind::CreditDown => {
                let bytes = u64::from_le_bytes(*frame.body.first_chunk().ok_or(Malformed)?);
                let bytes = usize::try_from(bytes).map_err(|_| Malformed)?;
                let credit = &self.credit.bytes;
                if bytes > CREDIT_MAX || credit.available_permits() + bytes > CREDIT_MAX {
                    return Err(Malformed);
                }
                credit.add_permits(bytes);
            }
            _ => {
                // An empty piece would cost memory and no credit.
                let length = frame.body.len() as u64;
                if length == 0 {
                    return Err(Malformed);
                }
                self.left = self.left.checked_sub(length).ok_or(Malformed)?;
                let pieces = self.pieces.as_ref().ok_or(Malformed)?;
                // A user that reads no more loses the rest.
                let _ = pieces.send(frame.body.to_vec());
            }
        }
        Ok(())
    }
}

impl Drop for StreamEnd {
    fn drop(&mut self) {
        self.credit.bytes.close();
        self.credit.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: Kind, body: &[u8]) -> Frame<'_> {
        Frame { kind, number: 0, body }
    }

    #[test]
    fn pieces_beyond_the_credit_are_malformed() {
        let (mut end, mut half) = StreamEnd::pair(3, 0, Room::default());
        assert_eq!(end.apply(&frame(Kind::Up, b"ab")), Ok(()));
        assert_eq!(end.apply(&frame(Kind::Up, b"cd")), Err(Malformed));
        assert_eq!(end.apply(&frame(Kind::Up, b"")), Err(Malformed));
        end.grant(1);
        assert_eq!(end.apply(&frame(Kind::Up, b"cd")), Ok(()));
        assert_eq!(end.apply(&frame(Kind::UpEnd, b"")), Ok(()));
        assert_eq!(half.pieces.try_recv(), Ok(b"ab".to_vec()));
        assert_eq!(end.apply(&frame(Kind::Up, b"x")), Err(Malformed), "after the end");
    }

    #[test]
    fn credit_without_end_is_malformed() {
        let (mut end, half) = StreamEnd::pair(0, 10, Room::default());
        for bytes in [u64::MAX, CREDIT_MAX as u64 + 1, CREDIT_MAX as u64] {
            assert_eq!(end.apply(&frame(Kind::CreditUp, &bytes.to_le_bytes())), Err(Malformed));
        }
        assert_eq!(end.apply(&frame(Kind::CreditUp, &90_u64.to_le_bytes())), Ok(()));
        assert_eq!(end.apply(&frame(Kind::CreditUp, b"short")), Err(Malformed));
        assert_eq!(half.credit.bytes.available_permits(), 100);
        drop(end);
        assert!(half.credit.bytes.is_closed());
    }
}
