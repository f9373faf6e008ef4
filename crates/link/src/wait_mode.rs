//! The wait mode of an endpoint: whether, and how, a peer must wake it.

use m3ipc_abi::{ANY, Address};

/// The wait mode, as the status page publishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitMode {
    /// The endpoint polls.
    Awake,
    /// It sleeps on the wake words of its links and awaits this source (or ANY).
    OnLinks(Address),
    /// It sleeps on its doorbell and awaits this source (or ANY).
    AtDoorbell(Address),
    /// It sleeps on its doorbell and awaits every source, and every take of its own messages.
    AtDoorbellForTakes,
}

/// The action that wakes a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeAction {
    /// None: the peer polls, or awaits another source.
    None,
    /// [`Link::wake_peer`](crate::Link::wake_peer).
    WakeWord,
    /// Ring the peer's doorbell.
    Doorbell,
}

impl WaitMode {
    #[inline]
    pub(crate) const fn encode(self) -> u64 {
        match self {
            Self::Awake => 0,
            Self::OnLinks(source) => 1 | (source.0.cast_unsigned() as u64) << 32,
            Self::AtDoorbell(source) => 2 | (source.0.cast_unsigned() as u64) << 32,
            Self::AtDoorbellForTakes => 3,
        }
    }

    /// Every word has a meaning. At worst, a hostile owner is not woken.
    #[inline]
    pub(crate) fn decode(word: u64) -> Self {
        let source = Address(((word >> 32) as u32).cast_signed());
        match word & 0xff {
            1 => Self::OnLinks(source),
            2 => Self::AtDoorbell(source),
            3 => Self::AtDoorbellForTakes,
            _ => Self::Awake,
        }
    }

    /// The source that a sleeping endpoint awaits.
    #[must_use]
    pub fn source(self) -> Option<Address> {
        match self {
            Self::Awake => None,
            Self::OnLinks(source) | Self::AtDoorbell(source) => Some(source),
            Self::AtDoorbellForTakes => Some(ANY),
        }
    }

    /// The action that wakes an endpoint in this mode if it awaits `own` or ANY.
    #[must_use]
    #[inline]
    pub fn wake_action(self, own: Address) -> WakeAction {
        match self {
            Self::OnLinks(source) if source == ANY || source == own => WakeAction::WakeWord,
            Self::AtDoorbell(source) if source == ANY || source == own => WakeAction::Doorbell,
            Self::AtDoorbellForTakes => WakeAction::Doorbell,
            _ => WakeAction::None,
        }
    }

    /// The action that wakes an endpoint in this mode if it awaits exactly `own`, or every take.
    #[must_use]
    #[inline]
    pub fn exact_wake_action(self, own: Address) -> WakeAction {
        if self.source() == Some(own) || self == Self::AtDoorbellForTakes {
            self.wake_action(own)
        } else {
            WakeAction::None
        }
    }
}
