//! The fast path of a copy: between own memory and an area, in one step.
//!
//! ```text
//! checks ── the party's gate ── copy, without the lock of the region's table ── leave the gate
//!    │            │               │
//!    └────────────┴───────────────┴ slow path: the whole copy again
//! ```
//!
//! The checks are those of the fast path of messages, and one look each at what the slow path has
//! found out before: the gate of the party, and the range of an area that both endpoints have.

use super::in_area::STEP_BYTES;
use super::side::Location;
use crate::endpoint::Endpoint;
use m3ipc_abi::{Address, Verb};
use m3ipc_link::{Counter, copy_gate};
use m3ipc_shm::RegionPass;
use m3ipc_sys::{CopySource, CopyTarget};

/// Own memory as one side of a copy.
#[derive(Clone, Copy)]
pub(super) enum Beside<'a> {
    From(&'a CopySource<'a>),
    Into(&'a CopyTarget<'a>),
}

impl Beside<'_> {
    #[inline(always)]
    fn bytes(self) -> usize {
        match self {
            Self::From(bytes) => bytes.bytes(),
            Self::Into(buffer) => buffer.bytes(),
        }
    }

    #[inline(always)]
    fn copy(self, pass: &mut RegionPass<'_>, offset: u64) -> bool {
        match self {
            Self::From(bytes) => pass.copy_in(offset, bytes),
            Self::Into(buffer) => pass.copy_out(offset, buffer),
        }
    }
}

impl Endpoint {
    /// Makes the ordinary case of a copy. `false` if it must be made on the slow path; then its
    /// counts are as before.
    #[inline(always)]
    pub(super) fn copy_fast(
        &mut self,
        party: Address,
        location: Location,
        own: Beside<'_>,
    ) -> bool {
        let Location::At(address) = location else { return false };
        let bytes = own.bytes();
        if bytes == 0 || bytes > STEP_BYTES || self.copies.check_length(bytes as u64).is_err() {
            return false;
        }
        if self.areas.is_empty() || !self.membership.may(Verb::Vcopy) || !self.is_ordinary() {
            return false;
        }
        let changes = self.areas.changes();
        let Some((_, peer)) = self.peers.find_again(party) else { return false };
        if peer.admission().is_closed() {
            return false;
        }
        let (link, copies) = peer.link_and_copies();
        let requester = copies.requester_mut();
        let Some(common) = &mut requester.common else { return false };
        if requester.direct.is_none() || !common.covers(address, bytes as u64, changes) {
            return false;
        }
        let offset = address - common.base;
        let Ok(mut pass) = copy_gate::begin_copy_in(link.peer_copy_gate(), &mut common.copier)
        else {
            return false;
        };
        m3ipc_sys::pause_point("requester.boarded");
        let is_copied = own.copy(&mut pass, offset);
        drop(pass);
        link.end_copy();
        if is_copied {
            self.copies.begin();
            self.copies.copied = bytes as u64;
            self.session.page().count(Counter::CopiedShared);
        }
        is_copied
    }
}
