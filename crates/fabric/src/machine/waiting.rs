//! Notifications and calls that wait for their peer, and their way into the lane.

use std::collections::BTreeSet;

use m3ipc_abi::Address;

use super::Machine;
use super::action::{Action, CallRefusal};
use super::delivery::Pair;
use crate::faults::Fault;
use crate::ids::{EndpointId, NodeId, VmId};
use crate::packet::{Frame, Lane, PIECED_MAX_BYTES, StreamKind, body_of, head_of};

impl Machine {
    /// Notifies a remote endpoint. The notification of a pair that waits already takes up the
    /// argument.
    ///
    /// # Errors
    /// As for [`Machine::call`].
    pub fn notify(
        &mut self,
        now_ns: u64,
        from: EndpointId,
        to: Address,
        argument: u64,
    ) -> Result<(), CallRefusal> {
        self.advance(now_ns);
        let node = self.reachable(EndpointId::new(from.vm, to))?;
        if !self.living.contains_key(&from) {
            return Err(CallRefusal::NoEndpoint);
        }
        let most = self.own.settings.limits.notifications as usize;
        let Some(peer) = self.peers.get_mut(&node) else { return Err(CallRefusal::NoEndpoint) };
        let pair = (from, to);
        if peer.notifications.len() >= most && !peer.notifications.contains_key(&pair) {
            peer.wants_room.any.insert(from.vm);
            return Err(CallRefusal::Full(node));
        }
        let bits = peer.notifications.entry(pair).or_default();
        *bits = if self.own.planted.has(Fault::NotificationReplaced) {
            argument
        } else {
            *bits | argument
        };
        self.acquaint(from, node);
        Ok(())
    }

    /// Notifies a remote endpoint ahead of an answer that follows: also where the machine has no
    /// room for the notifications of further pairs. The notification of one that is gone is lost.
    pub fn notify_before_answer(
        &mut self,
        now_ns: u64,
        from: EndpointId,
        to: Address,
        argument: u64,
    ) {
        self.advance(now_ns);
        let Ok(node) = self.reachable(EndpointId::new(from.vm, to)) else { return };
        if self.living.contains_key(&from)
            && let Some(peer) = self.peers.get_mut(&node)
        {
            peer.session.push(notification((from, to), argument), Vec::new(), &self.own);
            self.acquaint(from, node);
        }
    }

    /// Whether there is room for a call with so many bytes, beside so many bytes of calls that
    /// begin before it. If not, [`Action::Room`] follows.
    pub fn admits_bytes(&mut self, vm: VmId, to: Address, bytes: usize, beside: u64) -> bool {
        // Any other failure is for the call to find.
        let is_too_long = bytes > PIECED_MAX_BYTES;
        match self.reachable(EndpointId::new(vm, to)) {
            Ok(node) if !is_too_long => self.has_room(node, vm, bytes, beside),
            _ => true,
        }
    }

    /// Whether a further call may wait for the peer, beside so many bytes of others.
    pub(super) fn has_room(
        &mut self,
        node: NodeId,
        vm: VmId,
        bytes: usize,
        beside_bytes: u64,
    ) -> bool {
        let is_pieced = self.is_pieced(bytes);
        let pieced_bytes = if is_pieced { self.pieced_bytes_for(node) } else { 0 };
        let limits = &self.own.settings.limits;
        let Some(peer) = self.peers.get_mut(&node) else { return false };
        let of_vm = peer.waiting.of_vm(vm);
        if peer.waiting.len() >= limits.waiting as usize || of_vm >= limits.waiting_of_vm as usize {
            peer.wants_room.any.insert(vm);
            return false;
        }
        let bytes = bytes as u64;
        let others = pieced_bytes.saturating_add(beside_bytes);
        let fits = !is_pieced || limits.has_room_for_pieces(others, bytes);
        if !fits {
            let least = peer.wants_room.pieced.entry(vm).or_insert(bytes);
            *least = bytes.min(*least);
        }
        fits
    }

    /// Bytes of calls for a peer that travel in pieces and have not left.
    fn pieced_bytes_for(&self, node: NodeId) -> u64 {
        let Some(peer) = self.peers.get(&node) else { return 0 };
        peer.waiting.pieced_bytes() + peer.streams.outgoing_bytes(StreamKind::Call)
    }

    /// Moves a notification or a call that waits into its lane, if the lane transmits it next.
    pub(super) fn promote(&mut self, node: NodeId) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        if !peer.session.is_up() || !peer.session.lane(Lane::Message).has_room() {
            return;
        }
        let is_notification =
            !peer.notifications.is_empty() && (!peer.notified_last || peer.waiting.is_empty());
        if is_notification && let Some((pair, argument)) = peer.notifications.pop_first() {
            peer.notified_last = true;
            peer.session.push(notification(pair, argument), Vec::new(), &self.own);
        } else {
            peer.notified_last = false;
            self.promote_call(node);
        }
        self.announce_room(node);
    }

    /// Sends the notification of a pair that waits: the sender notified before it called or
    /// answered, and the order of a pair holds.
    pub(super) fn send_notification(&mut self, node: NodeId, pair: Pair) {
        if let Some(peer) = self.peers.get_mut(&node)
            && let Some(argument) = peer.notifications.remove(&pair)
        {
            peer.session.push(notification(pair, argument), Vec::new(), &self.own);
        }
    }

    /// Sends the notifications of an endpoint that has died, ahead of the word of its death.
    pub(super) fn send_notifications_of(&mut self, from: EndpointId) {
        let of_dead = |pair: &&Pair| pair.0 == from;
        let waiting = self.peers.iter().flat_map(|(node, peer)| {
            let pairs = peer.notifications.keys().filter(of_dead);
            pairs.map(|pair| (*node, *pair))
        });
        let waiting: Vec<(NodeId, Pair)> = waiting.collect();
        waiting.into_iter().for_each(|(node, pair)| self.send_notification(node, pair));
    }

    fn promote_call(&mut self, node: NodeId) {
        let planted = self.own.planted;
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let Some(id) = peer.next_call(planted) else { return };
        let Some(call) = self.outgoing.calls.get(&id) else { return };
        self.send_notification(node, (call.from, call.to));
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let Some(call) = self.outgoing.calls.get_mut(&id) else { return };
        let Some(mut content) = call.sent() else { return };
        let is_pieced = content.long.len() > self.own.settings.inline_bytes;
        let long = if is_pieced { std::mem::take(&mut content.long) } else { Vec::new() };
        let frame = Frame::Call {
            call: id,
            vm: call.from.vm,
            from: call.from.address.0,
            to: call.to.0,
            kind: call.kind,
            head: head_of(&content),
            // The length was checked when the call was accepted.
            pieced: u32::try_from(long.len()).unwrap_or(u32::MAX),
        };
        peer.session.push(frame, body_of(&content), &self.own);
        if is_pieced {
            self.begin_stream(node, (id, StreamKind::Call), long);
        }
    }

    /// Tells the driver once that calls of a VM are accepted again.
    ///
    /// The queue of the VM itself has to be half empty. Of the queue of all VMs one place is
    /// enough: other VMs may fill it for good. Calls in pieces wait for room for their bytes, and
    /// nothing else waits with them.
    pub(super) fn announce_room(&mut self, node: NodeId) {
        let limits = &self.own.settings.limits;
        if self.peers.get(&node).is_none_or(|peer| peer.wants_room.is_empty()) {
            return;
        }
        let pieced_bytes = self.pieced_bytes_for(node);
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let has_any = peer.waiting.len() < limits.waiting as usize
            && peer.notifications.len() < limits.notifications as usize / 2 + 1;
        let of_vm = |vm: &VmId| peer.waiting.of_vm(*vm);
        let has_room = |vm: &VmId| has_any && of_vm(vm) < limits.waiting_of_vm as usize / 2 + 1;
        let any = peer.wants_room.any.iter().copied().filter(has_room);
        let fits = |(_, least): &(&VmId, &u64)| limits.has_room_for_pieces(pieced_bytes, **least);
        let pieced = peer.wants_room.pieced.iter().filter(fits).map(|(vm, _)| *vm);
        let roomy: BTreeSet<VmId> = any.chain(pieced).collect();
        for vm in &roomy {
            // What has no room still says so again.
            peer.wants_room.any.remove(vm);
            peer.wants_room.pieced.remove(vm);
        }
        self.actions.extend(roomy.into_iter().map(|vm| Action::Room { node, vm }));
    }
}

fn notification((from, to): Pair, argument: u64) -> Frame {
    Frame::Notify { vm: from.vm, from: from.address.0, to: to.0, argument }
}
