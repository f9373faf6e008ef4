//! The state of an endpoint's copies, as a party and as a requester.

use super::gates::Gates;
use super::grant_table::GrantTable;
use super::hold_limits::Revocations;
use super::lease::ActiveLeases;
use crate::error::Fail;
use crate::octets::Octets;
use m3ipc_abi::Code;
use m3ipc_sys::OwnCopy;
use std::collections::BTreeMap;

/// The state of copies that belongs to no single peer.
#[derive(Debug, Default)]
pub(in crate::endpoint) struct Copies {
    pub(super) gates: Gates,
    /// Parties that held this endpoint longer than allowed: by user, and within one user by
    /// process.
    pub(super) revocations: BTreeMap<(u32, i32), Revocations>,
    /// The probe by which requesters recognise this process.
    pub(super) probe: Option<Box<[u64; 2]>>,
    /// Whether copies need a lease or a grant within one user too.
    pub(super) granted_only: bool,
    /// Whether this endpoint stands in for one of another node.
    pub(super) stands_in: bool,
    /// The peers that have got a bounce buffer of this stand-in. Some may be gone.
    pub(super) stand_in_gates: Vec<u32>,
    /// Bytes of one copy on this node; `None` for any number.
    max_bytes: Option<u64>,
    /// Bytes of the last copy of this endpoint.
    pub(super) copied: u64,
    /// Bytes before that: copies, and large payloads.
    earlier: u64,
    pub(super) leased: ActiveLeases,
    pub(super) grants: GrantTable,
    pub(super) own: OwnCopy,
    /// The buffer for copies between two other processes.
    pub(super) relay_buffer: Option<Octets<Box<[u8]>>>,
}

impl Copies {
    pub(in crate::endpoint) fn new(granted_only: bool, max_bytes: Option<u64>) -> Self {
        Self { granted_only, max_bytes, ..Self::default() }
    }

    /// Whether a peer may copy with this endpoint during its calls.
    #[inline]
    pub(in crate::endpoint) fn is_busy(&self) -> bool {
        self.gates.has_any() || self.leased.has_any()
    }

    /// Begins a copy.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.earlier += self.copied;
        self.copied = 0;
    }

    /// Checks the length of a copy.
    #[inline]
    pub(super) fn check_length(&self, bytes: u64) -> Result<(), Fail> {
        match self.max_bytes {
            Some(max) if bytes > max => Err(Code::Range.into()),
            _ => Ok(()),
        }
    }

    /// Counts a payload that was copied into or out of a block.
    pub(in crate::endpoint) fn payload_copied(&mut self, bytes: usize) {
        self.earlier += bytes as u64;
    }

    /// Bytes of all copies so far.
    pub(super) fn total(&self) -> u64 {
        self.earlier + self.copied
    }

    /// From now on the leases of the present call are for the peer of this link.
    #[inline]
    pub(in crate::endpoint) fn lease_to(&mut self, index: u32) {
        self.leased.pass_to(index);
    }
}
