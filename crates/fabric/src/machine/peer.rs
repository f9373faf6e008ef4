//! What waits for one peer, and what the peer has open here.

use std::collections::{BTreeMap, VecDeque};

use m3ipc_abi::Address;

use super::Machine;
use super::action::{Action, CallRefusal};
use crate::faults::{Fault, Planted};
use crate::ids::{CallId, DeliveryId, EndpointId, NodeId, VmId};
use crate::packet::{Frame, Lane, body_of};
use crate::session::Session;

/// Source and receiver.
type Pair = (EndpointId, Address);

/// A peer.
#[derive(Debug)]
pub(super) struct Peer {
    pub session: Session,
    /// Calls that have not been sent, by VM. Each kept queue has a call.
    pub waiting: BTreeMap<VmId, VecDeque<CallId>>,
    /// The VM whose call was sent last.
    last_vm: VmId,
    /// Calls that were sent and have not ended, by VM.
    open: BTreeMap<VmId, u32>,
    /// What the peer admits: calls, calls of a VM.
    pub admits: (u32, u32),
    /// Notifications that have not been sent, with their arguments.
    pub notifications: BTreeMap<Pair, u64>,
    /// Whether the last frame of its kind was a notification: the two take turns.
    notified_last: bool,
    /// Calls of the peer.
    pub incoming: BTreeMap<CallId, DeliveryId>,
    /// Their number, by VM.
    incoming_of_vm: BTreeMap<VmId, u32>,
    /// Whether a call was refused for lack of room.
    wants_room: bool,
}

impl Peer {
    pub fn new(node: NodeId, planted: Planted) -> Self {
        Self {
            session: Session::new(node, planted),
            waiting: BTreeMap::new(),
            last_vm: 0,
            open: BTreeMap::new(),
            admits: (0, 0),
            notifications: BTreeMap::new(),
            notified_last: false,
            incoming: BTreeMap::new(),
            incoming_of_vm: BTreeMap::new(),
            wants_room: false,
        }
    }

    /// The session has ended. The machine has ended its calls.
    pub fn forget(&mut self) {
        self.open.clear();
        self.notifications.clear();
    }

    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
            && self.open.values().all(|count| *count == 0)
            && self.notifications.is_empty()
            && self.session.is_settled()
    }

    fn waiting_calls(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }

    /// Counts a call of the peer. `false`: more than this node admits.
    #[must_use]
    pub fn admit(&mut self, vm: VmId, limits: &crate::Limits) -> bool {
        let of_vm = self.incoming_of_vm.entry(vm).or_default();
        let total = self.incoming.len();
        if *of_vm >= limits.calls_of_vm || total >= limits.calls as usize {
            return false;
        }
        *of_vm += 1;
        true
    }

    /// A call of the peer has ended.
    pub fn incoming_ended(&mut self, call: CallId, vm: VmId) {
        if self.incoming.remove(&call).is_some()
            && let Some(count) = self.incoming_of_vm.get_mut(&vm)
        {
            *count = count.saturating_sub(1);
        }
    }

    /// A call that was sent has ended.
    pub fn ended(&mut self, vm: VmId) {
        if let Some(count) = self.open.get_mut(&vm) {
            *count = count.saturating_sub(1);
        }
    }

    /// Takes a call out of the queue.
    pub fn unwait(&mut self, call: CallId, vm: VmId) {
        if let Some(queue) = self.waiting.get_mut(&vm) {
            queue.retain(|waiting| *waiting != call);
            if queue.is_empty() {
                self.waiting.remove(&vm);
            }
        }
    }

    /// The call to send next: the VMs take turns, and none has more open calls than the peer
    /// admits.
    fn next_call(&mut self, planted: Planted) -> Option<CallId> {
        let open: u32 = self.open.values().sum();
        let ignored = planted.has(Fault::LimitsIgnored);
        if open >= self.admits.0 && !ignored {
            return None;
        }
        let has_room =
            |vm: &VmId| ignored || self.open.get(vm).copied().unwrap_or(0) < self.admits.1;
        let later = self.waiting.keys().filter(|vm| **vm > self.last_vm);
        let vm = *later.chain(self.waiting.keys()).find(|vm| has_room(vm))?;
        let queue = self.waiting.get_mut(&vm)?;
        let call = queue.pop_front()?;
        if queue.is_empty() {
            self.waiting.remove(&vm);
        }
        self.last_vm = vm;
        *self.open.entry(vm).or_default() += 1;
        Some(call)
    }
}

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
            peer.wants_room = true;
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

    /// Whether a further call may wait for the peer.
    pub(super) fn has_room(&mut self, node: NodeId, vm: VmId) -> bool {
        let limits = &self.own.settings.limits;
        let Some(peer) = self.peers.get_mut(&node) else { return false };
        let of_vm = peer.waiting.get(&vm).map_or(0, VecDeque::len);
        let fits =
            peer.waiting_calls() < limits.waiting as usize && of_vm < limits.waiting_of_vm as usize;
        peer.wants_room |= !fits;
        fits
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
            peer.session.push(notification(pair, argument), Vec::new());
        } else {
            peer.notified_last = false;
            self.promote_call(node);
        }
        self.announce_room(node);
    }

    fn promote_call(&mut self, node: NodeId) {
        let planted = self.own.planted;
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let Some(id) = peer.next_call(planted) else { return };
        let Some(call) = self.outgoing.calls.get_mut(&id) else { return };
        let Some(content) = call.sent() else { return };
        let pair = (call.from, call.to);
        // The sender notified before it called: the order of the pair.
        if let Some(argument) = peer.notifications.remove(&pair) {
            peer.session.push(notification(pair, argument), Vec::new());
        }
        let frame = Frame::Call {
            call: id,
            vm: call.from.vm,
            from: call.from.address.0,
            to: call.to.0,
            kind: call.kind,
            m_type: content.m_type,
        };
        peer.session.push(frame, body_of(&content));
    }

    /// Tells the driver once that calls are accepted again.
    pub(super) fn announce_room(&mut self, node: NodeId) {
        let limits = &self.own.settings.limits;
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let has_room = peer.waiting_calls() < limits.waiting as usize / 2 + 1
            && peer.notifications.len() < limits.notifications as usize / 2 + 1;
        if peer.wants_room && has_room {
            peer.wants_room = false;
            self.actions.push_back(Action::Room { node });
        }
    }
}

fn notification((from, to): Pair, argument: u64) -> Frame {
    Frame::Notify { vm: from.vm, from: from.address.0, to: to.0, argument }
}
