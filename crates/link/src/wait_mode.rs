//! The wait mode of an endpoint: whether, and how, a peer must wake it.

use m3ipc_abi::{ANY, Address};

/// The wait mode, as the status page publishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitMode {
    /// The endpoint polls.
    Awake,
    /// It sleeps on the wake words of its links and awaits this source (or ANY).
    OnLinks(Address),
    /// It sleeps on the wake words of its links and awaits this source. A message of any other
    /// endpoint wakes it too, because it takes over the priority of that one.
    OnLinksForRaises(Address),
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

/// The bit of a word that adds the takes to [`WaitMode::AtDoorbell`].
const FOR_TAKES: u64 = 1 << 8;
/// The bit of a word that adds the messages of all others to [`WaitMode::OnLinks`].
const FOR_RAISES: u64 = 1 << 9;

impl WaitMode {
    #[inline]
    pub(crate) const fn encode(self) -> u64 {
        match self {
            Self::Awake => 0,
            Self::OnLinks(source) => 1 | (source.0.cast_unsigned() as u64) << 32,
            Self::OnLinksForRaises(source) => Self::OnLinks(source).encode() | FOR_RAISES,
            Self::AtDoorbell(source) => 2 | (source.0.cast_unsigned() as u64) << 32,
            Self::AtDoorbellForTakes => Self::AtDoorbell(ANY).encode() | FOR_TAKES,
        }
    }

    /// Every word has a meaning. At worst, a hostile owner is not woken.
    #[inline]
    pub(crate) fn decode(word: u64) -> Self {
        let source = Address(((word >> 32) as u32).cast_signed());
        match word & 0xff {
            1 if word & FOR_RAISES != 0 => Self::OnLinksForRaises(source),
            1 => Self::OnLinks(source),
            2 if word & FOR_TAKES != 0 => Self::AtDoorbellForTakes,
            2 => Self::AtDoorbell(source),
            _ => Self::Awake,
        }
    }

    /// The source that a sleeping endpoint awaits.
    #[must_use]
    pub fn source(self) -> Option<Address> {
        match self {
            Self::Awake => None,
            Self::OnLinks(source) | Self::OnLinksForRaises(source) | Self::AtDoorbell(source) => {
                Some(source)
            }
            Self::AtDoorbellForTakes => Some(ANY),
        }
    }

    /// The action that wakes an endpoint in this mode if it awaits `own` or ANY.
    #[must_use]
    #[inline]
    pub fn wake_action(self, own: Address) -> WakeAction {
        match self {
            Self::OnLinksForRaises(_) => WakeAction::WakeWord,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_survives_its_word_and_wakes_for_what_it_awaits() {
        let own = Address(5);
        let other = Address(6);
        let modes = [
            (WaitMode::Awake, WakeAction::None, WakeAction::None),
            (WaitMode::OnLinks(ANY), WakeAction::WakeWord, WakeAction::None),
            (WaitMode::OnLinks(own), WakeAction::WakeWord, WakeAction::WakeWord),
            (WaitMode::OnLinks(other), WakeAction::None, WakeAction::None),
            (WaitMode::OnLinksForRaises(own), WakeAction::WakeWord, WakeAction::WakeWord),
            (WaitMode::OnLinksForRaises(other), WakeAction::WakeWord, WakeAction::None),
            (WaitMode::AtDoorbell(ANY), WakeAction::Doorbell, WakeAction::None),
            (WaitMode::AtDoorbell(own), WakeAction::Doorbell, WakeAction::Doorbell),
            (WaitMode::AtDoorbellForTakes, WakeAction::Doorbell, WakeAction::Doorbell),
        ];
        for (mode, for_message, for_take) in modes {
            assert_eq!(WaitMode::decode(mode.encode()), mode);
            assert_eq!(
                (mode.wake_action(own), mode.exact_wake_action(own)),
                (for_message, for_take)
            );
        }
    }
}
