//! The traces of VMs, and the trace rings on their way to members.

use super::member_fd::MemberFd;
use crate::tables::MemberId;
use crate::token::Token;
use m3ipc_link::trace_bytes;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

/// The trace of one VM.
#[derive(Debug)]
pub(crate) struct Trace {
    /// The tracer's connection.
    pub(crate) tracer: Token,
    pub(crate) uid: u32,
    pub(crate) slots: u32,
    pub(crate) sharp: bool,
    /// Distinguishes this trace from earlier ones of the VM.
    pub(crate) number: u64,
    /// The living endpoints that have got rings.
    ring_holders: BTreeSet<MemberId>,
}

impl Trace {
    /// Memory of the rings, in bytes.
    fn bytes(&self) -> u64 {
        self.ring_holders.len() as u64 * trace_bytes(self.slots)
    }
}

/// A ring that a member has not mapped yet.
#[derive(Debug)]
pub(crate) struct SentRing {
    vm: i32,
    /// The number of its trace, which may have ended.
    pub(crate) number: u64,
    pub(crate) ring: Rc<MemberFd>,
    /// The user of the tracer.
    uid: u32,
    bytes: u64,
}

/// All traces.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    by_vm: BTreeMap<i32, Trace>,
    /// Rings that a member has not mapped yet, by its connection.
    sent_rings: HashMap<Token, SentRing>,
    latest: u64,
}

impl Traces {
    pub(crate) fn begin(&mut self, vm: i32, tracer: Token, uid: u32, slots: u32, sharp: bool) {
        self.latest += 1;
        let number = self.latest;
        let ring_holders = BTreeSet::new();
        self.by_vm.insert(vm, Trace { tracer, uid, slots, sharp, number, ring_holders });
    }

    pub(crate) fn get(&self, vm: i32) -> Option<&Trace> {
        self.by_vm.get(&vm)
    }

    /// Memory of the rings of one user's traces, in bytes. Rings of ended traces count until their
    /// members have answered.
    pub(crate) fn bytes_of(&self, uid: u32) -> u64 {
        let of_user = self.by_vm.values().filter(|trace| trace.uid == uid);
        let has_ended = |sent: &SentRing| {
            self.by_vm.get(&sent.vm).is_none_or(|trace| trace.number != sent.number)
        };
        let ended = self.sent_rings.values().filter(|sent| sent.uid == uid && has_ended(sent));
        of_user.map(Trace::bytes).chain(ended.map(|sent| sent.bytes)).sum()
    }

    /// Whether a member has not mapped its last ring yet.
    pub(crate) fn has_sent_ring(&self, member: Token) -> bool {
        self.sent_rings.contains_key(&member)
    }

    /// Records a ring that the daemon sends to a member.
    pub(crate) fn add_sent_ring(&mut self, id: MemberId, member: Token, ring: Rc<MemberFd>) {
        let Some(trace) = self.by_vm.get_mut(&id.vm) else { return };
        trace.ring_holders.insert(id);
        let (number, uid, bytes) = (trace.number, trace.uid, trace_bytes(trace.slots));
        self.sent_rings.insert(member, SentRing { vm: id.vm, number, ring, uid, bytes });
    }

    /// Takes the ring that a member has answered for.
    pub(crate) fn take_sent_ring(&mut self, member: Token) -> Option<SentRing> {
        self.sent_rings.remove(&member)
    }

    /// Removes an endpoint that ended, and returns the tracer of its VM.
    pub(crate) fn remove_member(&mut self, id: MemberId, member: Option<Token>) -> Option<Token> {
        if let Some(member) = member {
            self.sent_rings.remove(&member);
        }
        let trace = self.by_vm.get_mut(&id.vm)?;
        trace.ring_holders.remove(&id);
        Some(trace.tracer)
    }

    /// Removes the traces of a tracer, and returns their VMs.
    pub(crate) fn remove_tracer(&mut self, tracer: Token) -> Vec<i32> {
        self.sent_rings.remove(&tracer);
        let of_tracer = self.by_vm.iter().filter(|(_, trace)| trace.tracer == tracer);
        let vms: Vec<i32> = of_tracer.map(|(vm, _)| *vm).collect();
        self.by_vm.retain(|_, trace| trace.tracer != tracer);
        vms
    }

    pub(crate) fn remove_vm(&mut self, vm: i32) {
        self.by_vm.remove(&vm);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use m3ipc_abi::Address;

    #[test]
    fn the_end_of_an_endpoint_without_a_ring_releases_no_memory() {
        const USER: u32 = 1000;
        let mut traces = Traces::default();
        let [tracer, member, refused] = [1, 2, 3].map(Token::of);
        let [with_ring, without] = [1, 2].map(|slot| MemberId::new(0, Address(slot)));
        traces.begin(0, tracer, USER, 64, false);
        let ring = m3ipc_sys::create_memory("m3-trace", 4096).unwrap();
        traces.add_sent_ring(with_ring, member, Rc::new(MemberFd::from(ring)));
        let bytes = traces.bytes_of(USER);
        assert_eq!(bytes, trace_bytes(64));
        for _ in 0..2 {
            assert_eq!(traces.remove_member(without, Some(refused)), Some(tracer));
            assert_eq!(traces.bytes_of(USER), bytes);
        }
        for _ in 0..2 {
            assert_eq!(traces.remove_member(with_ring, Some(member)), Some(tracer));
            assert_eq!(traces.bytes_of(USER), 0);
        }
    }

    #[test]
    fn a_ring_of_an_ended_trace_counts_until_its_member_answers() {
        const USER: u32 = 1000;
        let mut traces = Traces::default();
        let [tracer, one, other] = [1, 2, 3].map(Token::of);
        let bytes = trace_bytes(64);
        for (slot, member) in [(1, one), (2, other)] {
            let id = MemberId::new(0, Address(slot));
            traces.begin(0, tracer, USER, 64, false);
            let ring = m3ipc_sys::create_memory("m3-trace", 4096).unwrap();
            traces.add_sent_ring(id, member, Rc::new(MemberFd::from(ring)));
            assert_eq!(traces.remove_tracer(tracer), [0]);
        }
        assert_eq!(traces.bytes_of(USER), 2 * bytes);
        assert!(traces.take_sent_ring(one).is_some());
        assert_eq!(traces.bytes_of(USER), bytes);
        assert!(traces.take_sent_ring(other).is_some());
        assert_eq!(traces.bytes_of(USER), 0);
    }
}
