//! The holding of messages, by a proxy that stands in for the receiver: see [`crate::held`].

use super::Link;
use crate::ends::Fate;
use crate::held;
use crate::message::{Arrival, TakenMessage};
use crate::slot::{self, Held, MessageFate, RuleBroken, SlotState};
use crate::words::{LinePage, Word32};
use core::sync::atomic::Ordering;
use m3ipc_abi::Code;

impl<P: LinePage> Link<P> {
    /// Copies a message and holds it. `Ok(None)` if its sender withdrew it meanwhile.
    ///
    /// # Errors
    /// [`RuleBroken`] if it claims a longer payload than a link has, or a block.
    pub fn hold(
        &mut self,
        arrival: Arrival,
    ) -> Result<Option<(TakenMessage, Vec<u8>)>, RuleBroken> {
        let head = self.peer_head();
        let long_bytes = head.long_bytes().ok_or(RuleBroken)?;
        let message = TakenMessage {
            kind: arrival.state.kind(),
            m_type: head.m_type,
            payload: self.peer_payload(),
            long_bytes,
            has_block: false,
        };
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

    /// Nobody knows whether the receiver has taken a held message. Afterwards, wake the sender.
    pub fn lose(&mut self, message: SlotState) -> bool {
        held::lose(self.peer_word(), message)
    }

    /// No answer comes to a taken request, for the reason of this code. Afterwards, wake the
    /// sender.
    pub fn lose_answer(&mut self, message: SlotState, code: Code) -> bool {
        self.owed = None;
        self.write_code(code);
        held::lose_answer(self.peer_word(), message)
    }

    /// The sender may wait no longer, and may have posted another message: so the code does not
    /// lie in its cell.
    fn write_code(&self, code: Code) {
        let cell = self.page.word32(self.side.proxy_code());
        // The change of the state word publishes it.
        cell.store(code.number().cast_unsigned(), Ordering::Relaxed);
    }

    /// What a proxy has said of this message of this side, and with which code, if it ended it.
    ///
    /// # Errors
    /// [`RuleBroken`] if that is no code.
    pub fn ended_by_proxy(&self, posted: SlotState) -> Result<Option<(Fate, Code)>, RuleBroken> {
        let fate = match self.fate(posted) {
            MessageFate::Held(Held::GivenBack) => Fate::NotTaken,
            MessageFate::Held(Held::Unanswered) => Fate::Taken,
            MessageFate::Held(Held::Lost) => return Ok(Some((Fate::Unknown, Code::Unknown))),
            _ => return Ok(None),
        };
        Ok(Some((fate, self.proxy_code()?)))
    }

    /// The code of the proxy for its last end of a message of this side: for a message that ended
    /// as [unanswered](slot::Cancelled::Unanswered).
    ///
    /// # Errors
    /// [`RuleBroken`] if that is no code.
    pub fn proxy_code(&self) -> Result<Code, RuleBroken> {
        let cell = self.page.word32(self.side.other().proxy_code());
        let number = cell.load(Ordering::Relaxed).cast_signed();
        Code::from_number(number).ok_or(RuleBroken)
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

    /// From now on the peer may hold messages: it is the proxy of the node.
    pub fn let_peer_hold(&mut self) {
        self.may_peer_hold = true;
    }

    /// Whether a proxy holds this message of this side, and has not decided yet.
    #[must_use]
    pub fn is_held(&self, posted: SlotState) -> bool {
        matches!(self.fate(posted), MessageFate::Held(held) if held.is_undecided())
    }

    /// Whether the receiver has taken this message of this side, or may have taken it on another
    /// node.
    #[must_use]
    pub fn may_be_taken(&self, posted: SlotState) -> bool {
        match self.fate(posted) {
            MessageFate::Taken => true,
            MessageFate::Held(held) => held != Held::GivenBack,
            MessageFate::Open | MessageFate::Refused(_) | MessageFate::Gone => false,
        }
    }

    /// Asks for a held message of this side. Afterwards, wake the proxy.
    pub fn ask_back(&self, posted: SlotState) {
        held::ask_back(self.own_word(), posted);
    }

    /// Leaves a held message of this side behind. `false` if it is not held any more.
    pub fn leave_behind(&self, posted: SlotState) -> bool {
        held::leave_behind(self.own_word(), posted)
    }
}
