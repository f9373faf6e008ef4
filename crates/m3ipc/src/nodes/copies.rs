//! Copies that cross nodes, for the proxy: see [`StandIn`].

use super::StandIn;
use crate::endpoint::{CopyNews, PartyCopy, PartyStep};
use m3ipc_abi::{Address, Code};
use m3ipc_link::{CopyCommand, CopyDirection};

/// What a requester wants to be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyWish {
    /// Whether the copy writes the memory of the party; else it reads.
    pub is_write: bool,
    /// The grant or the leases in which the place lies; 0 for an address.
    pub space: u64,
    /// The place: an address or an offset.
    pub place: u64,
    /// The length.
    pub bytes: u64,
}

impl From<CopyCommand> for CopyWish {
    fn from(command: CopyCommand) -> Self {
        let CopyCommand { direction, space, address, bytes } = command;
        Self { is_write: direction == CopyDirection::Write, space, place: address, bytes }
    }
}

impl From<CopyWish> for CopyCommand {
    fn from(wish: CopyWish) -> Self {
        let direction = if wish.is_write { CopyDirection::Write } else { CopyDirection::Read };
        Self { direction, space: wish.space, address: wish.place, bytes: wish.bytes }
    }
}

/// What a local requester wants of the remote endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyEvent {
    /// A copy with its memory: end it with [`StandIn::finish_copy`].
    Begun(Address, CopyWish),
    /// The requester waits no longer.
    GivenUp(Address),
}

/// A copy of the remote endpoint with a local party.
#[derive(Debug)]
pub struct LocalCopy(PartyCopy);

/// The next step of a copy with a local party.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalCopyStep {
    /// The party is at work. The descriptor of the stand-in tells of progress; that of a silent one
    /// does not, but [`StandIn::has_local_copy_moved`].
    Waits,
    /// The party takes a chunk of this length: [`StandIn::put_local_chunk`].
    Wants(usize),
    /// The party has a chunk of this length: [`StandIn::take_local_chunk`].
    Has(usize),
    /// The end: 0 or a code, and the bytes that were surely copied.
    Ended(i32, u64),
}

impl From<PartyStep> for LocalCopyStep {
    fn from(step: PartyStep) -> Self {
        match step {
            PartyStep::Waits => Self::Waits,
            PartyStep::Wants(bytes) => Self::Wants(bytes),
            PartyStep::Has(bytes) => Self::Has(bytes),
            PartyStep::Ended(code, bytes) => Self::Ended(code, bytes),
        }
    }
}

impl LocalCopy {
    /// Whether the party has not let the stand-in in yet: only a ring tells when it does.
    #[must_use]
    pub fn needs_rings(&self) -> bool {
        self.0.awaits_gate()
    }
}

impl StandIn {
    /// The user of a local requester.
    #[must_use]
    pub fn user_of(&self, requester: Address) -> Option<u32> {
        self.endpoint.user_of(requester)
    }

    /// What local requesters want to be copied.
    pub fn poll_copies(&mut self) -> Vec<CopyEvent> {
        let found = self.endpoint.poll_copies();
        let events = found.into_iter().map(|news| match news {
            CopyNews::Begun(from, command) => CopyEvent::Begun(from, command.into()),
            CopyNews::GivenUp(from) => CopyEvent::GivenUp(from),
        });
        events.collect()
    }

    /// Whether a requester has a command for [`poll_copies`](Self::poll_copies). A few loads.
    #[must_use]
    pub fn has_copy_command(&self) -> bool {
        self.endpoint.has_copy_command()
    }

    /// The length of the next chunk that a requester has for its write, or wants for its read. A
    /// few loads.
    ///
    /// # Errors
    /// `PeerBroke`: the requester broke the rules of its bounce buffer. End its copy.
    pub fn next_copy_chunk(&self, requester: Address) -> Result<Option<usize>, Code> {
        self.endpoint.next_copy_chunk(requester).map_err(|_broken| Code::PeerBroke)
    }

    /// Takes the next chunk of a write, if it is there.
    pub fn take_copy_chunk(&mut self, requester: Address) -> Option<Vec<u8>> {
        self.endpoint.take_copy_chunk(requester)
    }

    /// Gives the chunk of a read for which [`next_copy_chunk`](Self::next_copy_chunk) asked, in
    /// parts that follow each other.
    pub fn put_copy_chunk(&mut self, requester: Address, chunk: impl Iterator<Item: AsRef<[u8]>>) {
        self.endpoint.put_copy_chunk(requester, chunk);
    }

    /// Ends the copy of a requester: 0 or a code, and the bytes that were surely copied.
    pub fn finish_copy(&mut self, requester: Address, code: i32, bytes: u64) {
        self.endpoint.finish_copy(requester, code, bytes);
    }

    /// Begins a copy of the remote endpoint with a local party.
    ///
    /// # Errors
    /// The code of the failure: nothing was copied.
    pub fn begin_local_copy(&mut self, party: Address, wish: CopyWish) -> Result<LocalCopy, Code> {
        let begun = self.endpoint.begin_party_copy(party, wish.into());
        begun.map(LocalCopy).map_err(|fail| fail.code)
    }

    /// The next step of a copy with a local party.
    pub fn step_local_copy(&mut self, copy: &mut LocalCopy) -> LocalCopyStep {
        self.endpoint.step_party_copy(&mut copy.0).into()
    }

    /// What [`step_local_copy`](Self::step_local_copy) finds, if it finds more than a wait. A few
    /// loads.
    #[must_use]
    pub fn has_local_copy_moved(&self, copy: &LocalCopy) -> Option<LocalCopyStep> {
        self.endpoint.has_party_moved(&copy.0).map(Into::into)
    }

    /// Gives the party the chunk that it wants, in parts that follow each other.
    pub fn put_local_chunk(
        &mut self,
        copy: &mut LocalCopy,
        chunk: impl Iterator<Item: AsRef<[u8]>>,
    ) {
        self.endpoint.put_party_chunk(&mut copy.0, chunk);
    }

    /// Takes the chunk that the party has.
    pub fn take_local_chunk(&mut self, copy: &mut LocalCopy, bytes: usize) -> Vec<u8> {
        self.endpoint.take_party_chunk(&mut copy.0, bytes)
    }

    /// Gives a copy with a local party up.
    pub fn end_local_copy(&mut self, mut copy: LocalCopy) {
        self.endpoint.end_party_copy(&mut copy.0);
    }
}
