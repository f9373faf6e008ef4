//! The holding of messages, by a proxy that stands in for the receiver: see [`crate::held`].

use super::Link;
use crate::held;
use crate::layout::{IS_BLOCK, LONG_BYTES, PAYLOAD, TYPE};
use crate::message::{Arrival, TakenMessage};
use crate::slot::{self, Held, RuleBroken, SlotState};
use crate::words::{LinePage, Word32};
use core::sync::atomic::Ordering;
use m3ipc_abi::{Code, LONG_MAX_BYTES, PAYLOAD_BYTES};

impl<P: LinePage> Link<P> {
    /// Copies a message and holds it. `Ok(None)` if its sender withdrew it meanwhile.
    ///
    /// # Errors
    /// [`RuleBroken`] if it claims a longer payload than a link has, or a block.
    pub fn hold(
        &mut self,
        arrival: Arrival,
    ) -> Result<Option<(TakenMessage, Vec<u8>)>, RuleBroken> {
        let slot = self.peer.offset;
        let word = self.page.word32(slot + LONG_BYTES).load(Ordering::Relaxed);
        let long_bytes = word as usize;
        if word & IS_BLOCK != 0 || long_bytes > LONG_MAX_BYTES {
            return Err(RuleBroken);
        }
        let mut message = TakenMessage {
            kind: arrival.state.kind(),
            m_type: self.page.word32(slot + TYPE).load(Ordering::Relaxed).cast_signed(),
            payload: [0; PAYLOAD_BYTES],
            long_bytes,
            has_block: false,
        };
        self.page.read(slot + PAYLOAD, &mut message.payload);
        let mut long = vec![0; long_bytes];
        self.page.read(self.side.other().long(), &mut long);
        let is_held = held::hold(self.peer_word(), arrival.state);
        Ok(is_held.then_some((message, long)))
    }

    /// The receiver has taken a held message. `false` if its sender waits no longer. Afterwards,
    /// wake the sender.
    pub fn take_held(&mut self, message: SlotState) -> bool {
        let is_taken = held::take(self.peer_word(), message);
        if is_taken && message.kind() == slot::MessageKind::Request {
            self.owed = Some(message);
        }
        is_taken
    }

    /// The receiver never gets a held message, for the reason of this code. Afterwards, wake the
    /// sender.
    pub fn give_back(&mut self, message: SlotState, code: Code) -> bool {
        self.write_code(code);
        held::give_back(self.peer_word(), message)
    }

    /// No answer comes to a taken request, for the reason of this code. Afterwards, wake the
    /// sender.
    pub fn lose_answer(&mut self, message: SlotState, code: Code) -> bool {
        self.owed = None;
        self.write_code(code);
        held::lose_answer(self.peer_word(), message)
    }

    /// Nobody reads the type of a held message any more: it carries the code.
    fn write_code(&self, code: Code) {
        let cell = self.page.word32(self.peer.offset + TYPE);
        cell.store(code.number().cast_unsigned(), Ordering::Relaxed);
    }

    /// The code with which a proxy ended this message of this side, if it did. Anything else than
    /// a code is a broken rule.
    #[must_use]
    pub fn ended_by_proxy(&self, posted: SlotState) -> Option<Code> {
        let held = held::state(self.own_word(), posted)?;
        if !matches!(held, Held::GivenBack | Held::Unanswered) {
            return None;
        }
        let number = self.page.word32(self.own.offset + TYPE).load(Ordering::Relaxed);
        Some(Code::from_number(number.cast_signed()).unwrap_or(Code::PeerBroke))
    }

    /// Leaves a held message as if it had not been held.
    pub fn let_go(&mut self, message: SlotState) -> bool {
        held::let_go(self.peer_word(), message)
    }

    /// Whether the sender of a held message still waits, and whether it wants the message back.
    #[must_use]
    pub fn holding(&self, message: SlotState) -> Option<Held> {
        held::state(self.peer_word(), message)
    }

    /// Whether a proxy holds this message of this side, and has not decided yet.
    #[must_use]
    pub fn is_held(&self, posted: SlotState) -> bool {
        slot::is_held(self.own_word(), posted)
    }

    /// Asks for a held message of this side. Afterwards, wake the proxy.
    pub fn ask_back(&self, posted: SlotState) {
        held::ask_back(self.own_word(), posted);
    }
}
