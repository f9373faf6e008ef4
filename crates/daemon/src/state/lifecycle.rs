//! The life of the daemon: initialised, serving, leaving.

use std::os::fd::OwnedFd;

/// The life of the daemon.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    initialised: bool,
    takeovers: u32,
    leaving: Option<Leaving>,
    /// Whether the socket was found removed.
    is_removed: bool,
    /// SIGTERM and SIGINT, which the poll reports.
    _signals: OwnedFd,
}

/// What the daemon does with its members when it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// It has none, and the node ends.
    NodeEnds,
    /// It leaves them to the next daemon.
    MembersStay,
}

impl Lifecycle {
    /// The life of a daemon that begins now.
    pub(crate) fn new(initialised: bool, takeovers: u32, signals: OwnedFd) -> Self {
        Self { initialised, takeovers, leaving: None, is_removed: false, _signals: signals }
    }

    /// Whether the node may be used.
    pub(crate) fn is_initialised(&self) -> bool {
        self.initialised
    }

    /// Notes that the node may be used.
    pub(crate) fn initialise(&mut self) {
        self.initialised = true;
    }

    /// How often this daemon has taken the node of a predecessor over: 0 or 1.
    pub(crate) fn takeovers(&self) -> u32 {
        self.takeovers
    }

    /// Whether a predecessor had this node.
    pub(crate) fn has_taken_over(&self) -> bool {
        self.takeovers > 0
    }

    /// Ends the event loop. Several events of one round may end it: members that a signal leaves to
    /// the next daemon stay.
    pub(crate) fn leave(&mut self, leaving: Leaving) {
        if self.leaving != Some(Leaving::MembersStay) {
            self.leaving = Some(leaving);
        }
    }

    /// Whether the event loop ends, and what becomes of the members.
    pub(crate) fn leaving(&self) -> Option<Leaving> {
        self.leaving
    }

    /// Notes that the socket was found removed; `true` at the first time.
    pub(crate) fn note_removed(&mut self) -> bool {
        !std::mem::replace(&mut self.is_removed, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_a_signal_leaves_stay_whatever_else_ends_the_round() {
        let orders =
            [[Leaving::NodeEnds, Leaving::MembersStay], [Leaving::MembersStay, Leaving::NodeEnds]];
        for order in orders {
            let signals = m3ipc_sys::interrupt_signals().expect("a descriptor");
            let mut lifecycle = Lifecycle::new(true, 0, signals);
            assert_eq!(lifecycle.leaving(), None);
            order.into_iter().for_each(|leaving| lifecycle.leave(leaving));
            assert_eq!(lifecycle.leaving(), Some(Leaving::MembersStay));
        }
    }
}
