//! The endpoints that other nodes have announced, and how far the stand-in of each one is.
//!
//! | state | moved by | to |
//! |---|---|---|
//! | Queued | its turn: the daemon has bound the stand-in | Made |
//! | Queued | its turn: its VM does not run here | AwaitsVm |
//! | Queued | its turn: another failure, up to [`ATTEMPTS`] times | AwaitsRetry, then Refused |
//! | Queued | its turn: its node has as many stand-ins as it may have | AwaitsRoom |
//! | AwaitsVm, AwaitsRetry | a pause; for a whole VM one attempt is enough | Queued |
//! | AwaitsRoom | a stand-in of the node has ended | Queued |
//!
//! Each bind asks the daemon and waits for its answer. So a node has a few binds in a step, and the
//! other nodes get their turn. An endpoint is in one state, and the machine knows one endpoint for
//! each slot, so a node cannot fill this memory.

use m3ipc::Code;
use m3ipc_fabric::{EndpointId, NodeId, VmId};
use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::time::{Duration, Instant};

/// The pause before another attempt.
const RETRY: Duration = Duration::from_millis(200);
/// Attempts to bind a stand-in whose slot seems to be taken, or for which memory was missing.
const ATTEMPTS: u8 = 10;
/// Stand-ins of one node that are bound in one step.
const BINDS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Queued,
    Made,
    AwaitsVm,
    AwaitsRetry,
    AwaitsRoom,
    Refused,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    node: NodeId,
    state: State,
    failures: u8,
}

/// The stand-ins of one node.
#[derive(Debug, Default)]
struct OfNode {
    queue: BTreeSet<EndpointId>,
    made: usize,
    binds: usize,
    awaits_room: BTreeSet<EndpointId>,
}

/// What to do with an endpoint that needs its stand-in now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Bind it.
    Bind,
    /// Not in this step.
    Later,
    /// There is none and will be none soon.
    Never,
}

/// All announced endpoints.
#[derive(Debug)]
pub struct Wanted {
    entries: BTreeMap<EndpointId, Entry>,
    nodes: BTreeMap<NodeId, OfNode>,
    most_of_node: usize,
    next_retry: Option<Instant>,
}

impl Wanted {
    /// With at most so many stand-ins for each node.
    pub fn new(most_of_node: usize) -> Self {
        Self { entries: BTreeMap::new(), nodes: BTreeMap::new(), most_of_node, next_retry: None }
    }

    /// When the next attempt is due.
    pub fn deadline(&self) -> Option<Instant> {
        let has_queue = self.nodes.values().any(|of_node| !of_node.queue.is_empty());
        if has_queue { Some(Instant::now()) } else { self.next_retry }
    }

    /// A new step: each node may bind again. Endpoints whose pause is over return to the queue.
    pub fn begin_step(&mut self, now: Instant) {
        self.nodes.values_mut().for_each(|of_node| of_node.binds = 0);
        if self.next_retry.is_none_or(|at| at > now) {
            return;
        }
        self.next_retry = None;
        let mut asked: BTreeSet<VmId> = BTreeSet::new();
        let waiting = self.entries.iter().filter(|(id, entry)| match entry.state {
            State::AwaitsRetry => true,
            // One attempt shows whether the VM runs.
            State::AwaitsVm => asked.insert(id.vm),
            _ => false,
        });
        let again: Vec<EndpointId> = waiting.map(|(id, _)| *id).collect();
        again.into_iter().for_each(|id| self.queue(id));
    }

    /// An endpoint was announced.
    pub fn announce(&mut self, id: EndpointId, node: NodeId) {
        if let btree_map::Entry::Vacant(vacant) = self.entries.entry(id) {
            vacant.insert(Entry { node, state: State::Queued, failures: 0 });
            self.queue(id);
        }
    }

    /// An endpoint was announced whose stand-in is bound already.
    pub fn adopt(&mut self, id: EndpointId, node: NodeId) {
        self.forget(id);
        self.entries.insert(id, Entry { node, state: State::Made, failures: 0 });
        self.nodes.entry(node).or_default().made += 1;
    }

    /// The announced endpoints of a node.
    pub fn of_node(&self, node: NodeId) -> impl Iterator<Item = EndpointId> + '_ {
        self.entries.iter().filter(move |(_, entry)| entry.node == node).map(|(id, _)| *id)
    }

    /// An endpoint is announced no longer.
    pub fn forget(&mut self, id: EndpointId) {
        let Some(Entry { node, state, .. }) = self.entries.remove(&id) else { return };
        let of_node = self.nodes.entry(node).or_default();
        of_node.queue.remove(&id);
        of_node.awaits_room.remove(&id);
        if state == State::Made {
            self.unmade(node);
        }
    }

    /// All endpoints of a node are announced no longer.
    pub fn forget_node(&mut self, node: NodeId) {
        self.entries.retain(|_, entry| entry.node != node);
        self.nodes.remove(&node);
    }

    /// A VM runs on this node.
    pub fn vm_runs(&mut self, vm: VmId) {
        let awaits =
            |(id, entry): &(&EndpointId, &Entry)| id.vm == vm && entry.state == State::AwaitsVm;
        let ids: Vec<EndpointId> = self.entries.iter().filter(awaits).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.queue(id));
    }

    fn queue(&mut self, id: EndpointId) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.state = State::Queued;
            self.nodes.entry(entry.node).or_default().queue.insert(id);
        }
    }

    /// The endpoints whose turn it is in this step.
    pub fn due(&mut self) -> Vec<EndpointId> {
        let of_node = |of_node: &OfNode| {
            let left = BINDS.saturating_sub(of_node.binds);
            of_node.queue.iter().take(left).copied().collect::<Vec<_>>()
        };
        self.nodes.values().flat_map(of_node).collect()
    }

    /// An endpoint needs its stand-in now.
    pub fn turn(&mut self, id: EndpointId) -> Turn {
        let Some(entry) = self.entries.get_mut(&id) else { return Turn::Never };
        match entry.state {
            State::Queued => {}
            State::Made | State::AwaitsVm | State::AwaitsRetry => return Turn::Later,
            State::AwaitsRoom | State::Refused => return Turn::Never,
        }
        let of_node = self.nodes.entry(entry.node).or_default();
        if of_node.made >= self.most_of_node {
            entry.state = State::AwaitsRoom;
            of_node.queue.remove(&id);
            if of_node.awaits_room.is_empty() {
                let most = self.most_of_node;
                m3ipc_sys::report!(
                    "m3-proxy: node {} has more than {most} endpoints, and the rest cannot be \
                     called; give the proxies more descriptors (LimitNOFILE=)",
                    entry.node.0
                );
            }
            of_node.awaits_room.insert(id);
            return Turn::Never;
        }
        if of_node.binds >= BINDS {
            return Turn::Later;
        }
        of_node.binds += 1;
        of_node.made += 1;
        entry.state = State::Made;
        of_node.queue.remove(&id);
        Turn::Bind
    }

    /// The stand-in is bound.
    pub fn made(&mut self, id: EndpointId) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.failures = 0;
        }
        self.vm_runs(id.vm);
    }

    /// The daemon does not bind the stand-in. Whether no further attempt follows.
    pub fn failed(&mut self, id: EndpointId, code: Code) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        entry.state = match code {
            Code::VmNotRun => State::AwaitsVm,
            Code::Range | Code::LclProc | Code::BadVmId => State::Refused,
            _ if entry.failures + 1 >= ATTEMPTS => State::Refused,
            _ => {
                entry.failures += 1;
                State::AwaitsRetry
            }
        };
        let is_over = entry.state == State::Refused;
        let of_node = self.nodes.entry(entry.node).or_default();
        of_node.made = of_node.made.saturating_sub(1);
        if !is_over {
            self.next_retry = Some(Instant::now() + RETRY);
        }
        is_over
    }

    /// Another process has unbound the stand-in, or its VM has ended.
    pub fn ended(&mut self, id: EndpointId) {
        if let Some(entry) = self.entries.get_mut(&id)
            && entry.state == State::Made
        {
            entry.state = State::AwaitsRetry;
            let node = entry.node;
            self.next_retry = Some(Instant::now() + RETRY);
            self.unmade(node);
        }
    }

    fn unmade(&mut self, node: NodeId) {
        let of_node = self.nodes.entry(node).or_default();
        of_node.made = of_node.made.saturating_sub(1);
        if let Some(next) = of_node.awaits_room.pop_first() {
            self.queue(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use m3ipc::Address;

    const HOSTILE: NodeId = NodeId(2);
    const OTHER: NodeId = NodeId(3);

    fn id(vm: VmId, slot: i32) -> EndpointId {
        EndpointId::new(vm, Address::new(1, slot))
    }

    /// Gives each due endpoint its turn; the endpoints to bind.
    fn turns(wanted: &mut Wanted) -> Vec<EndpointId> {
        let due = wanted.due();
        due.into_iter().filter(|id| wanted.turn(*id) == Turn::Bind).collect()
    }

    #[test]
    fn a_flood_of_one_node_leaves_the_other_nodes_their_turn() {
        let mut wanted = Wanted::new(10);
        (0..1000).for_each(|slot| wanted.announce(id(1, slot), HOSTILE));
        wanted.announce(id(1, 2000), OTHER);
        let now = Instant::now();
        wanted.begin_step(now);
        let first = turns(&mut wanted);
        assert_eq!(first.len(), BINDS + 1);
        assert!(first.contains(&id(1, 2000)));
        assert_eq!(wanted.turn(id(1, 999)), Turn::Later);
        first.into_iter().for_each(|id| wanted.made(id));
        let mut made = BINDS;
        for _ in 0..1000 {
            wanted.begin_step(now);
            let bound = turns(&mut wanted);
            made += bound.len();
            bound.into_iter().for_each(|id| wanted.made(id));
        }
        // The hostile one has its share, and the loop sleeps.
        assert_eq!(made, 10);
        assert_eq!(wanted.deadline(), None);
        // A place that becomes free is used.
        wanted.forget(id(1, 0));
        wanted.begin_step(now);
        assert_eq!(turns(&mut wanted).len(), 1);
    }

    #[test]
    fn an_endpoint_that_cannot_be_bound_is_tried_a_few_times() {
        for (code, attempts) in [(Code::Range, 1), (Code::LclProc, 1), (Code::SlotUsed, ATTEMPTS)] {
            let mut wanted = Wanted::new(10);
            wanted.announce(id(1, 5), HOSTILE);
            let (mut now, mut tried) = (Instant::now(), 0);
            for _ in 0..100 {
                wanted.begin_step(now);
                for id in turns(&mut wanted) {
                    tried += 1;
                    wanted.failed(id, code);
                }
                now += 2 * RETRY;
            }
            assert_eq!((tried, wanted.deadline()), (attempts, None), "{code}");
        }
    }

    #[test]
    fn a_stand_in_that_goes_over_to_another_node_counts_there() {
        let mut wanted = Wanted::new(1);
        wanted.announce(id(1, 5), HOSTILE);
        assert_eq!(turns(&mut wanted), [id(1, 5)]);
        wanted.forget_node(HOSTILE);
        wanted.adopt(id(1, 5), OTHER);
        wanted.announce(id(1, 5), OTHER);
        assert_eq!((wanted.deadline(), wanted.of_node(OTHER).next()), (None, Some(id(1, 5))));
        wanted.announce(id(1, 6), OTHER);
        assert_eq!(wanted.turn(id(1, 6)), Turn::Never);
        wanted.forget(id(1, 5));
        assert_eq!(turns(&mut wanted), [id(1, 6)]);
    }

    #[test]
    fn a_vm_that_does_not_run_costs_one_attempt_at_a_time() {
        let mut wanted = Wanted::new(100);
        (0..50).for_each(|slot| wanted.announce(id(1, slot), HOSTILE));
        let mut now = Instant::now();
        for _ in 0..50 {
            wanted.begin_step(now);
            turns(&mut wanted).into_iter().for_each(|id| _ = wanted.failed(id, Code::VmNotRun));
        }
        for _ in 0..20 {
            now += 2 * RETRY;
            wanted.begin_step(now);
            let bound = turns(&mut wanted);
            assert_eq!(bound.len(), 1);
            wanted.failed(bound[0], Code::VmNotRun);
        }
        // A member appears: all follow.
        wanted.vm_runs(1);
        let mut bound = 0;
        for _ in 0..50 {
            wanted.begin_step(now);
            for id in turns(&mut wanted) {
                bound += 1;
                wanted.made(id);
            }
        }
        assert_eq!(bound, 50);
    }
}
