//! The cancellation of one request from outside its link: by another thread, or after the end of
//! the link.

use super::{Cancelled, Link};
use crate::layout::LinkSide;
use crate::slot::{self, RuleBroken, SlotState};
use m3ipc_shm::SharedPage;

/// Cancels one posted request. While it may act, the link posts nothing else.
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
        slot::cancel(self.page.word64(self.side.slot()), self.request, self.may_peer_hold)
    }
}
