//! Grants: memory granted beyond a call, until it is revoked.
//!
//! A grant is used like other memory of a party: while the granter is blocked in receive or
//! sendrec. The granter revokes while it runs, so no copy is in progress then: the call before
//! waited for every copy.

use super::Endpoint;
use crate::error::GrantError;
use m3ipc_abi::{Address, Code};
use m3ipc_link::CopyDirection;
use m3ipc_sys::CopyTarget;

/// The limit of grants of one endpoint.
const GRANTS_MAX: usize = 65_536;

/// The accesses to leased or granted memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Reads and writes.
    Both,
}

impl Rights {
    pub(super) fn allow(self, what: CopyDirection) -> bool {
        match self {
            Self::Read => what == CopyDirection::Read,
            Self::Write => what == CopyDirection::Write,
            Self::Both => true,
        }
    }
}

/// The endpoints that may use a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// One endpoint.
    Only(Address),
    /// Every member of the VM.
    Vm,
}

/// The name of a grant: its index, and the generation of that index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    id: u32,
    generation: u32,
}

impl Grant {
    /// The name as a number for a message; never 0.
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

/// One entry of the table of grants.
#[derive(Debug)]
pub(in crate::endpoint) struct Entry {
    generation: u32,
    granted: Option<Granted>,
}

#[derive(Debug)]
struct Granted {
    audience: Audience,
    address: u64,
    bytes: u64,
    rights: Rights,
    /// The memory, if the endpoint owns it during the grant.
    memory: Option<Vec<u8>>,
}

impl Endpoint {
    /// Grants memory. The endpoint owns the memory until [`revoke`](Self::revoke) returns it.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (server, mut client) = node.pair();
    /// use m3ipc::{Audience, Rights};
    ///
    /// let grant = client.grant(Audience::Only(server.address()), vec![0; 4096], Rights::Write)?;
    /// // `grant.to_u64()` goes to the server in a message; it copies while the client waits.
    /// let memory = client.revoke(grant)?.expect("the endpoint owned it");
    /// assert_eq!(memory.len(), 4096);
    /// # Ok::<(), m3ipc::GrantError>(())
    /// ```
    ///
    /// # Errors
    /// [`GrantError::TooMany`].
    pub fn grant(
        &mut self,
        to: Audience,
        mut memory: Vec<u8>,
        rights: Rights,
    ) -> Result<Grant, GrantError> {
        let (address, bytes) =
            (memory.as_mut_ptr().expose_provenance() as u64, memory.len() as u64);
        self.add_grant(Granted { audience: to, address, bytes, rights, memory: Some(memory) })
    }

    /// Grants memory that another language vouches for until it revokes the grant.
    ///
    /// # Errors
    /// [`GrantError::TooMany`].
    pub fn grant_target(
        &mut self,
        to: Audience,
        buffer: &CopyTarget<'static>,
        rights: Rights,
    ) -> Result<Grant, GrantError> {
        let (address, bytes) = (buffer.address(), buffer.bytes() as u64);
        self.add_grant(Granted { audience: to, address, bytes, rights, memory: None })
    }

    fn add_grant(&mut self, granted: Granted) -> Result<Grant, GrantError> {
        let entries = &mut self.copies.grants;
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

    /// The memory of an own grant, as peers have left it. No peer copies while this endpoint runs.
    ///
    /// # Errors
    /// [`GrantError::Unknown`].
    pub fn granted(&mut self, grant: Grant) -> Result<&mut [u8], GrantError> {
        let granted =
            find_mut(&mut self.copies.grants, grant).and_then(|entry| entry.granted.as_mut());
        granted.and_then(|granted| granted.memory.as_deref_mut()).ok_or(GrantError::Unknown)
    }

    /// Ends a grant. Returns its memory if the endpoint owned it.
    ///
    /// # Errors
    /// [`GrantError::Unknown`] if it was revoked before.
    pub fn revoke(&mut self, grant: Grant) -> Result<Option<Vec<u8>>, GrantError> {
        let entry = find_mut(&mut self.copies.grants, grant).ok_or(GrantError::Unknown)?;
        let granted = entry.granted.take().ok_or(GrantError::Unknown)?;
        Ok(granted.memory)
    }

    /// The address in this endpoint's memory of a peer's copy, if the copy is allowed.
    pub(super) fn resolve(
        &self,
        index: u32,
        command: &m3ipc_link::CopyCommand,
    ) -> Result<u64, Code> {
        let m3ipc_link::CopyCommand { direction: what, space, address, bytes } = *command;
        let peer = self.peers.find_index(index).ok_or(Code::Perm)?;
        let from = peer.address();
        if space != 0 {
            let grants = &self.copies.grants;
            let granted =
                find(grants, Grant::from_u64(space)).and_then(|entry| entry.granted.as_ref());
            let granted = granted.filter(|granted| granted.is_for(from, what)).ok_or(Code::Perm)?;
            let inside = address.checked_add(bytes).is_some_and(|end| end <= granted.bytes);
            return if inside { Ok(granted.address + address) } else { Err(Code::Range) };
        }
        let mut grants = self.copies.grants.iter().filter_map(|entry| entry.granted.as_ref());
        let allowed = self.trusts(peer)
            || self.copies.leased.allows(index, what, address, bytes)
            || grants.any(|granted| granted.is_for(from, what) && granted.covers(address, bytes));
        if allowed { Ok(address) } else { Err(Code::Perm) }
    }
}

impl Granted {
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

fn find(entries: &[Entry], grant: Grant) -> Option<&Entry> {
    entries.get(grant.id as usize).filter(|entry| entry.generation == grant.generation)
}

fn find_mut(entries: &mut [Entry], grant: Grant) -> Option<&mut Entry> {
    entries.get_mut(grant.id as usize).filter(|entry| entry.generation == grant.generation)
}
