//! What became of a message that was given up.

use m3ipc_link::ends::Delivery;

/// What became of a message that was given up: the result of [`Endpoint::withdraw`].
///
/// [`Endpoint::withdraw`]: super::Endpoint::withdraw
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the receiver may have taken the message"]
pub enum Withdrawal {
    /// The receiver never takes it.
    Withdrawn,
    /// The receiver has taken it.
    Taken,
    /// The receiver may have taken it: it is on another node, which did not say so in time, or it
    /// broke the rules. Also for a message whose end [`Endpoint::poll_send`] has told already.
    ///
    /// [`Endpoint::poll_send`]: super::Endpoint::poll_send
    Unknown,
}

impl Withdrawal {
    pub(super) fn of(is_back: bool) -> Self {
        if is_back { Self::Withdrawn } else { Self::Taken }
    }

    /// The end of a message that failed while its link went.
    pub(super) fn of_failed(delivery: Delivery) -> Self {
        match delivery {
            Delivery::NotTaken => Self::Withdrawn,
            Delivery::Taken => Self::Taken,
            Delivery::Unknown => Self::Unknown,
        }
    }
}
