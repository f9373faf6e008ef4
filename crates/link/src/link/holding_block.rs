//! The holding of a message that brings a block: see [`super::holding`].

use super::Link;
use crate::held;
use crate::message::{Arrival, TakenMessage};
use crate::words::LinePage;

impl<P: LinePage> Link<P> {
    /// Copies a message whose block has been accepted, and holds it. `None` if its sender withdrew
    /// it meanwhile. The caller has the bytes of the block.
    pub fn hold_with_block(&mut self, arrival: Arrival) -> Option<TakenMessage> {
        let head = self.peer_head();
        let message = TakenMessage {
            kind: arrival.state.kind(),
            m_type: head.m_type,
            payload: self.peer_payload(),
            long_bytes: 0,
            has_block: head.has_block(),
        };
        held::hold(self.peer_word(), arrival.state).then_some(message)
    }
}
