//! Messages that a proxy holds: the receiver is on another node, and decides there.
//!
//! A call that gives such a message up asks the proxy for it, and waits for the decision of the
//! receiver's node. So "taken or not" stays true across nodes.

use super::Endpoint;
use crate::error::Fail;
use m3ipc_abi::Code;
use m3ipc_link::SlotState;
use m3ipc_link::waiting::EndsWait;
use std::time::Duration;

/// The time that the other node has for its decision. A proxy ends a cancellation within a second.
const PATIENCE_NS: u64 = 1_500_000_000;
/// The first and the longest pause between two looks.
const PAUSES: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(1)];

impl Endpoint {
    /// Fails if the proxy of the peer has ended the message, with the code of the proxy.
    #[inline]
    pub(super) fn check_proxy(&mut self, index: u32, posted: SlotState) -> Result<(), Fail> {
        let peer = self.peers.get(index);
        if !peer.admission().may_hold() {
            return Ok(());
        }
        let Some(code) = peer.link().ended_by_proxy(posted) else { return Ok(()) };
        if code == Code::PeerBroke {
            return Err(self.conversation(index).poison(m3ipc_link::RuleBroken));
        }
        Err(code.into())
    }

    /// Waits until the proxy of the peer has decided about a message that the call gives up.
    ///
    /// # Errors
    /// -501 if there is no decision: the proxy died, or the other node does not answer in time.
    #[inline]
    pub(super) fn settle_held(&mut self, index: u32, posted: SlotState) -> Result<(), Fail> {
        let link = self.peers.get(index).link();
        if link.is_held(posted) {
            self.settle_held_slow(index, posted)
        } else if link.ended_by_proxy(posted) == Some(Code::Unknown) {
            link.abandon(posted);
            Err(Code::Unknown.into())
        } else {
            Ok(())
        }
    }

    #[cold]
    fn settle_held_slow(&mut self, index: u32, posted: SlotState) -> Result<(), Fail> {
        // Only a proxy may delay the end of a call.
        if !self.peers.get(index).admission().may_hold() {
            return Err(self.conversation(index).poison(m3ipc_link::RuleBroken));
        }
        if !self.peers.get(index).admission().is_dead() {
            self.conversation(index).publish(|talk| {
                talk.link().ask_back(posted);
                ((), EndsWait::Receive)
            });
            self.ring_again();
        }
        let until_ns = m3ipc_sys::monotonic_ns() + PATIENCE_NS;
        let [mut pause, longest] = PAUSES;
        while self.peers.get(index).link().is_held(posted) {
            // The end of this endpoint shows in its next call.
            let _ = self.receive_events();
            let is_over = self.peers.get(index).admission().is_dead()
                || m3ipc_sys::monotonic_ns() >= until_ns;
            // The proxy may have decided just before it died.
            if is_over && self.peers.get(index).link().is_held(posted) {
                self.peers.get(index).link().abandon(posted);
                return Err(Code::Unknown.into());
            }
            std::thread::sleep(pause);
            pause = longest.min(pause * 2);
        }
        self.settle_held(index, posted)
    }
}
