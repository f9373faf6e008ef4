//! Lending of memory: leases for one call, grants until they are revoked.
//!
//! A grant is used like other memory of a party: while the granter is blocked in receive or
//! sendrec. The granter revokes while it runs, so no copy is in progress then: the call before
//! waited for every copy.

use super::grant_table::{Audience, Grant, Granted};
use super::lease::{ActiveLeases, Lease};
use super::rights::Rights;
use super::side::LEASES;
use crate::endpoint::Endpoint;
use crate::error::{GrantError, SendRecError};
use crate::timeout::Timeout;
use m3ipc_abi::{Address, Code, Message};
use m3ipc_link::CopyCommand;
use m3ipc_sys::CopyTarget;

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
    /// client.granted(grant)?[0] = 1;
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
        memory: Vec<u8>,
        rights: Rights,
    ) -> Result<Grant, GrantError> {
        self.copies.grants.add(Granted::owned(to, memory, rights))
    }

    /// Grants memory that another language vouches for until it revokes the grant.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (server, mut client) = node.pair();
    /// use m3ipc::{Audience, CopyTarget, Rights};
    ///
    /// let memory: &'static mut [u8] = Box::leak(vec![0; 4096].into_boxed_slice());
    /// let grant = client.grant_target(Audience::Vm, &CopyTarget::from(memory), Rights::Both)?;
    /// assert!(client.revoke(grant)?.is_none(), "the caller owns the memory");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
        self.copies.grants.add(Granted::foreign(to, address, bytes, rights))
    }

    /// The memory of an own grant, as peers have left it. No peer copies while this endpoint runs.
    /// The example is at [`grant`](Self::grant).
    ///
    /// # Errors
    /// [`GrantError::Unknown`].
    pub fn granted(&mut self, grant: Grant) -> Result<&mut [u8], GrantError> {
        self.copies.grants.memory(grant).ok_or(GrantError::Unknown)
    }

    /// Ends a grant. Returns its memory if the endpoint owned it. The example is at
    /// [`grant`](Self::grant).
    ///
    /// # Errors
    /// [`GrantError::Unknown`] if it was revoked before.
    pub fn revoke(&mut self, grant: Grant) -> Result<Option<Vec<u8>>, GrantError> {
        self.copies.grants.remove(grant)
    }

    /// The address in this endpoint's memory of a peer's copy, if the copy is allowed.
    ///
    /// This is the one gate for addresses that others name, peers and other nodes alike: nothing
    /// uses the address of a command before it. A stand-in is never trusted, so an address that
    /// came over the wire counts only inside a lease or a grant.
    pub(super) fn resolve(&self, index: u32, command: &CopyCommand) -> Result<u64, Code> {
        let CopyCommand { direction, space, address, bytes } = *command;
        let peer = self.peers.find_index(index).ok_or(Code::Perm)?;
        let (by, grants) = (peer.address(), &self.copies.grants);
        if space == LEASES {
            return self.copies.leased.resolve(index, direction, address, bytes);
        }
        if space != 0 {
            return grants.resolve(Grant::from_u64(space), by, direction, address, bytes);
        }
        let allowed = self.trusts(peer)
            || self.copies.leased.allows(index, direction, address, bytes)
            || grants.allows(by, direction, address, bytes);
        if allowed { Ok(address) } else { Err(Code::Perm) }
    }

    /// Sends a request and leases memory to the server for the time of this call. After a relay the
    /// leases are for the next server. The example is at [`copy_to`](Self::copy_to).
    ///
    /// # Errors
    /// As [`sendrec`](Self::sendrec).
    pub fn sendrec_leased(
        &mut self,
        to: Address,
        message: &Message,
        leases: &[Lease<'_>],
        limit: impl Into<Timeout>,
    ) -> Result<Message, SendRecError> {
        self.copies.leased = ActiveLeases::of(leases);
        self.fast.close();
        let answered = self.sendrec_long(to, message, &[], &mut [], limit);
        self.copies.leased = ActiveLeases::default();
        answered.map(|(answer, _)| answer)
    }
}
