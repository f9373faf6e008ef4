//! What waits for one peer, and what the peer has open here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use m3ipc_abi::{Address, Slot};

use super::delivery::Pair;
use super::shares::{Most, Shares};
use super::streams::Streams;
use crate::faults::{Fault, Planted};
use crate::ids::{CallId, DeliveryId, NodeId, VmId};
use crate::owners::EndSign;
use crate::session::Session;

/// What is known of the end of a peer's node.
#[derive(Debug, Default)]
pub(super) struct PeerEnd {
    /// Whether a session with it has begun in this life.
    pub was_met: bool,
    /// The surest sign since the last session.
    pub sign: Option<EndSign>,
}

/// The VMs of which something was refused for lack of room.
#[derive(Debug, Default)]
pub(super) struct WantsRoom {
    /// A call or a notification.
    pub any: BTreeSet<VmId>,
    /// A call in pieces for whose bytes there was no room: the least bytes of one.
    pub pieced: BTreeMap<VmId, u64>,
}

impl WantsRoom {
    pub fn is_empty(&self) -> bool {
        self.any.is_empty() && self.pieced.is_empty()
    }
}

/// Calls that wait for a peer.
#[derive(Debug, Default)]
pub(super) struct WaitingCalls {
    /// By VM, each with its bytes in pieces. Each kept queue has a call.
    queues: BTreeMap<VmId, VecDeque<(CallId, u64)>>,
    /// What these bytes add up to.
    pieced_bytes: u64,
}

impl WaitingCalls {
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    pub fn len(&self) -> usize {
        self.queues.values().map(VecDeque::len).sum()
    }

    pub fn of_vm(&self, vm: VmId) -> usize {
        self.queues.get(&vm).map_or(0, VecDeque::len)
    }

    pub fn calls(&self) -> impl Iterator<Item = &CallId> {
        self.queues.values().flatten().map(|(call, _)| call)
    }

    pub fn pieced_bytes(&self) -> u64 {
        self.pieced_bytes
    }

    pub fn push(&mut self, vm: VmId, call: CallId, pieced_bytes: u64) {
        self.queues.entry(vm).or_default().push_back((call, pieced_bytes));
        self.pieced_bytes += pieced_bytes;
    }

    fn pop(&mut self, vm: VmId) -> Option<CallId> {
        let (call, bytes) = self.queues.get_mut(&vm)?.pop_front()?;
        self.left(vm, bytes);
        Some(call)
    }

    /// Takes a call out of its queue.
    pub fn remove(&mut self, vm: VmId, call: CallId) {
        let Some(queue) = self.queues.get_mut(&vm) else { return };
        let at = queue.iter().position(|(waiting, _)| *waiting == call);
        if let Some((_, bytes)) = at.and_then(|at| queue.remove(at)) {
            self.left(vm, bytes);
        }
    }

    fn left(&mut self, vm: VmId, bytes: u64) {
        self.pieced_bytes -= bytes;
        if self.of_vm(vm) == 0 {
            self.queues.remove(&vm);
        }
    }
}

/// A peer.
#[derive(Debug)]
pub(super) struct Peer {
    pub session: Session,
    /// Calls that have not been sent.
    pub waiting: WaitingCalls,
    /// The VM whose call was sent last.
    last_vm: VmId,
    /// Calls that were sent and have not ended, by VM.
    open: BTreeMap<VmId, u32>,
    /// What the peer admits: calls, calls of a VM.
    pub admits: (u32, u32),
    /// Notifications that have not been sent, with their arguments.
    pub notifications: BTreeMap<Pair, u64>,
    /// Whether the last frame of its kind was a notification: the two take turns.
    pub notified_last: bool,
    /// Calls of the peer.
    pub incoming: BTreeMap<CallId, DeliveryId>,
    /// Their number, by VM.
    incoming_of_vm: BTreeMap<VmId, u32>,
    /// The VMs that wait for room.
    pub wants_room: WantsRoom,
    /// The open calls of local users.
    pub shares: Shares,
    /// The living endpoints of the peer, as far as it has announced them: one for each slot.
    pub announced: BTreeMap<(VmId, Slot), Address>,
    /// What is known of its end.
    pub end: PeerEnd,
    /// Payloads that travel in pieces.
    pub streams: Streams,
    /// Whether the last piece was that of a copy.
    pub copied_last: bool,
}

impl Peer {
    pub fn new(node: NodeId, planted: Planted) -> Self {
        Self {
            session: Session::new(node, planted),
            waiting: WaitingCalls::default(),
            last_vm: 0,
            open: BTreeMap::new(),
            admits: (0, 0),
            notifications: BTreeMap::new(),
            notified_last: false,
            incoming: BTreeMap::new(),
            incoming_of_vm: BTreeMap::new(),
            wants_room: WantsRoom::default(),
            shares: Shares::default(),
            announced: BTreeMap::new(),
            end: PeerEnd::default(),
            streams: Streams::default(),
            copied_last: false,
        }
    }

    /// The session has ended. The machine has ended its calls.
    pub fn forget(&mut self) {
        self.open.clear();
        self.announced.clear();
        self.notifications.clear();
        self.shares = Shares::default();
        self.streams = Streams::default();
    }

    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
            && self.open.values().all(|count| *count == 0)
            && self.notifications.is_empty()
            && self.streams.is_empty()
            && self.session.is_settled()
    }

    /// Counts a call of the peer. `false`: more than this node admits.
    ///
    /// A call counts until the peer has acknowledged its end, as it counts there: a peer that
    /// reads no ends cannot make them pile up.
    #[must_use]
    pub fn admit(&mut self, vm: VmId, limits: &crate::Limits) -> bool {
        let of_vm = self.incoming_of_vm.entry(vm).or_default();
        let total = self.incoming.len() + self.session.ends();
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

    /// The calls that users share: no more than this node would admit, whatever the peer does.
    pub fn shared_calls(&self, limits: &crate::Limits) -> Most {
        (self.admits.0.min(limits.calls), self.admits.1.min(limits.calls_of_vm))
    }

    /// The call to send next: the VMs take turns, and none has more open calls than the peer
    /// admits.
    pub fn next_call(&mut self, planted: Planted) -> Option<CallId> {
        let open: u32 = self.open.values().sum();
        let ignored = planted.has(Fault::LimitsIgnored);
        if open >= self.admits.0 && !ignored {
            return None;
        }
        let has_room =
            |vm: &VmId| ignored || self.open.get(vm).copied().unwrap_or(0) < self.admits.1;
        let vms = || self.waiting.queues.keys();
        let later = vms().filter(|vm| **vm > self.last_vm);
        let vm = *later.chain(vms()).find(|vm| has_room(vm))?;
        let call = self.waiting.pop(vm)?;
        self.last_vm = vm;
        *self.open.entry(vm).or_default() += 1;
        Some(call)
    }
}
