//! Leases: memory lent for one sendrec to the endpoint that answers it.

use super::rights::Rights;
use core::marker::PhantomData;
use m3ipc_abi::Code;
use m3ipc_link::CopyDirection;
use m3ipc_sys::{CopySource, CopyTarget};

/// Memory that is leased for one call.
///
/// ```
/// use m3ipc::Lease;
///
/// let (text, mut answer) = ([1, 2, 3], [0; 100]);
/// let request = Lease::read(&text);
/// let reply = Lease::write(&mut answer);
/// assert_eq!((request.bytes(), reply.bytes()), (3, 100));
/// assert_eq!(request.address(), text.as_ptr().addr() as u64);
/// // The server may also change this memory in place:
/// let mut table = [0; 4096];
/// let shared = Lease::both(&mut table);
/// # let _ = shared;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Lease<'a> {
    range: LentRange,
    _of: PhantomData<&'a mut [u8]>,
}

/// A leased range as plain numbers.
#[derive(Clone, Copy, Debug)]
struct LentRange {
    address: u64,
    bytes: u64,
    rights: Rights,
}

impl<'a> Lease<'a> {
    /// Memory that the server may read. The example is at [`Lease`].
    #[must_use]
    pub fn read(memory: &'a [u8]) -> Self {
        Self::new(memory.as_ptr().expose_provenance() as u64, memory.len() as u64, Rights::Read)
    }

    /// Memory that the server may write. The example is at [`Lease`].
    #[must_use]
    pub fn write(memory: &'a mut [u8]) -> Self {
        Self::new(
            memory.as_mut_ptr().expose_provenance() as u64,
            memory.len() as u64,
            Rights::Write,
        )
    }

    /// Memory that the server may read and write. The example is at [`Lease`].
    #[must_use]
    pub fn both(memory: &'a mut [u8]) -> Self {
        Self::new(memory.as_mut_ptr().expose_provenance() as u64, memory.len() as u64, Rights::Both)
    }

    /// Memory that another language vouches for, to be read.
    ///
    /// ```
    /// use m3ipc::{CopySource, CopyTarget, Lease};
    ///
    /// let (text, mut answer) = ([1, 2, 3], [0; 100]);
    /// assert_eq!(Lease::of_source(&CopySource::from(&text[..])).bytes(), 3);
    /// assert_eq!(Lease::of_target(&CopyTarget::from(&mut answer[..]), false).bytes(), 100);
    /// ```
    #[must_use]
    pub fn of_source(bytes: &CopySource<'a>) -> Self {
        Self::new(bytes.address(), bytes.bytes() as u64, Rights::Read)
    }

    /// Memory that another language vouches for, to be written and, if `readable`, read. The
    /// example is at [`of_source`](Self::of_source).
    #[must_use]
    pub fn of_target(buffer: &CopyTarget<'a>, readable: bool) -> Self {
        let rights = if readable { Rights::Both } else { Rights::Write };
        Self::new(buffer.address(), buffer.bytes() as u64, rights)
    }

    fn new(address: u64, bytes: u64, rights: Rights) -> Self {
        Self { range: LentRange { address, bytes, rights }, _of: PhantomData }
    }

    /// The address, for the message to the server. The example is at [`Lease`].
    #[must_use]
    pub fn address(&self) -> u64 {
        self.range.address
    }

    /// The length in bytes. The example is at [`Lease`].
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.range.bytes
    }
}

/// The leases of the present call.
#[derive(Debug, Default)]
pub(in crate::endpoint) struct ActiveLeases {
    ranges: Vec<LentRange>,
    /// The link of the server.
    to: Option<u32>,
}

impl ActiveLeases {
    /// The leases of a call that begins. No peer has them yet.
    pub(super) fn of(leases: &[Lease<'_>]) -> Self {
        Self { ranges: leases.iter().map(|lease| lease.range).collect(), to: None }
    }

    /// Whether this peer may access this range so.
    pub(super) fn allows(&self, index: u32, what: CopyDirection, address: u64, bytes: u64) -> bool {
        self.to == Some(index)
            && self.ranges.iter().any(|leased| {
                leased.rights.allow(what)
                    && address >= leased.address
                    && address
                        .checked_add(bytes)
                        .is_some_and(|end| end <= leased.address.saturating_add(leased.bytes))
            })
    }

    /// Whether any memory is lent.
    /// The address of an offset into the leases of this direction.
    pub(super) fn resolve(
        &self,
        index: u32,
        what: CopyDirection,
        offset: u64,
        bytes: u64,
    ) -> Result<u64, Code> {
        if self.to != Some(index) {
            return Err(Code::Perm);
        }
        let mut rest = offset;
        for leased in self.ranges.iter().filter(|leased| leased.rights.allow(what)) {
            if rest < leased.bytes {
                let fits = bytes <= leased.bytes - rest;
                return if fits { Ok(leased.address + rest) } else { Err(Code::Range) };
            }
            rest -= leased.bytes;
        }
        Err(Code::Range)
    }

    #[inline]
    pub(super) fn has_any(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// From now on the leases are for the peer of this link.
    #[inline]
    pub(in crate::endpoint) fn pass_to(&mut self, index: u32) {
        if !self.ranges.is_empty() {
            self.to = Some(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_covers_its_range_and_its_rights_for_its_peer() {
        let mut memory = [0_u8; 100];
        let lease = Lease::write(&mut memory);
        let (start, mut leased) = (lease.address(), ActiveLeases::of(&[lease]));
        assert!(!leased.allows(3, CopyDirection::Write, start, 100), "no server has it yet");
        leased.pass_to(3);
        assert!(leased.allows(3, CopyDirection::Write, start, 100));
        assert!(leased.allows(3, CopyDirection::Write, start + 99, 1));
        assert!(!leased.allows(3, CopyDirection::Read, start, 1));
        assert!(!leased.allows(4, CopyDirection::Write, start, 1));
        assert!(!leased.allows(3, CopyDirection::Write, start + 99, 2));
        assert!(!leased.allows(3, CopyDirection::Write, start - 1, 1));
        assert!(!leased.allows(3, CopyDirection::Write, start, u64::MAX));
    }

    #[test]
    fn an_offset_counts_the_leases_of_its_direction() {
        let (text, mut answer, mut table) = ([0_u8; 10], [0_u8; 20], [0_u8; 30]);
        let (read, both) = (Lease::read(&text), Lease::both(&mut table));
        let [text_at, table_at] = [read.address(), both.address()];
        let mut leased = ActiveLeases::of(&[read, Lease::write(&mut answer), both]);
        let at = |leased: &ActiveLeases, offset, bytes| {
            leased.resolve(3, CopyDirection::Read, offset, bytes)
        };
        assert_eq!(at(&leased, 0, 1), Err(Code::Perm), "no server has it yet");
        leased.pass_to(3);
        assert_eq!(at(&leased, 0, 10), Ok(text_at));
        assert_eq!(at(&leased, 9, 1), Ok(text_at + 9));
        assert_eq!(at(&leased, 9, 2), Err(Code::Range), "within one lease");
        assert_eq!(at(&leased, 10, 30), Ok(table_at), "the written one does not count");
        assert_eq!(at(&leased, 40, 1), Err(Code::Range));
        assert_eq!(at(&leased, u64::MAX, u64::MAX), Err(Code::Range));
        assert_eq!(leased.resolve(4, CopyDirection::Read, 0, 1), Err(Code::Perm));
    }
}
