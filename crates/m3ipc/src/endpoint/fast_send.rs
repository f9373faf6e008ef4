//! The fast path of send and notify, as that of [`super::fast`].
//!
//! ```text
//! send: checks ── post ── poll the take ── sleep          notify: checks ── count up ── wake
//!         │                    │             │                      │
//!         └ slow path          └─────────────┴ slow wait            └ slow path
//! ```

use super::Endpoint;
use super::fast::NotFound;
use crate::timeout::Timeout;
use m3ipc_abi::{Address, Message, Verb};
use m3ipc_link::waiting::{EndsWait, may_sleep_after_publication};
use m3ipc_link::{Counter, MessageKind, SlotState, WaitCall, WaitStrategy};

/// The part of a send that is left to the slow path.
#[derive(Debug)]
pub(super) enum LeftSend {
    /// The whole call.
    Call,
    /// The wait for the take: the message is posted on the link of this index.
    Take(u32, SlotState),
    /// The end of the call by a signal, unless the message was taken: it is posted.
    Signal(u32, SlotState),
}

impl Endpoint {
    /// Makes the ordinary case of a send.
    #[inline(always)]
    pub(super) fn send_fast(
        &mut self,
        to: Address,
        message: &Message,
        limit: Timeout,
    ) -> Result<(), LeftSend> {
        if limit == Timeout::NoWait || !self.membership.may(Verb::Send) || !self.is_ordinary() {
            return Err(LeftSend::Call);
        }
        let Some((index, peer)) = self.peers.find_again(to) else { return Err(LeftSend::Call) };
        // A peer that awaits an answer takes any message as the answer, on the slow path.
        if !peer.admission().admits(MessageKind::Send) || !peer.link().is_ready_to_post() {
            return Err(LeftSend::Call);
        }
        // A wake-up may take the time of a request to the daemon, which the limit must cover.
        if limit != Timeout::Never && !peer.is_awake() {
            return Err(LeftSend::Call);
        }
        // The point of no return: the message is posted.
        let Message { m_type, payload, .. } = message;
        let stamp = m3ipc_sys::ticks();
        let posted = peer.link_mut().post_short(MessageKind::Send, stamp, *m_type, payload);
        m3ipc_sys::pause_point("client.posted");
        if may_sleep_after_publication(peer, EndsWait::Receive) {
            self.wake_if_ended(index, EndsWait::Receive);
        }
        m3ipc_sys::pause_point("client.woken");
        if !self.look_for_take(index, to, limit) {
            if limit != Timeout::Never || self.waiter.strategy() != WaitStrategy::Block {
                return Err(LeftSend::Take(index, posted));
            }
            self.sleep_until_taken(index).map_err(|why| match why {
                NotFound::Yet => LeftSend::Take(index, posted),
                NotFound::Signal => LeftSend::Signal(index, posted),
            })?;
        }
        self.session.page().count(Counter::Sent);
        Ok(())
    }

    /// Polls a link until the peer has taken the last message. `false` if the slow path must wait.
    #[inline(always)]
    fn look_for_take(&mut self, index: u32, to: Address, limit: Timeout) -> bool {
        if self.peers.get(index).link().is_last_taken() {
            return true;
        }
        if self.session.has_events() {
            return false;
        }
        let Some(mut spin) = self.begin_pauses(WaitCall::Send, Some(index), to, limit) else {
            return false;
        };
        let link = self.peers.get(index).link();
        let taken = loop {
            if !spin.pause() {
                break false;
            }
            if link.is_last_taken() {
                break true;
            }
            // A message of the peer may cross this one.
            if self.session.has_events() || !link.is_quiet() {
                break false;
            }
        };
        self.end_pauses(spin, taken);
        taken
    }

    /// Makes the ordinary case of a notify. `false` if nothing was published.
    #[inline(always)]
    pub(super) fn notify_fast(&mut self, to: Address, bits: u64) -> bool {
        if !self.membership.may(Verb::Notify) || !self.is_ordinary() {
            return false;
        }
        let Some((index, peer)) = self.peers.find_again(to) else { return false };
        if !peer.admission().admits_notification() {
            return false;
        }
        // The point of no return: the notification is pending.
        peer.link().notify(bits);
        if may_sleep_after_publication(peer, EndsWait::Receive) {
            self.wake_if_ended(index, EndsWait::Receive);
        }
        self.session.page().count(Counter::Notified);
        true
    }
}
