//! The pieces of long payloads between their streams and the lanes: see [`super::streams`].

use super::streams::{Added, StreamKey};
use super::{Machine, RuleBroken};
use crate::faults::Fault;
use crate::ids::NodeId;
use crate::packet::{Frame, Lane, StreamKind};

impl Machine {
    /// Whether a payload travels in pieces.
    pub(super) fn is_pieced(&self, bytes: usize) -> bool {
        bytes > self.own.settings.inline_bytes
    }

    pub(super) fn begin_stream(&mut self, node: NodeId, key: StreamKey, bytes: Vec<u8>) {
        if let Some(peer) = self.peers.get_mut(&node)
            && peer.session.lives()
        {
            peer.streams.begin(self.now_ns, key, bytes);
        }
    }

    /// Asks a peer for what it has announced, as far as there is room.
    pub(super) fn fetch(&mut self, node: NodeId) {
        let limit = self.own.settings.limits.pieced_bytes;
        let Some(peer) = self.peers.get_mut(&node) else { return };
        while let Some((call, stream)) = peer.streams.next_fetch(limit) {
            peer.session.push(Frame::Fetch { call, stream }, Vec::new(), &self.own);
        }
    }

    /// The bytes of a stream are no longer in the memory of this machine.
    pub(super) fn release_stream(&mut self, node: NodeId, key: StreamKey) {
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.streams.release(key);
        }
        self.fetch(node);
    }

    pub(super) fn fetch_arrived(&mut self, node: NodeId, key: StreamKey) -> Result<(), RuleBroken> {
        let Some(peer) = self.peers.get_mut(&node) else { return Ok(()) };
        if peer.streams.fetched(key) { Ok(()) } else { Err(RuleBroken) }
    }

    /// Moves a piece into its lane, if the lane transmits it next.
    pub(super) fn promote_piece(&mut self, node: NodeId) {
        let bytes = self.own.settings.piece_bytes;
        let Some(peer) = self.peers.get_mut(&node) else { return };
        if !peer.session.is_up() || !peer.session.lane(Lane::Bulk).has_room() {
            return;
        }
        // Copies and long payloads take turns.
        let copied_last = std::mem::take(&mut peer.copied_last);
        if !copied_last && self.promote_copy(node) {
            if let Some(peer) = self.peers.get_mut(&node) {
                peer.copied_last = true;
            }
            return;
        }
        let Some(peer) = self.peers.get_mut(&node) else { return };
        if let Some(((call, stream), piece)) = peer.streams.next_piece(self.now_ns, bytes) {
            peer.session.push(Frame::Piece { call, stream }, piece, &self.own);
        } else if copied_last {
            self.promote_copy(node);
        }
        self.announce_room(node);
    }

    pub(super) fn piece_arrived(
        &mut self,
        node: NodeId,
        mut key: StreamKey,
        piece: &[u8],
    ) -> Result<(), RuleBroken> {
        let misplaced = self.own.planted.has(Fault::PieceMisplaced);
        let Some(peer) = self.peers.get_mut(&node) else { return Ok(()) };
        if misplaced {
            key = peer.streams.first_asked().unwrap_or(key);
        }
        let bytes = match peer.streams.add(key, piece).map_err(|_unasked| RuleBroken)? {
            Added::Part => return Ok(()),
            Added::Whole(bytes) => bytes,
            Added::NoMemory => {
                match key.1 {
                    StreamKind::Call => self.call_without_memory(node, key.0),
                    StreamKind::Answer => {
                        self.release_stream(node, key);
                        self.answer_without_memory(key.0);
                    }
                }
                return Ok(());
            }
        };
        match key.1 {
            StreamKind::Call => self.call_completed(node, key.0, bytes),
            StreamKind::Answer => {
                self.release_stream(node, key);
                self.answer_completed(key.0, bytes);
            }
        }
        Ok(())
    }
}
