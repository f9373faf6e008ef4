//! A stream in the hands of its user: a caller or a handler.

use crate::frame::Kind;
use crate::state::Shared;
use crate::stream::{FIRST_UP, PIECE_BYTES, StreamHalf};
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
}

impl Stream {
    fn is_server(&self) -> bool {
        self.epoch.is_some()
    }

    fn queue(&self, kind: Kind, body: &[u8]) -> bool {
        let mut state = self.shared.state();
        let peer = match self.epoch {
            Some(epoch) => state.peer_of(self.peer.0, epoch),
            // The numbers of own requests never repeat.
            None => state.peers.get_mut(&self.peer.0),
        };
        let Some(peer) = peer else { return false };
        let queued = peer.queue_stream(kind, self.number, body);
        drop(state);
        self.shared.changed.notify_one();
        queued
    }

    /// Sends bytes as far as the peer accepts them. `false` if the request has ended.
    pub(crate) async fn send(&self, bytes: &[u8]) -> bool {
        let kind = if self.is_server() { Kind::Down } else { Kind::Up };
        for piece in bytes.chunks(PIECE_BYTES) {
            let length = u32::try_from(piece.len()).expect("a piece is short");
            let Ok(credit) = self.half.credit.acquire_many(length).await else { return false };
            credit.forget();
            if !self.queue(kind, piece) {
                return false;
            }
        }
        true
    }

    pub(crate) fn finish(&self) {
        self.queue(Kind::UpEnd, &[]);
    }

    /// The next piece; `None` after the last one, or if the request has ended.
    pub(crate) async fn next(&mut self) -> Option<Vec<u8>> {
        if self.is_server() && !std::mem::replace(&mut self.is_asked, true) {
            self.queue(Kind::CreditUp, &(FIRST_UP as u64).to_le_bytes());
        }
        let piece = self.half.pieces.recv().await?;
        let kind = if self.is_server() { Kind::CreditUp } else { Kind::CreditDown };
        self.queue(kind, &(piece.len() as u64).to_le_bytes());
        Some(piece)
    }
}
