//! Copies in the simulation: both sides check each byte.

use m3ipc_fabric::{Action, CopyId, CopyOrder, EndpointId, NodeId};

use crate::node::SimCopy;
use crate::world::{Checked, World};

/// The byte of a copy at this offset: its place tells copies apart.
fn byte(order: &CopyOrder, at: u64) -> u8 {
    (order.place ^ at).to_le_bytes()[0]
}

impl World {
    pub fn copy(&mut self, id: NodeId) -> Checked {
        let Some((requester, party)) = self.some_pair(id) else { return Ok(()) };
        let order = CopyOrder {
            is_write: self.rng.bool(),
            space: 0,
            place: self.rng.u64(0..200),
            bytes: self.rng.u64(1..300),
        };
        let clock_ns = self.clock_ns(id);
        let peer = self.node_of(EndpointId::new(requester.vm, party));
        if let Ok(copy) = self.at(id).machine.copy(clock_ns, requester, party, order) {
            self.ledger.met(peer, requester);
            let open = SimCopy { endpoint: requester, order, moved: 0 };
            self.at(id).copies.insert(copy, open);
            self.give(id, copy)?;
        }
        self.drain(id)
    }

    /// The requester of a copy gives it up.
    pub fn abort_copy(&mut self, id: NodeId) -> Checked {
        let copies = self.at(id).copies.keys().copied();
        let own: Vec<CopyId> = copies.filter(|copy| matches!(copy, CopyId::Own(_))).collect();
        let Some(copy) = self.rng.choice(own) else { return Ok(()) };
        let clock_ns = self.clock_ns(id);
        let node = self.at(id);
        node.copies.remove(&copy);
        node.machine.copy_abort(clock_ns, copy);
        self.drain(id)
    }

    /// Gives what the machine has room for, if this node sends the bytes.
    fn give(&mut self, id: NodeId, copy: CopyId) -> Checked {
        let clock_ns = self.clock_ns(id);
        let node = self.at(id);
        let Some(open) = node.copies.get_mut(&copy) else { return Ok(()) };
        let left = open.order.bytes - open.moved;
        let room = (node.machine.copy_room(copy) as u64).min(left);
        let bytes: Vec<u8> =
            (open.moved..open.moved + room).map(|at| byte(&open.order, at)).collect();
        open.moved += room;
        node.machine.copy_give(clock_ns, copy, bytes.into());
        let (is_whole, bytes) = (open.moved == open.order.bytes, open.order.bytes);
        if is_whole && matches!(copy, CopyId::Of(..)) && node.copies.remove(&copy).is_some() {
            node.machine.copy_done(clock_ns, copy, 0, bytes);
        }
        Ok(())
    }

    fn take_bytes(&mut self, id: NodeId, copy: CopyId, bytes: &[u8]) -> Checked {
        let clock_ns = self.clock_ns(id);
        let node = self.at(id);
        let Some(open) = node.copies.get_mut(&copy) else { return Ok(()) };
        let expected = (open.moved..).map(|at| byte(&open.order, at));
        if !bytes.iter().copied().eq(expected.take(bytes.len())) {
            return Err(format!("{copy:?} gets other bytes at {}: {bytes:?}", open.moved));
        }
        open.moved += bytes.len() as u64;
        node.machine.copy_taken(clock_ns, copy, bytes.len() as u64);
        let (is_whole, bytes) = (open.moved == open.order.bytes, open.order.bytes);
        if is_whole && matches!(copy, CopyId::Of(..)) {
            node.copies.remove(&copy);
            node.machine.copy_done(clock_ns, copy, 0, bytes);
        }
        Ok(())
    }

    /// An action about a copy. Any other comes back.
    pub fn copy_action(&mut self, id: NodeId, action: Action) -> Result<Option<Action>, String> {
        match action {
            Action::CopyBegin { copy, requester, party, order } => {
                let endpoint = EndpointId::new(requester.vm, party);
                if !self.at(id).endpoints.contains(&endpoint) {
                    return Err(format!("{endpoint:?} is dead and is a party"));
                }
                let of = self.node_of(requester);
                self.ledger.met(of, endpoint);
                let open = SimCopy { endpoint, order, moved: 0 };
                self.at(id).copies.insert(copy, open);
                self.give(id, copy)?;
            }
            Action::CopyBytes { copy, bytes } => self.take_bytes(id, copy, &bytes)?,
            Action::CopyRoom { copy } => self.give(id, copy)?,
            Action::CopyEnded { copy, code, bytes } => {
                let Some(open) = self.at(id).copies.remove(&copy) else {
                    return Err(format!("{copy:?} ended, which is not open"));
                };
                if code == 0 && (bytes, open.moved) != (open.order.bytes, open.order.bytes) {
                    return Err(format!("{copy:?} is done after {} bytes", open.moved));
                }
            }
            Action::CopyAbandon { copy } => {
                self.at(id).copies.remove(&copy);
            }
            other => return Ok(Some(other)),
        }
        Ok(None)
    }

    /// The death of an endpoint: nobody awaits its copies.
    pub fn forget_copies(&mut self, id: NodeId, endpoint: EndpointId) {
        let is_own = |copy: &CopyId, open: &SimCopy| {
            matches!(copy, CopyId::Own(_)) && open.endpoint == endpoint
        };
        self.at(id).copies.retain(|copy, open| !is_own(copy, open));
    }

    /// Whether no copy is open.
    pub fn has_no_copies(&self) -> bool {
        self.nodes.iter().all(|node| node.copies.is_empty())
    }
}
