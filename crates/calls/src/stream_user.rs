//! A stream in the hands of its user: a caller or a handler.

use crate::frame::Kind;
use crate::state::{Peer, Shared};
use crate::stream::{FIRST_UP, GRANT_BYTES, PIECE_BYTES, StreamHalf};
use m3ipc::Address;
use std::sync::Arc;

/// One side of a stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) shared: Arc<Shared>,
    pub(crate) peer: Address,
    pub(crate) number: u64,
    pub(crate) half: StreamHalf,
    /// At a server: the epoch of the client's request.
    pub(crate) epoch: Option<u64>,
    pub(crate) is_asked: bool,
    /// Bytes that came and were not granted again.
    pub(crate) consumed: u64,
}

impl Stream {
    fn is_server(&self) -> bool {
        self.epoch.is_some()
    }

    /// Changes the state of the peer. `None` if the peer has gone.
    fn change<T>(&self, change: impl FnOnce(&mut Peer) -> T) -> Option<T> {
        let mut state = self.shared.state();
        let peer = match self.epoch {
            Some(epoch) => state.peer_of(self.peer.0, epoch),
            // The numbers of own requests never repeat.
            None => state.peers.get_mut(&self.peer.0),
        };
        let changed = peer.map(change);
        drop(state);
        self.shared.changed.notify_one();
        changed
    }

    /// Sends bytes as far as the peer accepts them. `false` if the stream or the request has ended.
    pub(crate) async fn send(&self, bytes: &[u8]) -> bool {
        let kind = if self.is_server() { Kind::Down } else { Kind::Up };
        for piece in bytes.chunks(PIECE_BYTES) {
            let length = u32::try_from(piece.len()).expect("a piece is short");
            // The credit first: a stream without credit must not hold the room of others.
            let Some(taken) = self.half.credit.take(length).await else { return false };
            let Some(part) = self.half.part(piece.len()).await else { return false };
            let cost = part.cost();
            if self.change(|peer| peer.queue_piece(kind, self.number, piece, cost)) != Some(true) {
                return false;
            }
            part.keep();
            taken.forget();
        }
        true
    }

    pub(crate) fn finish(&self) {
        self.change(|peer| peer.finish(self.number));
    }

    fn grant(&self, bytes: u64) {
        let kind = if self.is_server() { Kind::CreditUp } else { Kind::CreditDown };
        self.change(|peer| peer.queue_grant(kind, self.number, bytes));
    }

    /// The next piece; `None` after the last one, or if the request has ended.
    pub(crate) async fn next(&mut self) -> Option<Vec<u8>> {
        if self.is_server() && !std::mem::replace(&mut self.is_asked, true) {
            self.grant(FIRST_UP as u64);
        }
        let piece = self.half.pieces.recv().await?;
        self.consumed += piece.len() as u64;
        // One grant for many pieces: small pieces must not fill the queue.
        if self.consumed >= GRANT_BYTES {
            let consumed = std::mem::take(&mut self.consumed);
            self.grant(consumed);
        }
        Some(piece)
    }
}
