//! Notifications and calls that wait for their peer, and their way into the lane.

use std::collections::VecDeque;

use m3ipc_abi::Address;

use super::Machine;
use super::action::{Action, CallRefusal};
use super::delivery::Pair;
use crate::faults::Fault;
use crate::ids::{EndpointId, NodeId, VmId};
use crate::packet::{Frame, Lane, StreamKind, body_of, head_of};

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
            peer.wants_room.insert(from.vm);
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

    /// Whether a further call may wait for the peer.
    pub(super) fn has_room(&mut self, node: NodeId, vm: VmId, bytes: usize) -> bool {
        let limits = &self.own.settings.limits;
        let too_much = self.is_pieced(bytes) && {
            let pieced_bytes = self.pieced_bytes_for(node);
            pieced_bytes > 0 && pieced_bytes.saturating_add(bytes as u64) > limits.pieced_bytes
        };
        let Some(peer) = self.peers.get_mut(&node) else { return false };
        let of_vm = peer.waiting.get(&vm).map_or(0, VecDeque::len);
        let fits =
            peer.waiting_calls() < limits.waiting as usize && of_vm < limits.waiting_of_vm as usize;
        let fits = fits && !too_much;
        if !fits {
            peer.wants_room.insert(vm);
        }
        fits
    }

    /// Bytes of calls for a peer that travel in pieces and have not left.
    fn pieced_bytes_for(&self, node: NodeId) -> u64 {
        let Some(peer) = self.peers.get(&node) else { return 0 };
        let calls = peer.waiting.values().flatten();
        let calls = calls.filter_map(|id| self.outgoing.calls.get(id)?.content.as_ref());
        let pieced = calls.filter(|content| self.is_pieced(content.long.len()));
        pieced.map(|content| content.long.len() as u64).sum::<u64>()
            + peer.streams.outgoing_bytes(StreamKind::Call)
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
    /// enough: other VMs may fill it for good.
    pub(super) fn announce_room(&mut self, node: NodeId) {
        let limits = &self.own.settings.limits;
        if self.peers.get(&node).is_none_or(|peer| peer.wants_room.is_empty()) {
            return;
        }
        let pieced_bytes = self.pieced_bytes_for(node);
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let has_any = peer.waiting_calls() < limits.waiting as usize
            && pieced_bytes <= limits.pieced_bytes / 2
            && peer.notifications.len() < limits.notifications as usize / 2 + 1;
        if !has_any {
            return;
        }
        let of_vm = |vm: &VmId| peer.waiting.get(vm).map_or(0, VecDeque::len);
        let has_room = |vm: &&VmId| of_vm(vm) < limits.waiting_of_vm as usize / 2 + 1;
        let roomy: Vec<VmId> = peer.wants_room.iter().filter(has_room).copied().collect();
        for vm in roomy {
            peer.wants_room.remove(&vm);
            self.actions.push_back(Action::Room { node, vm });
        }
    }
}

fn notification((from, to): Pair, argument: u64) -> Frame {
    Frame::Notify { vm: from.vm, from: from.address.0, to: to.0, argument }
}
