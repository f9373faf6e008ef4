//! Blocks for another node, and large payloads, which travel as blocks: a stand-in copies their
//! bytes and holds the message.
//!
//! | what came | its block | when the message comes back |
//! |---|---|---|
//! | a large payload | accepted and freed at once | the sender has the payload itself |
//! | a block that changes owner | copied; accepted and freed after the take | the sender's still |
//! | a shared block | read, and left at once | its sender shares it with nobody |
//!
//! The bytes are copied before the message is held. A block of the program is given and not
//! accepted until its message is taken. So its giver gets it back at any time before, also from a
//! proxy that was killed.

use super::Endpoint;
use super::buffer::Buffer;
use super::daemon_limit::DaemonLimit;
use super::payload::treatment;
use super::request_end::RequestEnd;
use crate::area::Block;
use crate::error::Fail;
use crate::timeout::Timeout;
use m3ipc_abi::{Address, BLOCK_NAME_BYTES, Code};
use m3ipc_area::ClaimedBlockName;
use m3ipc_link::waiting::EndsWait;
use m3ipc_link::{Arrival, SlotRefusal, TakenMessage};

/// The longest payload, and the longest content of a block, that a stand-in copies.
pub const COPIED_MAX_BYTES: usize = 256 << 20;

/// What a stand-in has copied beside a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Copied {
    pub(crate) bytes: Vec<u8>,
    /// Whether the bytes are the content of a block.
    pub(crate) is_block: bool,
    /// The block that is to be freed after the take.
    pub(super) given: Option<ClaimedBlockName>,
}

impl Endpoint {
    /// Holds a message that brings a block: the message and the bytes. `None` if it was given back,
    /// withdrawn, or has to wait for the daemon.
    #[cold]
    pub(super) fn hold_with_block(
        &mut self,
        (index, from): (u32, Address),
        arrival: Arrival,
        brought: &[u8; BLOCK_NAME_BYTES],
    ) -> Option<(TakenMessage, Copied)> {
        let Some(name) = ClaimedBlockName::decode(brought) else {
            self.conversation(index).refuse(arrival, SlotRefusal::Retry);
            self.ring_again();
            return None;
        };
        if !name.is_payload() {
            return self.hold_with_own_block(index, from, arrival, &name);
        }
        let block = match self.accept_to_copy(from, &name) {
            Ok(block) => block,
            Err(fail) if fail.code == Code::MsgSize => {
                let _ = self.conversation(index).link().hold_with_block(arrival)?;
                self.give_back_at_once(index, arrival, Code::MsgSize);
                return None;
            }
            Err(fail) => {
                if let Some(refusal) = treatment(&fail) {
                    self.conversation(index).refuse(arrival, refusal);
                    self.ring_again();
                }
                return None;
            }
        };
        let mut bytes = Vec::new();
        if Buffer::of(&mut bytes).copy_block(&block) != block.len() {
            block.refuse();
            self.conversation(index).refuse(arrival, SlotRefusal::Final);
            self.ring_again();
            return None;
        }
        self.copies.payload_copied(bytes.len());
        let held = self.conversation(index).link().hold_with_block(arrival);
        match held {
            Some(message) => {
                if self.is_pair_with(block.state(), from) && block.state().is_internal() {
                    self.areas.suggest_pair_area(from, block.area());
                }
                Some((message, Copied { bytes, ..Copied::default() }))
            }
            None => {
                block.refuse();
                None
            }
        }
    }

    /// The same for a block of the program. Only large payloads may be refused: a message whose
    /// block cannot be copied is held, and given back at once.
    fn hold_with_own_block(
        &mut self,
        index: u32,
        from: Address,
        arrival: Arrival,
        name: &ClaimedBlockName,
    ) -> Option<(TakenMessage, Copied)> {
        let limit = DaemonLimit::of(Timeout::NoWait.deadline());
        // If the sender takes the message back meanwhile, it is not held.
        let copied = match name.is_shared() {
            true => self.copy_shared(from, name, limit),
            false => self.copy_given(from, name, limit),
        };
        m3ipc_sys::pause_point("proxy.block_copied");
        let copied = match copied {
            Ok(bytes) => Ok(bytes),
            Err(fail) if treatment(&fail).is_none() => return None,
            Err(fail) if fail.code == Code::MsgSize => Err(Code::MsgSize),
            Err(_) => Err(Code::NoPayload),
        };
        let message = self.conversation(index).link().hold_with_block(arrival)?;
        match copied {
            Ok(bytes) => {
                self.copies.payload_copied(bytes.len());
                let given = (!name.is_shared()).then_some(*name);
                Some((message, Copied { bytes, is_block: true, given }))
            }
            Err(code) => {
                self.give_back_at_once(index, arrival, code);
                None
            }
        }
    }

    /// Ends a message that is held since just now.
    fn give_back_at_once(&mut self, index: u32, arrival: Arrival, code: Code) {
        self.conversation(index).publish(|talk| {
            talk.link().give_back(arrival.state, code);
            ((), EndsWait::OnThisLink)
        });
        self.ring_again();
    }

    fn accept_to_copy(&mut self, from: Address, name: &ClaimedBlockName) -> Result<Block, Fail> {
        let limit = DaemonLimit::of(Timeout::NoWait.deadline());
        let block = self.accept_block(from, name, limit)?;
        if block.len() > COPIED_MAX_BYTES {
            block.refuse();
            return Err(Fail::from(Code::MsgSize));
        }
        Ok(block)
    }

    /// Frees the block of a message that was taken just now. A giver that has ended meanwhile needs
    /// nothing of this: its allocator member frees what a dead member gave.
    #[cold]
    pub(super) fn free_given(&mut self, from: Address, name: &ClaimedBlockName) {
        if self.areas.get(name.area()).is_some() {
            let limit = DaemonLimit::of(Timeout::NoWait.deadline());
            drop(self.accept_block(from, name, limit));
        }
    }

    /// Bytes of the blocks that this endpoint has made for others and that are not free again.
    #[cold]
    pub(crate) fn bytes_out(&mut self) -> u64 {
        // A block is free after two sweeps.
        self.sweep_areas();
        self.sweep_areas();
        let in_use = self.areas.all().map(|area| {
            let (free, total) = area.member().free_and_total_bytes();
            total.saturating_sub(free)
        });
        in_use.sum()
    }

    /// Copies the block of an answer that was taken just now, and frees the block.
    ///
    /// # Errors
    /// -505: the block could not be accepted, or is too long.
    #[cold]
    pub(super) fn copy_block_of_answer(
        &mut self,
        index: u32,
        incoming: &TakenMessage,
        buffer: &mut Buffer<'_>,
    ) -> Result<RequestEnd, Fail> {
        let Some(brought) = self.areas.take_incoming() else {
            // It was a large payload.
            return Ok(self.answered(index, incoming));
        };
        let message = self.message_of(index, incoming);
        let block = brought.ok().filter(|block| block.len() <= COPIED_MAX_BYTES);
        let copied = block.filter(|block| buffer.copy_block(block) == block.len());
        let Some(block) = copied else { return Err(Code::AnswerLost.into()) };
        self.copies.payload_copied(block.len());
        Ok(RequestEnd::ByBlock(message, block.len()))
    }
}
