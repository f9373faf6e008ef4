//! The cancellation of one message from outside its link: by another thread, or after the end of
//! the link.

use super::{Cancelled, Link, Withdrawing};
use crate::held;
use crate::layout::LinkSide;
use crate::slot::{self, MessageFate, RuleBroken, SlotState};
use core::sync::atomic::AtomicU64;
use m3ipc_shm::SharedPage;

/// Cancels one posted message. While it may act, the link posts nothing else.
#[derive(Debug)]
pub struct RequestCanceller {
    page: SharedPage,
    side: LinkSide,
    request: SlotState,
    may_peer_hold: bool,
}

impl Link {
    /// The right to cancel this request later.
    #[must_use]
    pub fn canceller(&self, request: SlotState) -> RequestCanceller {
        let (side, may_peer_hold) = (self.side, self.may_peer_hold);
        RequestCanceller { page: self.page.share(), side, request, may_peer_hold }
    }
}

impl RequestCanceller {
    /// Ends the request; see [`Link::cancel`].
    ///
    /// # Errors
    /// [`RuleBroken`] if the word follows from no rule.
    pub fn cancel(&self) -> Result<Cancelled, RuleBroken> {
        slot::cancel(self.word(), self.request, self.may_peer_hold)
    }

    /// Takes the message back, unless the peer has taken or holds it.
    ///
    /// # Errors
    /// [`RuleBroken`] if the word follows from no rule.
    pub fn withdraw(&self) -> Result<Withdrawing, RuleBroken> {
        slot::withdraw(self.word(), self.request, self.may_peer_hold)
    }

    /// Whether a proxy holds the message, and has not decided yet.
    #[must_use]
    pub fn is_held(&self) -> bool {
        let fate = slot::fate(self.word(), self.request, self.may_peer_hold);
        matches!(fate, MessageFate::Held(held) if held.is_undecided())
    }

    /// Asks for the held message. Afterwards, wake the proxy.
    pub fn ask_back(&self) {
        held::ask_back(self.word(), self.request);
    }

    /// Leaves the held message behind. `false` if it is not held any more.
    #[must_use]
    pub fn leave_behind(&self) -> bool {
        held::leave_behind(self.word(), self.request)
    }

    fn word(&self) -> &AtomicU64 {
        self.page.word64(self.side.slot())
    }
}
