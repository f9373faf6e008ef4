//! What users share: none has more calls than its share, and a refused one hears of room.

use m3ipc_abi::Address;
use m3ipc_fabric::{CallId, CallKind, EndpointId, NodeId, VmId};

use crate::node::{Node, Share};
use crate::world::{Checked, World};

/// The user of a call: the endpoints of VM 1 have the same user, those of VM 2 have their own.
pub fn user_of(from: EndpointId, kind: CallKind) -> Option<u32> {
    let of_vm = if from.vm == 1 { 0 } else { 1 + from.address.slot().cast_unsigned() % 2 };
    (kind != CallKind::Wakeup).then_some(1000 + of_vm)
}

impl World {
    /// A call of a user was accepted. The machine counts each call that has no outcome yet.
    pub fn accepted(&mut self, id: NodeId, call: CallId, share: Share) -> Checked {
        let most = self.settings.limits.calls_of_vm as usize;
        let (peer, vm, user) = share;
        let node = self.at(id);
        node.shares.held.insert(call, share);
        let calls = &node.calls;
        node.shares.held.retain(|call, _| calls.contains_key(call));
        let held = node.shares.held.values();
        let of_vm: Vec<&Share> = held.filter(|it| (it.0, it.1) == (peer, vm)).collect();
        let own = of_vm.iter().filter(|it| ***it == share).count();
        if own > 1 && own > 3 * most.saturating_sub(of_vm.len()) {
            return Err(format!("user {user} has {own} of {} calls with {peer:?}", of_vm.len()));
        }
        Ok(())
    }

    /// A call of a user was refused for its share.
    pub fn refused_share(&mut self, id: NodeId, share: Share, to: Address) {
        self.at(id).shares.refused.insert(share, to);
    }

    /// There is room for a VM.
    pub fn heard_of_room(&mut self, id: NodeId, peer: NodeId, vm: VmId) {
        self.at(id).shares.refused.retain(|(of, it, _), _| (*of, *it) != (peer, vm));
    }

    /// Each user that was refused and might call now has heard of the room.
    pub fn refused_ones_wait_for_room(&mut self, id: NodeId) -> Checked {
        let Node { machine, shares, .. } = self.at(id);
        for ((peer, vm, user), to) in &shares.refused {
            // A backup, or the home after it, is another endpoint: its stand-in looks anew.
            let is_there = machine.owners().owner(EndpointId::new(*vm, *to)) == Some(*peer);
            if is_there && machine.is_reachable(*peer) && machine.admits(*vm, *to, *user, &[]) {
                return Err(format!("user {user} heard of no room for {peer:?}"));
            }
        }
        Ok(())
    }

    /// The session with a peer has ended, and with it what was refused.
    pub fn lost_shares(&mut self, id: NodeId, peer: NodeId) {
        self.at(id).shares.refused.retain(|(of, ..), _| *of != peer);
    }
}
