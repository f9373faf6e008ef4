//! The other members of an area, as this member knows them from daemon events.

use crate::ownership_trace::is_claimed;
use crate::words::{CLAIM, LedgerWords, READING, word_index};
use m3ipc_abi::Address;

/// Another member.
#[derive(Debug)]
pub(crate) struct OtherMember<P> {
    pub(crate) index: u16,
    pub(crate) address: Address,
    /// `None` until the member has joined.
    ledger: Option<P>,
    pub(crate) lives: bool,
}

impl<P: LedgerWords> OtherMember<P> {
    /// The word at this index of its ledger; 0 without a ledger.
    pub(crate) fn load(&self, at: usize) -> u64 {
        self.ledger.as_ref().map_or(0, |ledger| ledger.load(at))
    }

    pub(crate) fn has_ledger(&self) -> bool {
        self.ledger.is_some()
    }
}

/// All other members.
#[derive(Debug)]
pub(crate) struct OtherMembers<P>(Vec<OtherMember<P>>);

impl<P> Default for OtherMembers<P> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<P: LedgerWords> OtherMembers<P> {
    /// Adds a member that may join, unless it is known.
    pub(crate) fn expect(&mut self, index: u16, address: Address) {
        if self.get(index).is_none() {
            self.0.push(OtherMember { index, address, ledger: None, lives: true });
        }
    }

    /// Sets the ledger of a member, unless the member has one.
    pub(crate) fn set_ledger(&mut self, index: u16, ledger: P) {
        if let Some(member) =
            self.0.iter_mut().find(|member| member.index == index && !member.has_ledger())
        {
            member.ledger = Some(ledger);
        }
    }

    /// Marks a member as gone.
    pub(crate) fn mark_gone(&mut self, index: u16) {
        for member in self.0.iter_mut().filter(|member| member.index == index) {
            member.lives = false;
        }
    }

    pub(crate) fn get(&self, index: u16) -> Option<&OtherMember<P>> {
        self.0.iter().find(|member| member.index == index)
    }

    /// Whether the member is known to have left or died.
    pub(crate) fn is_dead(&self, index: u16) -> bool {
        self.get(index).is_some_and(|member| !member.lives)
    }

    /// The living members.
    pub(crate) fn living(&self) -> impl Iterator<Item = &OtherMember<P>> {
        self.0.iter().filter(|member| member.lives)
    }

    /// The living member of this address that came last: indexes rise.
    pub(crate) fn latest(&self, address: Address) -> Option<&OtherMember<P>> {
        self.living().filter(|member| member.address == address).max_by_key(|member| member.index)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// A living member that claims to hold or read the block of this generation.
    pub(crate) fn claimer(&self, number: u32, generation: u32) -> Option<Address> {
        let claims = |member: &&OtherMember<P>| {
            let claim = member.load(word_index(number, CLAIM));
            let reading = member.load(word_index(number, READING));
            is_claimed(claim, reading, generation)
        };
        self.living().find(claims).map(|member| member.address)
    }
}
