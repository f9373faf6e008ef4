//! Copies: a local endpoint copies with the memory of a remote one, or the other way round.
//!
//! ```text
//! requester's node                         party's node
//! Copy: party, direction, place, bytes -->  Action::CopyBegin
//! CopyPiece ... (a write)             -->  into the party's memory
//!           <-- ... CopyPiece (a read)     out of the party's memory
//!           <-- CopyMore                   so many bytes may come (for a read: -->)
//!           <------------------- CopyEnd   the one end, from the party's node
//! CopyAbort                           -->  the requester waits no longer
//! ```
//!
//! The side that gets the bytes admits a window and moves it on as its driver takes them. So memory
//! is bounded, and the pieces of many copies take turns with those of long payloads. The party's
//! library checks place and rights; this machine never looks at an address.

use std::collections::VecDeque;

use bytes::Bytes;
use m3ipc_abi::{Address, Code};

use super::action::{Action, CallRefusal};
use super::open_copies::{CopyId, OpenCopy};
use super::{Machine, RuleBroken};
use crate::faults::Fault;
use crate::ids::{CallId, EndpointId, NodeId};
use crate::packet::{CopyOrder, Frame};

/// Copies of a peer that may be open here, and copies of this node at a peer.
const COPIES_MAX: usize = 256;

impl Machine {
    /// A local endpoint copies with a remote one. The copy ends by [`Action::CopyEnded`].
    ///
    /// # Errors
    /// [`CallRefusal`]: nothing was copied.
    pub fn copy(
        &mut self,
        now_ns: u64,
        requester: EndpointId,
        party: Address,
        order: CopyOrder,
    ) -> Result<CopyId, CallRefusal> {
        self.advance(now_ns);
        let node = self.reachable(EndpointId::new(requester.vm, party))?;
        if !self.living.contains_key(&requester) {
            return Err(CallRefusal::NoEndpoint);
        }
        if self.copies.count(node, true) >= COPIES_MAX {
            return Err(CallRefusal::Full(node));
        }
        self.outgoing.last += 1;
        let call = CallId(self.outgoing.last);
        self.acquaint(requester, node);
        self.tell_took_before((requester, party));
        let (vm, from, to) = (requester.vm, requester.address.0, party.0);
        self.push(node, Frame::Copy { call, vm, from, to, order }, Vec::new());
        let id = CopyId::Own(call);
        self.open_copy(id, node, call, (requester, party), order);
        Ok(id)
    }

    fn open_copy(
        &mut self,
        id: CopyId,
        node: NodeId,
        call: CallId,
        (requester, party): (EndpointId, Address),
        order: CopyOrder,
    ) {
        // The bytes of a write come after its frame, on another lane: they wait for `CopyMore`.
        let window_bytes = self.own.settings.copy_window_bytes;
        let admitted = if order.is_write { 0 } else { order.bytes.min(window_bytes) };
        let (pieces, end) = (VecDeque::new(), None);
        let copy = OpenCopy {
            node,
            call,
            requester,
            party,
            order,
            admitted,
            moved: 0,
            taken: 0,
            pieces,
            end,
        };
        self.copies.open.insert(id, copy);
    }

    /// How many bytes the driver may give now.
    #[must_use]
    pub fn copy_room(&self, id: CopyId) -> usize {
        let copy = self.copies.open.get(&id).filter(|copy| id.sends(&copy.order));
        copy.map_or(0, |copy| usize::try_from(copy.admitted - copy.moved).unwrap_or(0))
    }

    /// Bytes of a copy that this node sends, at most [`Machine::copy_room`].
    pub fn copy_give(&mut self, now_ns: u64, id: CopyId, mut bytes: Bytes) {
        self.advance(now_ns);
        if bytes.len() > self.copy_room(id) || bytes.is_empty() {
            return;
        }
        let piece_bytes = self.own.settings.piece_bytes;
        let Some(copy) = self.copies.open.get_mut(&id) else { return };
        copy.moved += bytes.len() as u64;
        let had_none = copy.pieces.is_empty();
        while !bytes.is_empty() {
            copy.pieces.push_back(bytes.split_to(piece_bytes.min(bytes.len())));
        }
        if had_none {
            self.copies.ready.entry(copy.node).or_default().push_back(id);
        }
    }

    /// The driver has taken bytes of a copy that this node receives.
    pub fn copy_taken(&mut self, now_ns: u64, id: CopyId, bytes: u64) {
        self.advance(now_ns);
        let Some(copy) = self.copies.open.get_mut(&id) else { return };
        copy.taken = copy.taken.saturating_add(bytes).min(copy.moved);
        self.admit(id);
    }

    /// Moves the window of a copy on. Few frames: at each quarter of the window, and at the end.
    fn admit(&mut self, id: CopyId) {
        let window_bytes = self.own.settings.copy_window_bytes;
        let Some(copy) = self.copies.open.get_mut(&id) else { return };
        let admitted = copy.order.bytes.min(copy.taken + window_bytes);
        let is_last = admitted == copy.order.bytes && copy.admitted < admitted;
        if is_last || admitted - copy.admitted >= window_bytes / 4 {
            copy.admitted = admitted;
            let (node, call, of_receiver) = (copy.node, copy.call, matches!(id, CopyId::Of(..)));
            self.push(node, Frame::CopyMore { call, of_receiver, admitted }, Vec::new());
        }
    }

    /// The requester gives its copy up.
    pub fn copy_abort(&mut self, now_ns: u64, id: CopyId) {
        self.advance(now_ns);
        self.abort_copy(id);
    }

    fn abort_copy(&mut self, id: CopyId) {
        if let CopyId::Own(call) = id
            && let Some(copy) = self.copies.remove(&id)
        {
            self.push(copy.node, Frame::CopyAbort { call }, Vec::new());
        }
    }

    /// A copy of a remote requester has ended: 0 or a code, and the bytes that were surely copied.
    pub fn copy_done(&mut self, now_ns: u64, id: CopyId, code: i32, bytes: u64) {
        self.advance(now_ns);
        self.end_copy_of_peer(id, code, bytes);
    }

    fn end_copy_of_peer(&mut self, id: CopyId, code: i32, bytes: u64) {
        let CopyId::Of(node, call) = id else { return };
        let Some(copy) = self.copies.open.get_mut(&id) else { return };
        if code == 0 && !copy.pieces.is_empty() {
            // The end follows the last piece.
            copy.end = Some((code, bytes));
            return;
        }
        self.copies.remove(&id);
        self.push(node, Frame::CopyEnd { call, code, bytes }, Vec::new());
    }

    /// Moves a piece of a copy into its lane. `false` if there is none.
    pub(super) fn promote_copy(&mut self, node: NodeId) -> bool {
        let Some((id, call, piece)) = self.copies.next_piece(node) else { return false };
        let of_receiver = matches!(id, CopyId::Of(..));
        self.push(node, Frame::CopyPiece { call, of_receiver }, piece);
        let ended = self.copies.open.get_mut(&id).filter(|copy| copy.pieces.is_empty());
        if let Some((code, bytes)) = ended.and_then(|copy| copy.end.take()) {
            self.end_copy_of_peer(id, code, bytes);
        }
        true
    }

    pub(super) fn copy_arrived(
        &mut self,
        node: NodeId,
        call: CallId,
        (requester, to): (EndpointId, EndpointId),
        order: CopyOrder,
    ) -> Result<(), RuleBroken> {
        let id = CopyId::Of(node, call);
        let is_full = self.copies.count(node, false) >= COPIES_MAX;
        self.is_of(node, requester)?;
        if is_full || order.bytes == 0 || self.copies.open.contains_key(&id) {
            return Err(RuleBroken);
        }
        self.open_copy(id, node, call, (requester, to.address), order);
        // As for a call: nobody copies before it was announced.
        let slot = (requester.vm, requester.address.slot());
        let announced = self.peers.get(&node).and_then(|peer| peer.announced.get(&slot));
        let is_known = announced == Some(&requester.address);
        let why = if is_known { self.missing(to) } else { Some(crate::Failure::NoEndpoint) };
        if let Some(why) = why {
            let code = match why {
                crate::Failure::Died => died(&order),
                _ => Code::Endpoint,
            };
            self.end_copy_of_peer(id, code.number(), 0);
            return Ok(());
        }
        self.acquaint(to, node);
        if order.is_write {
            self.admit(id);
        }
        let party = to.address;
        self.actions.push_back(Action::CopyBegin { copy: id, requester, party, order });
        Ok(())
    }

    /// The copy of which a peer speaks: `of_receiver` from the view of the peer.
    fn spoken_of(&mut self, node: NodeId, call: CallId, of_receiver: bool) -> CopyId {
        if of_receiver { CopyId::Own(call) } else { CopyId::Of(node, call) }
    }

    pub(super) fn copy_piece_arrived(
        &mut self,
        node: NodeId,
        (call, of_receiver): (CallId, bool),
        piece: &Bytes,
    ) -> Result<(), RuleBroken> {
        let id = self.spoken_of(node, call, of_receiver);
        // The copy may have ended while the piece was under way.
        let Some(copy) = self.copies.open.get_mut(&id) else { return Ok(()) };
        let moved = copy.moved + piece.len() as u64;
        if copy.node != node || id.sends(&copy.order) || moved > copy.admitted {
            return Err(RuleBroken);
        }
        copy.moved = moved;
        let (is_whole, end) = (moved == copy.order.bytes, copy.end);
        self.actions.push_back(Action::CopyBytes { copy: id, bytes: piece.clone() });
        if is_whole && let Some((code, bytes)) = end {
            self.report_copy(id, code, bytes);
        }
        Ok(())
    }

    pub(super) fn copy_more_arrived(
        &mut self,
        node: NodeId,
        (call, of_receiver): (CallId, bool),
        admitted: u64,
    ) -> Result<(), RuleBroken> {
        let id = self.spoken_of(node, call, of_receiver);
        let Some(copy) = self.copies.open.get_mut(&id) else { return Ok(()) };
        // A receiver admits a window more than it has taken. It can have taken what has left alone,
        // so no more than a window waits here.
        let waiting: u64 = copy.pieces.iter().map(|piece| piece.len() as u64).sum();
        let most =
            (copy.moved - waiting + self.own.settings.copy_window_bytes).min(copy.order.bytes);
        let is_more = admitted > copy.admitted && admitted <= most;
        if copy.node != node || !id.sends(&copy.order) || !is_more {
            return Err(RuleBroken);
        }
        copy.admitted = admitted;
        self.actions.push_back(Action::CopyRoom { copy: id });
        Ok(())
    }

    pub(super) fn copy_end_arrived(
        &mut self,
        node: NodeId,
        call: CallId,
        code: i32,
        bytes: u64,
    ) -> Result<(), RuleBroken> {
        let id = CopyId::Own(call);
        let ends_early = self.own.planted.has(Fault::CopyEndsEarly);
        // The requester may have given it up.
        let Some(copy) = self.copies.open.get_mut(&id) else { return Ok(()) };
        let all = copy.order.bytes;
        let is_code = code == 0 && bytes == all || Code::from_number(code).is_some();
        if copy.node != node || !is_code || bytes > all || copy.end.is_some() {
            return Err(RuleBroken);
        }
        let is_read = !copy.order.is_write;
        if code == 0 && is_read && copy.moved < all && !ends_early {
            copy.end = Some((code, bytes));
            return Ok(());
        }
        if code == 0 && !is_read && copy.moved < all {
            return Err(RuleBroken);
        }
        self.report_copy(id, code, bytes);
        Ok(())
    }

    fn report_copy(&mut self, id: CopyId, code: i32, bytes: u64) {
        if self.copies.remove(&id).is_some() {
            self.actions.push_back(Action::CopyEnded { copy: id, code, bytes });
        }
    }

    pub(super) fn copy_abort_arrived(&mut self, node: NodeId, call: CallId) {
        let id = CopyId::Of(node, call);
        if self.copies.remove(&id).is_some() {
            self.actions.push_back(Action::CopyAbandon { copy: id });
        }
    }

    /// The death of a local endpoint: its copies, and those with its memory.
    pub(super) fn end_copies_of(&mut self, endpoint: EndpointId) {
        let open: Vec<(CopyId, bool, CopyOrder)> = self
            .copies
            .open
            .iter()
            .map(|(id, copy)| {
                let party = EndpointId::new(copy.requester.vm, copy.party);
                let is_party = matches!(id, CopyId::Of(..)) && party == endpoint;
                let is_requester = matches!(id, CopyId::Own(_)) && copy.requester == endpoint;
                (*id, is_party || is_requester, copy.order)
            })
            .collect();
        for (id, _, order) in open.into_iter().filter(|(_, is_of, _)| *is_of) {
            if let CopyId::Of(..) = id {
                self.actions.push_back(Action::CopyAbandon { copy: id });
                self.end_copy_of_peer(id, died(&order).number(), 0);
            } else {
                self.abort_copy(id);
            }
        }
    }

    /// The end of a session: all copies with the node end.
    pub(super) fn end_copies_with(&mut self, node: NodeId, code: Code) {
        let of_node = self.copies.open.iter().filter(|(_, copy)| copy.node == node);
        let of_node: Vec<CopyId> = of_node.map(|(id, _)| *id).collect();
        for id in of_node {
            if let CopyId::Own(_) = id {
                self.report_copy(id, code.number(), 0);
            } else if self.copies.remove(&id).is_some() {
                self.actions.push_back(Action::CopyAbandon { copy: id });
            }
        }
        self.copies.ready.remove(&node);
    }
}

/// The code for the death of the party.
fn died(order: &CopyOrder) -> Code {
    if order.is_write { Code::DstDied } else { Code::SrcDied }
}
