//! The holding of a message that brings a block: see [`super::holding`].

use super::Link;
use crate::held;
use crate::layout::{IS_BLOCK, LONG_BYTES, PAYLOAD, TYPE};
use crate::message::{Arrival, TakenMessage};
use crate::words::{LinePage, Word32};
use core::sync::atomic::Ordering;
use m3ipc_abi::PAYLOAD_BYTES;

impl<P: LinePage> Link<P> {
    /// Copies a message whose block has been accepted, and holds it. `None` if its sender withdrew
    /// it meanwhile. The caller has the bytes of the block.
    pub fn hold_with_block(&mut self, arrival: Arrival) -> Option<TakenMessage> {
        let slot = self.peer.offset;
        let word = self.page.word32(slot + LONG_BYTES).load(Ordering::Relaxed);
        let mut message = TakenMessage {
            kind: arrival.state.kind(),
            m_type: self.page.word32(slot + TYPE).load(Ordering::Relaxed).cast_signed(),
            payload: [0; PAYLOAD_BYTES],
            long_bytes: 0,
            has_block: word & IS_BLOCK != 0,
        };
        self.page.read(slot + PAYLOAD, &mut message.payload);
        held::hold(self.peer_word(), arrival.state).then_some(message)
    }
}
