//! A node of the simulation: its machine, and the local side that plays endpoints and links.

use std::collections::{BTreeMap, BTreeSet};

use m3ipc_abi::Address;
use m3ipc_fabric::{
    Backup, CallId, CallKind, CopyId, CopyOrder, DeliveryId, EndSign, EndpointId, Fault,
    Incarnation, Machine, NodeId, Owners, Settings, VmId,
};

/// A copy, as one of its nodes sees it.
#[derive(Debug)]
pub struct SimCopy {
    pub endpoint: EndpointId,
    pub order: CopyOrder,
    /// Bytes that this node gave or took.
    pub moved: u64,
}

/// The copies of a node.
pub type SimCopies = BTreeMap<CopyId, SimCopy>;

/// A peer, a VM and a user.
pub type Share = (NodeId, VmId, u32);

/// The calls of the users of a node.
#[derive(Debug, Default)]
pub struct SimShares {
    pub held: BTreeMap<CallId, Share>,
    /// Those that were refused and have heard of no room since, with a destination.
    pub refused: BTreeMap<Share, Address>,
}

/// A message that lies in the slot of a link.
#[derive(Clone, Debug)]
pub struct Offered {
    pub from: EndpointId,
    pub to: Address,
    pub kind: CallKind,
    pub number: u64,
}

#[derive(Debug)]
pub struct Node {
    pub id: NodeId,
    pub machine: Machine,
    pub incarnation: u64,
    pub is_up: bool,
    pub paused: bool,
    /// How far its clock is ahead.
    pub ahead_ns: u64,
    /// The living endpoints.
    pub endpoints: Vec<EndpointId>,
    /// Open calls: number and caller.
    pub calls: BTreeMap<CallId, (u64, EndpointId)>,
    /// Calls that are to be sent again, with their callers: their receivers have moved.
    pub again: BTreeMap<u64, EndpointId>,
    /// The addresses of endpoints that have moved.
    pub moved: BTreeMap<(VmId, i32), Address>,
    /// Messages that nobody has taken.
    pub offered: BTreeMap<DeliveryId, Offered>,
    /// Those of them that are being withdrawn.
    pub withdrawing: BTreeSet<DeliveryId>,
    /// Requests that were taken and not answered, with their numbers and receivers.
    pub owed: BTreeMap<DeliveryId, (u64, EndpointId)>,
    /// What its users share.
    pub shares: SimShares,
    /// Backups that live on while the proxy does not.
    pub backups: Vec<EndpointId>,
    /// The incarnations of the nodes that it has met.
    pub met: BTreeMap<NodeId, u64>,
    /// Open copies, of its endpoints and with them.
    pub copies: SimCopies,
}

/// Slots of a node: each has some.
pub const SLOTS: i32 = 10;
/// Endpoints of a node in each VM.
pub const ENDPOINTS: i32 = 3;
/// The endpoint of a node that has a backup, by its place among the slots of the node.
const BACKED: i32 = 2;
pub const VMS: [u16; 2] = [1, 2];

/// Whether an endpoint has a backup.
pub fn is_backed(endpoint: EndpointId) -> bool {
    (endpoint.address.slot() - 100) % SLOTS == BACKED
}

/// The slot with a backup.
pub fn backed_slot(id: NodeId) -> i32 {
    100 + i32::from(id.0) * SLOTS + BACKED
}

/// Gives each node the backup of the node before it.
pub fn add_backups(owners: &mut Owners, ids: &[NodeId], after: EndSign) {
    for (at, home) in ids.iter().enumerate() {
        let node = ids[(at + 1) % ids.len()];
        for vm in VMS {
            let backup = Backup { node, after };
            owners.add_backup(vm, backed_slot(*home), backup).expect("another node");
        }
    }
}

impl Node {
    pub fn new(id: NodeId, owners: &Owners, peers: &[NodeId], settings: Settings) -> Self {
        let machine = Machine::new(
            "sim",
            id,
            Incarnation(1),
            owners.clone(),
            peers.iter().copied(),
            settings,
        );
        Self {
            id,
            machine,
            incarnation: 1,
            is_up: true,
            paused: false,
            ahead_ns: 0,
            endpoints: Vec::new(),
            calls: BTreeMap::new(),
            again: BTreeMap::new(),
            moved: BTreeMap::new(),
            offered: BTreeMap::new(),
            withdrawing: BTreeSet::new(),
            owed: BTreeMap::new(),
            shares: SimShares::default(),
            backups: Vec::new(),
            met: BTreeMap::new(),
            copies: SimCopies::new(),
        }
    }

    /// A new life of the node.
    pub fn start(
        &mut self,
        now_ns: u64,
        (owners, peers): (&Owners, &[NodeId]),
        settings: Settings,
        fault: Option<Fault>,
    ) {
        let (id, incarnation) = (self.id, self.incarnation + 1);
        let machine = Machine::new(
            "sim",
            id,
            Incarnation(incarnation),
            owners.clone(),
            peers.iter().copied(),
            settings,
        );
        let machine = machine.with_fault(fault);
        *self = Self { machine, incarnation, ..Self::new(id, owners, peers, settings) };
        for vm in VMS {
            for slot in 0..ENDPOINTS {
                let slot = 100 + i32::from(id.0) * SLOTS + slot;
                let generation = i32::try_from(incarnation).unwrap_or(0) * 100;
                self.bind(now_ns, EndpointId::new(vm, Address::new(generation, slot)));
            }
        }
    }

    pub fn bind(&mut self, now_ns: u64, endpoint: EndpointId) {
        self.endpoints.push(endpoint);
        self.machine.bound(now_ns, endpoint);
    }

    pub fn clock_ns(&self, now_ns: u64) -> u64 {
        now_ns + self.ahead_ns
    }
}
