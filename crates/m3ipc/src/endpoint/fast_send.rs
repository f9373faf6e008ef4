//! The fast path of send and notify, as that of [`super::fast`].
//!
//! ```text
//! send: checks ── post ── poll the take ── sleep          notify: checks ── count up ── wake
//!         │                    │             │                      │
//!         └ slow path          └─────────────┴ slow wait            └ slow path
//! ```

use super::Endpoint;
use super::daemon_session::DaemonSession;
use super::fast::{NotFound, answer_ordinary};
use super::fast_pauses::{Look, Looker, Pauses};
use super::fast_payload::Outward;
use crate::timeout::Timeout;
use core::ops::ControlFlow;
use m3ipc_abi::{Address, Message, Verb};
use m3ipc_link::waiting::{EndsWait, may_sleep_after_publication};
use m3ipc_link::{Counter, Link, MessageKind, SlotState, WaitCall};

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

/// The look for the take of the last message.
struct ForTake<'a> {
    link: &'a Link,
    session: &'a DaemonSession,
}

impl Looker for ForTake<'_> {
    type Found = ();

    #[inline(always)]
    fn look(&self) -> Look<()> {
        if self.link.is_last_taken() {
            return ControlFlow::Break(Some(()));
        }
        // A message of the peer may cross this one, or follow its take.
        if self.session.has_events() || !self.link.is_quiet() {
            return ControlFlow::Break(self.link.is_last_taken().then_some(()));
        }
        ControlFlow::Continue(())
    }
}

impl Endpoint {
    /// Makes the ordinary case of a send.
    #[inline(always)]
    pub(super) fn send_fast(
        &mut self,
        to: Address,
        (message, beside): (&Message, impl Outward),
        limit: Timeout,
    ) -> Result<(), LeftSend> {
        if limit == Timeout::NoWait || !self.membership.may(Verb::Send) || !self.is_ordinary() {
            return Err(LeftSend::Call);
        }
        let Some((index, peer)) = self.peers.find_again(to) else { return Err(LeftSend::Call) };
        if !peer.admission().admits(MessageKind::Send) {
            return Err(LeftSend::Call);
        }
        // A wake-up may take the time of a request to the daemon, which the limit must cover.
        if limit != Timeout::Never && !peer.is_awake() {
            return Err(LeftSend::Call);
        }
        // A peer that awaits an answer takes any message as the answer.
        if peer.link().is_asked() {
            let Some(may_sleep) = answer_ordinary(peer, message, beside) else {
                return Err(LeftSend::Call);
            };
            self.end_answer(index, may_sleep);
            return Ok(());
        }
        // Some dozen cycles, which pass beside the checks.
        let stamp = m3ipc_sys::ticks();
        if !peer.link().is_ready_to_post() {
            return Err(LeftSend::Call);
        }
        // The point of no return: the message is posted.
        let posted = beside.post(peer.link_mut(), MessageKind::Send, stamp, message);
        m3ipc_sys::pause_point("client.posted");
        if may_sleep_after_publication(peer, EndsWait::Receive) {
            self.wake_if_ended(index, EndsWait::Receive);
        }
        m3ipc_sys::pause_point("client.woken");
        self.wait_for_take((index, to), posted, limit)?;
        self.session.page().count(Counter::Sent);
        Ok(())
    }

    /// Waits until the peer has taken the last message.
    #[inline(always)]
    fn wait_for_take(
        &mut self,
        (index, to): (u32, Address),
        posted: SlotState,
        limit: Timeout,
    ) -> Result<(), LeftSend> {
        let shares_cpu = self.seems_to_share_cpu(index);
        let (call, spin) = (WaitCall::Send, self.waiter.spin());
        let (link, session) = (self.peers.get(index).link(), &self.session);
        let page = session.page();
        let pauses = Pauses { spin, page, shares_cpu, limit, call, peer: to };
        let (taken, _) = pauses.until(ForTake { link, session });
        match taken {
            Some(()) => Ok(()),
            None if !self.may_sleep(limit) => Err(LeftSend::Take(index, posted)),
            None => self.sleep_until_taken(index).map_err(|why| match why {
                NotFound::Yet => LeftSend::Take(index, posted),
                NotFound::Signal => LeftSend::Signal(index, posted),
            }),
        }
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
