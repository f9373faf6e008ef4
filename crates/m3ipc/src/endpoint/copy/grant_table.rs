//! The grants of an endpoint: a table with a generation for each index.
//!
//! A revoked grant leaves its index with the next generation, so an old name finds nothing.

use super::rights::Rights;
use crate::error::GrantError;
use crate::octets::Octets;
use m3ipc_abi::{Address, Code};
use m3ipc_link::CopyDirection;

/// The limit of grants of one endpoint.
const GRANTS_MAX: usize = 65_536;

/// The endpoints that may use a grant. The example is at
/// [`Endpoint::grant`](crate::Endpoint::grant).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// One endpoint.
    Only(Address),
    /// Every member of the VM.
    Vm,
}

/// The name of a grant: its index, and the generation of that index. The example is at
/// [`Endpoint::grant`](crate::Endpoint::grant).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    id: u32,
    generation: u32,
}

impl Grant {
    /// The name as a number for a message; never 0. The example is at [`from_u64`](Self::from_u64).
    #[must_use]
    pub fn to_u64(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.id)
    }

    /// The grant with this number. The granter checks whether the grant exists.
    ///
    /// ```
    /// use m3ipc::Grant;
    ///
    /// let number = 3 << 32 | 7;
    /// assert_eq!(Grant::from_u64(number).to_u64(), number);
    /// ```
    #[must_use]
    pub fn from_u64(number: u64) -> Self {
        Self { id: (number & 0xffff_ffff) as u32, generation: (number >> 32) as u32 }
    }
}

/// The grants by index.
#[derive(Debug, Default)]
pub(in crate::endpoint) struct GrantTable {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    generation: u32,
    granted: Option<Granted>,
}

/// Memory that is granted.
#[derive(Debug)]
pub(super) struct Granted {
    audience: Audience,
    address: u64,
    bytes: u64,
    rights: Rights,
    /// The memory, if the endpoint owns it during the grant.
    memory: Option<Octets>,
}

impl GrantTable {
    /// Adds a grant.
    pub(super) fn add(&mut self, granted: Granted) -> Result<Grant, GrantError> {
        let entries = &mut self.entries;
        let free =
            entries.iter().position(|entry| entry.granted.is_none() && entry.generation < u32::MAX);
        let at = match free {
            Some(at) => at,
            None if entries.len() < GRANTS_MAX => {
                entries.push(Entry { generation: 0, granted: None });
                entries.len() - 1
            }
            None => return Err(GrantError::TooMany(GRANTS_MAX)),
        };
        let entry = &mut entries[at];
        entry.generation += 1;
        entry.granted = Some(granted);
        let id = u32::try_from(at).map_err(|_beyond| GrantError::TooMany(GRANTS_MAX))?;
        Ok(Grant { id, generation: entry.generation })
    }

    /// The memory of a grant, if the endpoint owns it.
    pub(super) fn memory(&mut self, grant: Grant) -> Option<&mut [u8]> {
        self.find_mut(grant)?.granted.as_mut()?.memory.as_mut().map(|it| &mut it[..])
    }

    /// A part of the memory of a grant, if the endpoint owns it.
    pub(super) fn part(&mut self, grant: Grant, offset: u64, bytes: usize) -> Option<&mut [u8]> {
        let start = usize::try_from(offset).ok()?;
        self.memory(grant)?.get_mut(start..start.checked_add(bytes)?)
    }

    /// Removes a grant; its memory, if the endpoint owned it.
    pub(super) fn remove(&mut self, grant: Grant) -> Result<Option<Vec<u8>>, GrantError> {
        let granted = self.find_mut(grant).and_then(|entry| entry.granted.take());
        Ok(granted.ok_or(GrantError::Unknown)?.memory.map(|it| it.0))
    }

    /// The address of a peer's copy at an offset in a grant, if the copy is allowed.
    pub(super) fn resolve(
        &self,
        grant: Grant,
        by: Address,
        direction: CopyDirection,
        offset: u64,
        bytes: u64,
    ) -> Result<u64, Code> {
        let entry = self.entries.get(grant.id as usize);
        let entry = entry.filter(|entry| entry.generation == grant.generation);
        let granted = entry.and_then(|entry| entry.granted.as_ref());
        let granted = granted.filter(|granted| granted.is_for(by, direction)).ok_or(Code::Perm)?;
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= granted.bytes);
        if inside { Ok(granted.address + offset) } else { Err(Code::Range) }
    }

    /// Whether a grant allows a peer's copy at this address.
    pub(super) fn allows(
        &self,
        by: Address,
        direction: CopyDirection,
        address: u64,
        bytes: u64,
    ) -> bool {
        let mut granted = self.entries.iter().filter_map(|entry| entry.granted.as_ref());
        granted.any(|granted| granted.is_for(by, direction) && granted.covers(address, bytes))
    }

    fn find_mut(&mut self, grant: Grant) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(grant.id as usize);
        entry.filter(|entry| entry.generation == grant.generation)
    }
}

impl Granted {
    /// Memory that the endpoint owns during the grant.
    pub(super) fn owned(audience: Audience, mut memory: Vec<u8>, rights: Rights) -> Self {
        let (address, bytes) =
            (memory.as_mut_ptr().expose_provenance() as u64, memory.len() as u64);
        Self { audience, address, bytes, rights, memory: Some(Octets(memory)) }
    }

    /// Memory that the caller owns.
    pub(super) fn foreign(audience: Audience, address: u64, bytes: u64, rights: Rights) -> Self {
        Self { audience, address, bytes, rights, memory: None }
    }

    fn is_for(&self, peer: Address, what: CopyDirection) -> bool {
        let meant = match self.audience {
            Audience::Only(address) => address == peer,
            Audience::Vm => true,
        };
        meant && self.rights.allow(what)
    }

    fn covers(&self, address: u64, bytes: u64) -> bool {
        address >= self.address
            && address
                .checked_add(bytes)
                .is_some_and(|end| end <= self.address.saturating_add(self.bytes))
    }
}
