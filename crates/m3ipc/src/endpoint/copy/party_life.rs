//! The life of a party during one copy.
//!
//! A system slot keeps its address in its next life, and the daemon gives indexes again. An address
//! and an index therefore do not tell that the party of a copy has died: the number of its life
//! does. To a copy, the next life looks like a party that does not wait.

use super::side::Role;
use crate::endpoint::Endpoint;
use crate::endpoint::call_stop::CallStop;
use crate::error::Fail;
use m3ipc_abi::{Address, Code};

/// A party in the life that it had at the begin of a copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartyLife {
    address: Address,
    index: u32,
    life: u64,
}

impl PartyLife {
    /// The number of the life.
    pub(super) fn number(self) -> u64 {
        self.life
    }
}

impl Endpoint {
    /// The present life of a party.
    pub(super) fn party_life(&self, index: u32) -> PartyLife {
        let peer = self.peers.get(index);
        PartyLife { address: peer.address(), index, life: peer.life() }
    }

    /// The index of the latest link with a party; `None` if the party has died.
    pub(super) fn index_in(&self, party: PartyLife) -> Option<u32> {
        let latest = self.peers.find(party.address);
        let mut indexes = latest.into_iter().chain([party.index]);
        indexes.find(|index| self.peers.is_in_life(*index, party.life))
    }

    /// The failure of a copy: the death of the party, if the party failed the copy by its death.
    /// The daemon has reported the death before it refused anything, so its report is here.
    #[cold]
    pub(super) fn failed_with(&mut self, party: PartyLife, role: Role, fail: Fail) -> Fail {
        if fail.code != Code::ProcSts {
            return fail;
        }
        let has_events =
            |own: &Self| own.session.has_events() || own.session.control().has_queued_events();
        while self.index_in(party).is_some() && has_events(self) {
            if self.receive_events().is_err() {
                return fail;
            }
        }
        if self.index_in(party).is_some() {
            return fail;
        }
        // The link of a lost node may be here still.
        let peer = self.peers.find_index(party.index).filter(|peer| peer.life() == party.life);
        match peer.and_then(|peer| peer.check_party(role.died()).err()) {
            Some(CallStop::Failed(fail)) => fail,
            Some(CallStop::Replaced) | None => role.died().into(),
        }
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests;
