//! Leases: memory lent for one sendrec, to whoever answers it.

use super::Rights;
use crate::endpoint::Endpoint;
use crate::error::SendRecError;
use crate::timeout::Timeout;
use core::marker::PhantomData;
use m3ipc_abi::{Address, Message};
use m3ipc_link::CopyDirection;
use m3ipc_sys::{CopySource, CopyTarget};

/// Memory that is lent for one call.
#[derive(Clone, Copy, Debug)]
pub struct Loan<'a> {
    range: LentRange,
    _of: PhantomData<&'a mut [u8]>,
}

/// A lent range as it is checked: plain numbers.
#[derive(Clone, Copy, Debug)]
struct LentRange {
    address: u64,
    bytes: u64,
    rights: Rights,
}

impl<'a> Loan<'a> {
    /// Memory that may be read.
    #[must_use]
    pub fn read(memory: &'a [u8]) -> Self {
        Self::new(memory.as_ptr().expose_provenance() as u64, memory.len() as u64, Rights::Read)
    }

    /// Memory that may be written.
    #[must_use]
    pub fn write(memory: &'a mut [u8]) -> Self {
        Self::new(
            memory.as_mut_ptr().expose_provenance() as u64,
            memory.len() as u64,
            Rights::Write,
        )
    }

    /// Memory that may be read and written.
    #[must_use]
    pub fn both(memory: &'a mut [u8]) -> Self {
        Self::new(memory.as_mut_ptr().expose_provenance() as u64, memory.len() as u64, Rights::Both)
    }

    /// Memory that another language vouches for, to be read.
    #[must_use]
    pub fn of_bytes(bytes: &CopySource<'a>) -> Self {
        Self::new(bytes.address(), bytes.bytes() as u64, Rights::Read)
    }

    /// Memory that another language vouches for, to be written and, where asked, read.
    #[must_use]
    pub fn of_room(room: &CopyTarget<'a>, readable: bool) -> Self {
        let rights = if readable { Rights::Both } else { Rights::Write };
        Self::new(room.address(), room.bytes() as u64, rights)
    }

    fn new(address: u64, bytes: u64, rights: Rights) -> Self {
        Self { range: LentRange { address, bytes, rights }, _of: PhantomData }
    }

    /// Its address: what the message tells the peer.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.range.address
    }

    /// Its length in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.range.bytes
    }
}

/// What is lent just now, and to whom.
#[derive(Debug, Default)]
pub(in crate::endpoint) struct Lent {
    ranges: Vec<LentRange>,
    /// The link of who answers.
    to: Option<u32>,
}

impl Lent {
    /// Whether this peer may do this with this range.
    pub(super) fn allows(&self, index: u32, what: CopyDirection, address: u64, bytes: u64) -> bool {
        self.to == Some(index)
            && self.ranges.iter().any(|lent| {
                lent.rights.allow(what)
                    && address >= lent.address
                    && address
                        .checked_add(bytes)
                        .is_some_and(|end| end <= lent.address.saturating_add(lent.bytes))
            })
    }

    /// From now on who answers is the peer of this link.
    #[inline]
    pub(in crate::endpoint) fn pass_to(&mut self, index: u32) {
        if !self.ranges.is_empty() {
            self.to = Some(index);
        }
    }
}

impl Endpoint {
    /// As [`sendrec_long`](Self::sendrec_long), and lends memory to whoever answers (the receiver, and after
    /// a relay who it was relayed to), for as long as this call lasts and no longer.
    ///
    /// # Errors
    /// [`SendRecError`].
    pub fn sendrec_lent(
        &mut self,
        to: Address,
        message: &Message,
        loans: &[Loan<'_>],
        limit: impl Into<Timeout>,
    ) -> Result<Message, SendRecError> {
        self.copies.lent = Lent { ranges: loans.iter().map(|loan| loan.range).collect(), to: None };
        let answered = self.sendrec_long(to, message, &[], &mut [], limit.into());
        self.copies.lent = Lent::default();
        answered.map(|(answer, _)| answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_covers_its_range_and_its_rights_for_its_peer() {
        let mut memory = [0_u8; 100];
        let loan = Loan::write(&mut memory);
        let (start, mut lent) = (loan.address(), Lent { ranges: vec![loan.range], to: None });
        assert!(!lent.allows(3, CopyDirection::Write, start, 100), "nobody answers yet");
        lent.pass_to(3);
        assert!(lent.allows(3, CopyDirection::Write, start, 100));
        assert!(lent.allows(3, CopyDirection::Write, start + 99, 1));
        assert!(!lent.allows(3, CopyDirection::Read, start, 1));
        assert!(!lent.allows(4, CopyDirection::Write, start, 1));
        assert!(!lent.allows(3, CopyDirection::Write, start + 99, 2));
        assert!(!lent.allows(3, CopyDirection::Write, start - 1, 1));
        assert!(!lent.allows(3, CopyDirection::Write, start, u64::MAX));
    }
}
