//! The privileges of an endpoint: the verbs it may use, and the partners it may use them with.

use m3ipc_abi::{Slot, Verb};
use m3ipc_wire::Privileges;

use super::error::Denied;

/// The privileges of an endpoint without restrictions: every verb, also future ones.
pub const UNRESTRICTED: Privileges =
    Privileges { traps: u32::MAX, ipc_to: None, ipc_from: None, level: 0 };

/// An endpoint as the privilege rules see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Party<'a> {
    pub(super) privileges: &'a Privileges,
    pub(super) slot: Slot,
}

impl Party<'_> {
    /// Checks whether this endpoint may use the verb with `peer` (`None`: with ANY, where only the
    /// verb counts).
    ///
    /// Both ends must allow a message: the sender's `ipc_to` and the receiver's `ipc_from`. A
    /// reply answers a request that was allowed, so only its verb counts.
    ///
    /// # Errors
    /// First the verb (-110), then the peer (-104).
    pub(super) fn check_verb(self, peer: Option<Party<'_>>, verb: Verb) -> Result<(), Denied> {
        if self.privileges.traps & verb.mask() == 0 {
            return Err(Denied::Trap(verb));
        }
        let Some(peer) = peer else { return Ok(()) };
        match verb {
            Verb::Reply => Ok(()),
            Verb::Receive | Verb::Rcvrqst => peer.check_message_to(self),
            Verb::Send
            | Verb::Sendrec
            | Verb::Notify
            | Verb::Relay
            | Verb::Wakeup
            | Verb::Vcopy
            | Verb::SrcNotify => self.check_message_to(peer),
        }
    }

    /// Checks whether a message may go from this endpoint to `peer`.
    ///
    /// # Errors
    /// -104 if either end forbids it.
    pub(super) fn check_message_to(self, peer: Party<'_>) -> Result<(), Denied> {
        let sends = allows(self.privileges.ipc_to.as_deref(), peer.slot);
        let receives = allows(peer.privileges.ipc_from.as_deref(), self.slot);
        if sends && receives {
            Ok(())
        } else {
            Err(Denied::Call { from: self.slot, to: peer.slot })
        }
    }
}

/// Whether a list of slots has this one. No list allows every slot.
fn allows(slots: Option<&[Slot]>, slot: Slot) -> bool {
    slots.is_none_or(|slots| slots.contains(&slot))
}
