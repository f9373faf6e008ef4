//! Messages that a proxy holds: the receiver is on another node, and decides there.
//!
//! A call that gives such a message up asks the proxy for it, and waits for the decision of the
//! receiver's node. So "taken or not" stays true across nodes. [`m3ipc_link::held::take_back`] has
//! the order of the steps.

use super::Endpoint;
use super::settle::failure_of;
use crate::error::Fail;
use crate::timeout::Timeout;
use m3ipc_abi::Code;
use m3ipc_link::ends::Cause;
use m3ipc_link::held::{TakingBack, take_back};
use m3ipc_link::waiting::EndsWait;
use m3ipc_link::{RequestCanceller, SlotState, Withdrawing};
use std::time::Duration;

/// The time that the other node has for its decision. A proxy ends a cancellation within a second.
const PATIENCE_NS: u64 = 1_500_000_000;
/// The first and the longest pause between two looks.
const PAUSES: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(1)];

/// A message that its sender gives up, and that a proxy holds.
struct GivenUp<'a> {
    endpoint: &'a mut Endpoint,
    index: u32,
    /// The right to take it back. It stays with its link, even if another one gets the index.
    message: &'a RequestCanceller,
    until_ns: u64,
    pause: Duration,
}

impl GivenUp<'_> {
    fn is_proxy_dead(&self) -> bool {
        let peer = self.endpoint.peers.find_index(self.index);
        peer.is_none_or(|peer| peer.admission().is_dead())
    }
}

impl TakingBack for GivenUp<'_> {
    type Error = Fail;

    fn withdraw(&mut self) -> Result<Withdrawing, Fail> {
        self.message.withdraw().map_err(|broken| match self.endpoint.peers.find_index(self.index) {
            Some(_) => self.endpoint.conversation(self.index).poison(broken),
            None => Code::PeerBroke.into(),
        })
    }

    fn ask_back(&mut self) {
        if self.is_proxy_dead() {
            return;
        }
        let message = self.message;
        self.endpoint.conversation(self.index).publish(|_talk| {
            message.ask_back();
            ((), EndsWait::Receive)
        });
        self.endpoint.ring_again();
    }

    fn await_proxy(&mut self) -> bool {
        while self.message.is_held() {
            // The end of this endpoint shows in its next call.
            let _ = self.endpoint.receive_events();
            if self.is_proxy_dead() || m3ipc_sys::monotonic_ns() >= self.until_ns {
                return false;
            }
            std::thread::sleep(self.pause);
            let [_, longest] = PAUSES;
            self.pause = longest.min(self.pause * 2);
        }
        true
    }

    fn leave_behind(&mut self) -> bool {
        self.message.leave_behind()
    }
}

impl Endpoint {
    /// Fails if the proxy of the peer has ended the message, with the code of the proxy.
    #[inline]
    pub(super) fn check_proxy(&mut self, index: u32, posted: SlotState) -> Result<(), Fail> {
        if !self.peers.get(index).admission().may_hold() {
            return Ok(());
        }
        match self.conversation(index).on_link(|link| link.ended_by_proxy(posted))? {
            Some((fate, code)) => Err(failure_of(fate, Cause::ByProxy(code), code.into())),
            None => Ok(()),
        }
    }

    /// Takes a message back that the call gives up. `false` if the receiver has taken it.
    ///
    /// # Errors
    /// -501 if nobody knows: the proxy of the peer died, or the other node does not answer in time.
    #[inline]
    pub(super) fn take_message_back(
        &mut self,
        index: u32,
        posted: SlotState,
    ) -> Result<bool, Fail> {
        let withdrawn = self.conversation(index).on_link(|link| link.withdraw(posted))?;
        if withdrawn == Withdrawing::Held {
            let message = self.peers.get(index).link().canceller(posted);
            return self.take_held_back(index, &message, Timeout::Never);
        }
        is_back(withdrawn)
    }

    /// The same for a message that a proxy may hold, within a time limit.
    #[cold]
    pub(super) fn take_held_back(
        &mut self,
        index: u32,
        message: &RequestCanceller,
        limit: Timeout,
    ) -> Result<bool, Fail> {
        let patience_ns = m3ipc_sys::monotonic_ns() + PATIENCE_NS;
        let until_ns = patience_ns.min(limit.deadline().at_ns);
        let [pause, _] = PAUSES;
        is_back(take_back(&mut GivenUp { endpoint: self, index, message, until_ns, pause })?)
    }
}

fn is_back(withdrawn: Withdrawing) -> Result<bool, Fail> {
    match withdrawn {
        Withdrawing::Withdrawn => Ok(true),
        Withdrawing::Taken => Ok(false),
        Withdrawing::Held | Withdrawing::Unknown => Err(Code::Unknown.into()),
    }
}
