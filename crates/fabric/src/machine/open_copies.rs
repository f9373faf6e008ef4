//! The copies that are under way between this node and others: see [`super::copy`].

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use m3ipc_abi::Address;

use crate::ids::{CallId, EndpointId, NodeId};
use crate::packet::CopyOrder;

/// A copy, as this node knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CopyId {
    /// A copy of a local requester.
    Own(CallId),
    /// A copy of a remote requester.
    Of(NodeId, CallId),
}

/// A copy that has not ended.
#[derive(Debug)]
pub(super) struct OpenCopy {
    pub node: NodeId,
    pub call: CallId,
    pub requester: EndpointId,
    pub party: Address,
    pub order: CopyOrder,
    /// Bytes that may have moved by now.
    pub admitted: u64,
    /// Bytes that moved: sent, or received.
    pub moved: u64,
    /// Bytes that the driver has taken.
    pub taken: u64,
    /// Pieces that wait for their turn.
    pub pieces: VecDeque<Bytes>,
    /// The end that has come before the last pieces.
    pub end: Option<(i32, u64)>,
}

/// All copies.
#[derive(Debug, Default)]
pub(super) struct OpenCopies {
    pub open: BTreeMap<CopyId, OpenCopy>,
    /// Copies with pieces, by node: they take turns.
    pub ready: BTreeMap<NodeId, VecDeque<CopyId>>,
}

impl OpenCopies {
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Bytes in memory for a peer.
    pub fn bytes_for(&self, node: NodeId) -> u64 {
        let of_node = self.open.values().filter(|copy| copy.node == node);
        of_node.map(|copy| copy.pieces.iter().map(|piece| piece.len() as u64).sum::<u64>()).sum()
    }

    /// Takes a copy out that has ended, and the turn of its pieces.
    pub fn remove(&mut self, id: &CopyId) -> Option<OpenCopy> {
        let copy = self.open.remove(id)?;
        if let Some(ready) = self.ready.get_mut(&copy.node) {
            ready.retain(|other| other != id);
        }
        Some(copy)
    }

    pub fn next_piece(&mut self, node: NodeId) -> Option<(CopyId, CallId, Bytes)> {
        let ready = self.ready.get_mut(&node)?;
        while let Some(id) = ready.pop_front() {
            let Some(copy) = self.open.get_mut(&id) else { continue };
            let Some(piece) = copy.pieces.pop_front() else { continue };
            if !copy.pieces.is_empty() {
                ready.push_back(id);
            }
            return Some((id, copy.call, piece));
        }
        None
    }

    pub fn count(&self, node: NodeId, own: bool) -> usize {
        let of_node = self.open.iter().filter(|(_, copy)| copy.node == node);
        of_node.filter(|(id, _)| matches!(id, CopyId::Own(_)) == own).count()
    }
}

impl CopyId {
    /// Whether this node sends the bytes.
    pub(super) fn sends(self, order: &CopyOrder) -> bool {
        matches!(self, Self::Own(_)) == order.is_write
    }
}
