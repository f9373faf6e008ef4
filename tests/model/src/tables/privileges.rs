//! Privileges of an endpoint: which verbs it may use, and with whom.

use std::collections::BTreeSet;

use m3ipc_abi::Slot;
use serde::{Deserialize, Serialize};

use super::error::Denied;

/// What privileges speak of: one bit each of a [`Traps`] mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Verb {
    /// send.
    Send = 0,
    /// receive.
    Receive = 1,
    /// sendrec.
    Sendrec = 2,
    /// notify.
    Notify = 3,
    /// rcvrqst.
    Rcvrqst = 4,
    /// reply.
    Reply = 5,
    /// relay.
    Relay = 6,
    /// wakeup.
    Wakeup = 7,
    /// vcopy.
    Vcopy = 8,
    /// `src_notify`: notify in another's name.
    SrcNotify = 9,
}

/// The set of verbs an endpoint may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traps(pub u32);

impl Traps {
    /// Every verb, those to come included.
    pub const ALL: Self = Self(u32::MAX);

    /// Whether the verb is in the set.
    #[must_use]
    pub const fn has(self, verb: Verb) -> bool {
        self.0 & (1 << verb as u8) != 0
    }

    /// The set without this verb.
    #[must_use]
    pub const fn without(self, verb: Verb) -> Self {
        Self(self.0 & !(1 << verb as u8))
    }
}

/// A set of slots of one VM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SlotSet {
    /// Everybody.
    #[default]
    All,
    /// These only.
    Only(BTreeSet<Slot>),
}

impl SlotSet {
    /// Whether the slot is in the set.
    #[must_use]
    pub fn has(&self, slot: Slot) -> bool {
        match self {
            Self::All => true,
            Self::Only(slots) => slots.contains(&slot),
        }
    }
}

/// What an endpoint may do. The default is everything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Privileges {
    /// Verbs it may use.
    pub traps: Traps,
    /// Slots it may send to.
    pub to: SlotSet,
    /// Slots it takes messages from.
    pub from: SlotSet,
    /// A number for the VM's owner to use (0: user); shown, never judged by.
    pub level: i32,
}

impl Default for Privileges {
    fn default() -> Self {
        Self { traps: Traps::ALL, to: SlotSet::All, from: SlotSet::All, level: 0 }
    }
}

impl Privileges {
    /// Whether the owner of these, at `slot`, may use the verb with that peer
    /// (`None`: with ANY, where only the verb counts).
    ///
    /// A message must be allowed at both of its ends: the sender's `to` and
    /// the receiver's `from`. A reply answers a request that was allowed, so
    /// only its verb counts.
    ///
    /// # Errors
    /// The verb first (-110), the peer then (-104).
    pub fn allow(&self, slot: Slot, peer: Option<(&Self, Slot)>, verb: Verb) -> Result<(), Denied> {
        if !self.traps.has(verb) {
            return Err(Denied::Trap(verb));
        }
        let Some((other, other_slot)) = peer else { return Ok(()) };
        match verb {
            Verb::Reply => Ok(()),
            Verb::Receive | Verb::Rcvrqst => other.allow_message(other_slot, self, slot),
            _ => self.allow_message(slot, other, other_slot),
        }
    }

    /// Whether a message may go from the owner of these, at `slot`, to that peer.
    ///
    /// # Errors
    /// -104 where either end forbids it.
    pub fn allow_message(&self, slot: Slot, peer: &Self, peer_slot: Slot) -> Result<(), Denied> {
        if self.to.has(peer_slot) && peer.from.has(slot) {
            Ok(())
        } else {
            Err(Denied::Call { from: slot, to: peer_slot })
        }
    }
}
