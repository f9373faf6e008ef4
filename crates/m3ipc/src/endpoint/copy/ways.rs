//! The ways of a copy: in an area, directly, or in chunks; whichever the parties allow.

use super::side::{CopySide, Location, OwnMemory, Role};
use crate::endpoint::Endpoint;
use crate::endpoint::peer_copies::RequesterState;
use crate::endpoint::stamps::Moment;
use crate::error::Fail;
use crate::timeout::{Deadline, Timeout};
use m3ipc_abi::{ANY, Address, Code, NONE, SELF, Verb};
use m3ipc_link::{TraceWhat, copy_gate};

impl Endpoint {
    /// Checks a party; `None` if there is nothing to copy.
    #[inline]
    pub(super) fn begin_copy(
        &mut self,
        party: Address,
        bytes: u64,
        role: Role,
        limit: Timeout,
    ) -> Result<Option<(u32, Deadline)>, Fail> {
        self.copies.begin();
        self.enter(Verb::Vcopy)?;
        if party == ANY || party == NONE || party == SELF || party == self.membership.address() {
            return Err(Code::Endpoint.into());
        }
        self.copies.check_length(bytes)?;
        let deadline = limit.deadline();
        let index = self.party(party, role, deadline)?;
        Ok((bytes > 0).then_some((index, deadline)))
    }

    /// The link with a party of a copy.
    #[inline]
    fn party(&mut self, party: Address, role: Role, deadline: Deadline) -> Result<u32, Fail> {
        let died = |fail: Fail| match fail.code {
            Code::DstDied | Code::Migrate => role.died().into(),
            _ => fail,
        };
        let index = self.contact(party, deadline).map_err(died)?;
        let peer = self.peers.get_mut(index);
        peer.check_party(role.died())?;
        if copy_gate::is_revoked(peer.link().peer_copy_gate()) {
            *peer.copies_mut().requester_mut() = RequesterState::default();
        }
        Ok(index)
    }

    /// Copies with one party, with stamps if this endpoint is traced.
    #[inline]
    pub(super) fn copy_traced(
        &mut self,
        index: u32,
        location: Location,
        own: &mut OwnMemory<'_>,
        bytes: usize,
        deadline: Deadline,
    ) -> Result<(), Fail> {
        self.trace.stamp(Moment::Ready);
        let (party, role) = (self.party_life(index), own.role());
        let copied = self.copy_one(index, location, own, bytes, deadline);
        let copied = copied.map_err(|fail| self.failed_with(party, role, fail));
        self.trace.stamp(Moment::Published);
        self.conversation(index).trace_gave_unnumbered(TraceWhat::Copy, bytes);
        copied
    }

    /// Copies between own memory and that of one party.
    #[inline]
    fn copy_one(
        &mut self,
        index: u32,
        location: Location,
        own: &mut OwnMemory<'_>,
        bytes: usize,
        deadline: Deadline,
    ) -> Result<(), Fail> {
        let role = own.role();
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
            let party = CopySide::Party { index, location };
            let (source, destination) = match own {
                OwnMemory::From(bytes) => (CopySide::Source(bytes.part(0, usize::MAX)), party),
                OwnMemory::Into(buffer) => (party, CopySide::Target(buffer.part(0, usize::MAX))),
            };
            let was_refused = self.is_refused(index);
            let result =
                self.copy_chunked(source, destination, bytes as u64, deadline, &mut failed);
            if result.is_ok() || was_refused == self.is_refused(index) {
                return result;
            }
        }
    }

    /// Whether the kernel refused a copy of the peer's memory after it had allowed one.
    fn is_refused(&self, index: u32) -> bool {
        self.peers.find_index(index).is_some_and(|peer| peer.copies().requester().refused)
    }

    /// Copies between two other parties. After a failure `failed` is the party at fault.
    pub(super) fn copy_third(
        &mut self,
        source: (Address, Location),
        destination: (Address, Location),
        bytes: u64,
        deadline: Deadline,
        failed: &mut Address,
    ) -> Result<(), Fail> {
        self.copies.begin();
        self.enter(Verb::Vcopy)?;
        let none = [ANY, NONE, SELF, self.membership.address()];
        if source.0 == destination.0 || none.contains(&source.0) || none.contains(&destination.0) {
            return Err(Code::Endpoint.into());
        }
        self.copies.check_length(bytes)?;
        let from = self.party(source.0, Role::Source, deadline)?;
        let source_life = self.party_life(from);
        *failed = destination.0;
        let to = self.party(destination.0, Role::Destination, deadline)?;
        let destination_life = self.party_life(to);
        *failed = source.0;
        // The second contact may have received events about the first party.
        let first = self.peers.find_index(from).filter(|peer| peer.life() == source_life.number());
        first.ok_or(Fail::from(Code::SrcDied))?.check(Code::SrcDied)?;
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
            let source_leg = CopySide::Party { index: from, location: source.1 };
            let destination_leg = CopySide::Party { index: to, location: destination.1 };
            let result = self.copy_chunked(source_leg, destination_leg, bytes, deadline, &mut role);
            if result.is_ok() || were_refused == [from, to].map(|index| self.is_refused(index)) {
                break result;
            }
        };
        let mut life = source_life;
        if role == Role::Destination {
            (*failed, life) = (destination.0, destination_life);
        }
        result.map_err(|fail| self.failed_with(life, role, fail))
    }
}
