//! Copies between the memory of endpoints: vcopy.
//!
//! ```text
//! requester  copy_to, copy_from, copy_between
//!    ├ areas:   the requester copies by itself           memory of areas that it has attached
//!    ├ direct:  the kernel copies, one system call       same user, VM's copies `open`
//!    └ window:  the party copies for itself, from its     everywhere else
//!               wait loop, through memory of the two
//! party      berth: lies still while it waits;  serve: copies for the requester
//! ```
//!
//! Every party but the requester must be blocked in receive or sendrec. Who
//! has never been copied with pays nothing: its berth is made at the first copy.

mod berth;
mod direct;
mod grants;
mod lend;
mod pump;
mod serve;
mod shared;
mod state;

pub use grants::{Audience, Grant, Rights};
pub use lend::Loan;
pub(super) use serve::Serving;
pub(super) use state::{Copies, Copying};

use super::{At, Endpoint};
use crate::error::{CopyError, Fail};
use crate::timeout::{Deadline, Timeout};
use m3ipc_abi::{ANY, Address, Code, NONE, SELF};
use m3ipc_link::{TraceWhat, copy_gate as words};
use m3ipc_sys::{CopySource, CopyTarget};
use pump::Leg;

/// Where in the memory of a party.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// At this address of the party.
    At(u64),
    /// At an offset, in bytes, of what the party has granted.
    Granted(Grant, u64),
}

impl From<u64> for Location {
    fn from(address: u64) -> Self {
        Self::At(address)
    }
}

impl Location {
    /// The space of a command, and the address in it.
    fn parts(self) -> (u64, u64) {
        match self {
            Self::At(address) => (0, address),
            Self::Granted(grant, offset) => (grant.to_u64(), offset),
        }
    }
}

/// One's own memory, as one side of a copy.
#[derive(Debug)]
enum Own<'a> {
    From(&'a CopySource<'a>),
    Into(&'a mut CopyTarget<'a>),
}

impl Own<'_> {
    fn bytes(&self) -> usize {
        match self {
            Self::From(bytes) => bytes.bytes(),
            Self::Into(room) => room.bytes(),
        }
    }
}

/// What a party is in a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Source,
    Destination,
}

impl Role {
    fn died(self) -> Code {
        match self {
            Self::Source => Code::SrcDied,
            Self::Destination => Code::DstDied,
        }
    }
}

impl Endpoint {
    /// Copies bytes into the memory of an endpoint that is blocked in receive or sendrec.
    ///
    /// # Errors
    /// [`CopyError`]; [`copied`](Self::copied) tells how many bytes had been copied.
    pub fn copy_to(
        &mut self,
        to: Address,
        location: impl Into<Location>,
        from: &[u8],
    ) -> Result<(), CopyError> {
        self.copy_bytes_to(to, location.into(), &CopySource::from(from), Timeout::Never)
    }

    /// Copies bytes out of the memory of an endpoint that is blocked in receive or sendrec.
    ///
    /// # Errors
    /// [`CopyError`]; [`copied`](Self::copied) tells how many bytes had been copied.
    pub fn copy_from(
        &mut self,
        from: Address,
        location: impl Into<Location>,
        into: &mut [u8],
    ) -> Result<(), CopyError> {
        self.copy_into_room(from, location.into(), &mut CopyTarget::from(into), Timeout::Never)
    }

    /// Copies between the memories of two other endpoints, both blocked in receive or sendrec.
    ///
    /// One pass over the bytes where a side lies in an area that the caller has attached; else two, through a
    /// buffer of the caller that stays in the cache, and one more for each party that copies for itself.
    ///
    /// # Errors
    /// [`CopyError`]; [`copied`](Self::copied) tells how many bytes had been copied.
    pub fn copy_between(
        &mut self,
        source: (Address, Location),
        destination: (Address, Location),
        bytes: u64,
        limit: impl Into<Timeout>,
    ) -> Result<(), CopyError> {
        let mut failed = source.0;
        let result =
            self.copy_third(source, destination, bytes, limit.into().deadline(), &mut failed);
        result.map_err(|fail| CopyError::of(fail, failed))
    }

    /// As [`copy_to`](Self::copy_to), no longer than the limit; from memory that another language vouches for.
    ///
    /// # Errors
    /// [`CopyError`].
    pub fn copy_bytes_to(
        &mut self,
        to: Address,
        location: Location,
        from: &CopySource<'_>,
        limit: Timeout,
    ) -> Result<(), CopyError> {
        let bytes = from.bytes();
        let copied =
            self.begin_copy(to, bytes as u64, Role::Destination, limit).and_then(|begun| {
                begun.map_or(Ok(()), |(index, deadline)| {
                    self.copy_traced(index, location, &mut Own::From(from), bytes, deadline)
                })
            });
        copied.map_err(|fail| CopyError::of(fail, to))
    }

    /// As [`copy_from`](Self::copy_from), no longer than the limit; into memory that another language vouches for.
    ///
    /// # Errors
    /// [`CopyError`].
    pub fn copy_into_room<'a>(
        &mut self,
        from: Address,
        location: Location,
        into: &'a mut CopyTarget<'a>,
        limit: Timeout,
    ) -> Result<(), CopyError> {
        let bytes = into.bytes();
        let copied = match self.begin_copy(from, bytes as u64, Role::Source, limit) {
            Ok(Some((index, deadline))) => {
                self.copy_traced(index, location, &mut Own::Into(into), bytes, deadline)
            }
            Ok(None) => Ok(()),
            Err(fail) => Err(fail),
        };
        copied.map_err(|fail| CopyError::of(fail, from))
    }

    /// Bytes that the last copy of this endpoint has copied: all of them where it went well.
    #[must_use]
    pub fn copied(&self) -> u64 {
        self.copies.copied
    }

    /// Bytes that this endpoint has copied in all: its copies, and payloads beyond 1,792 bytes both ways.
    /// What lies in a link is not counted. A block that changes hands adds nothing.
    #[must_use]
    pub fn copied_total(&self) -> u64 {
        self.copies.total()
    }

    /// Checks a party; `None` where nothing is to be copied.
    #[inline]
    fn begin_copy(
        &mut self,
        party: Address,
        bytes: u64,
        role: Role,
        limit: Timeout,
    ) -> Result<Option<(u32, Deadline)>, Fail> {
        self.copies.begin();
        self.stand()?;
        self.stamp(At::Begun);
        self.disarm();
        if party == ANY || party == NONE || party == SELF || party == self.address {
            return Err(Code::Endpoint.into());
        }
        let deadline = limit.deadline();
        let index = self.party(party, role, deadline)?;
        Ok((bytes > 0).then_some((index, deadline)))
    }

    /// The link with a party of a copy.
    #[inline]
    fn party(&mut self, party: Address, role: Role, deadline: Deadline) -> Result<u32, Fail> {
        let died = |fail: Fail| match fail.code {
            Code::DstDied => role.died().into(),
            _ => fail,
        };
        let index = self.contact(party, deadline).map_err(died)?;
        let peer = self.peers.get_mut(index);
        peer.check(role.died())?;
        if words::is_revoked(peer.link.peer_copy_gate()) {
            *peer.copying = Copying::default();
        }
        Ok(index)
    }

    /// The same, stamped where this endpoint is traced.
    #[inline]
    fn copy_traced(
        &mut self,
        index: u32,
        location: Location,
        own: &mut Own<'_>,
        bytes: usize,
        deadline: Deadline,
    ) -> Result<(), Fail> {
        self.stamp(At::Ready);
        let copied = self.copy_one(index, location, own, bytes, deadline);
        self.stamp(At::Published);
        self.trace_unnumbered(index, TraceWhat::Copy, bytes);
        copied
    }

    /// Copies between one's own memory and that of one party.
    #[inline]
    fn copy_one(
        &mut self,
        index: u32,
        location: Location,
        own: &mut Own<'_>,
        bytes: usize,
        deadline: Deadline,
    ) -> Result<(), Fail> {
        let role = match own {
            Own::From(_) => Role::Destination,
            Own::Into(_) => Role::Source,
        };
        if let Some(address) = self.common_address(index, location, bytes as u64)
            && self.copy_in_common(index, address, own, role, deadline)?
        {
            return Ok(());
        }
        if let Some(address) = self.direct_address(index, location, bytes as u64, role, deadline)? {
            match self.copy_directly(index, address, own, role) {
                Err(_refused) if self.is_refused(index) => {}
                done => return done,
            }
        }
        let mut failed = role;
        loop {
            let party = Leg::Party { index, location };
            let (source, destination) = match own {
                Own::From(bytes) => (Leg::Bytes(bytes.part(0, usize::MAX)), party),
                Own::Into(room) => (party, Leg::Room(room.part(0, usize::MAX))),
            };
            let was_refused = self.is_refused(index);
            let result = self.pump(source, destination, bytes as u64, deadline, &mut failed);
            if result.is_ok() || was_refused == self.is_refused(index) {
                return result;
            }
        }
    }

    /// Whether the kernel has come to refuse copies of a peer's memory.
    fn is_refused(&self, index: u32) -> bool {
        self.peers.find_index(index).is_some_and(|peer| peer.copying.refused)
    }

    fn copy_third(
        &mut self,
        source: (Address, Location),
        destination: (Address, Location),
        bytes: u64,
        deadline: Deadline,
        failed: &mut Address,
    ) -> Result<(), Fail> {
        self.copies.begin();
        self.stand()?;
        self.disarm();
        let none = [ANY, NONE, SELF, self.address];
        if source.0 == destination.0 || none.contains(&source.0) || none.contains(&destination.0) {
            return Err(Code::Endpoint.into());
        }
        let from = self.party(source.0, Role::Source, deadline)?;
        *failed = destination.0;
        let to = self.party(destination.0, Role::Destination, deadline)?;
        *failed = source.0;
        // The second contact may have brought news of the first party.
        self.peers.find_index(from).ok_or(Fail::from(Code::SrcDied))?.check(Code::SrcDied)?;
        if bytes == 0 {
            return Ok(());
        }
        let mut role = Role::Source;
        let result = loop {
            match self.copy_across_common(
                (from, source.1),
                (to, destination.1),
                bytes,
                deadline,
                &mut role,
            ) {
                Ok(false) => {}
                other => break other.map(drop),
            }
            let were_refused = [from, to].map(|index| self.is_refused(index));
            let source_leg = Leg::Party { index: from, location: source.1 };
            let destination_leg = Leg::Party { index: to, location: destination.1 };
            let result = self.pump(source_leg, destination_leg, bytes, deadline, &mut role);
            if result.is_ok() || were_refused == [from, to].map(|index| self.is_refused(index)) {
                break result;
            }
        };
        if role == Role::Destination {
            *failed = destination.0;
        }
        result
    }
}
