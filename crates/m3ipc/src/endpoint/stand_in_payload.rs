//! The large payload of a message for another node: a stand-in accepts its block, copies the bytes
//! and holds the message.
//!
//! The bytes are copied before the message is held. So a message that comes back has lost nothing:
//! its sender has the payload itself.

use super::Endpoint;
use super::daemon_limit::DaemonLimit;
use super::payload::treatment;
use crate::area::Block;
use crate::error::Fail;
use crate::timeout::Timeout;
use m3ipc_abi::{Address, Code, LARGE_MAX_BYTES};
use m3ipc_area::ClaimedBlockName;
use m3ipc_link::{Arrival, SlotRefusal, TakenMessage};

impl Endpoint {
    /// Holds a message that brings a block: the message and the bytes. `None` if it was refused,
    /// withdrawn, or has to wait for the daemon.
    #[cold]
    pub(super) fn hold_with_block(
        &mut self,
        index: u32,
        from: Address,
        arrival: Arrival,
    ) -> Option<(TakenMessage, Vec<u8>)> {
        let brought = self.peers.get(index).link().incoming_block_name();
        let name = ClaimedBlockName::decode(&brought);
        let accepted = match name {
            Some(name) if name.is_payload() => self.accept_payload(from, &name),
            // Other blocks stay on their node.
            Some(_) => Err(Code::NoPayload.into()),
            None => Err(Code::PeerBroke.into()),
        };
        let block = match accepted {
            Ok(block) => block,
            Err(fail) => {
                if let Some(refusal) = treatment(&fail) {
                    self.conversation(index).refuse(arrival, refusal);
                    self.ring_again();
                }
                return None;
            }
        };
        let bytes = block.to_vec();
        if bytes.len() != block.len() {
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
                Some((message, bytes))
            }
            None => {
                block.refuse();
                None
            }
        }
    }

    fn accept_payload(&mut self, from: Address, name: &ClaimedBlockName) -> Result<Block, Fail> {
        let limit = DaemonLimit::of(Timeout::NoWait.deadline());
        let block = self.accept_block(from, name, limit)?;
        if block.len() > LARGE_MAX_BYTES {
            block.refuse();
            return Err(Fail::from(Code::NoPayload));
        }
        Ok(block)
    }
}
