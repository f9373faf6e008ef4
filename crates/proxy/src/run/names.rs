//! Names of remote endpoints: their stand-ins attach them on this node.
//!
//! Each attempt asks the daemon and waits for its answer. So a node has a few attempts in a step,
//! and the pauses of a name that is refused again and again grow.

use crate::log::say;
use m3ipc::Code;
use m3ipc::nodes::StandIn;
use m3ipc_fabric::{EndpointId, NodeId, Owners};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Names of one remote endpoint; more are ignored.
const NAMES_MAX: usize = 64;
/// The first and the longest pause before another attempt to attach a name that was refused.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(32)];
/// Attempts for the names of one node in one step.
const ATTEMPTS: usize = 4;

/// A name of an endpoint.
type Name = (EndpointId, String);

/// A name that no stand-in has attached.
struct Missing {
    next: Instant,
    pause: Duration,
}

/// The names of remote endpoints.
#[derive(Default)]
pub struct Names {
    known: BTreeMap<EndpointId, BTreeSet<String>>,
    missing: BTreeMap<Name, Missing>,
    /// Not after the first attempt that is due.
    next: Option<Instant>,
}

/// Attaches a name.
///
/// # Errors
/// The reason for the log.
pub fn attach(stand_in: &mut StandIn, name: &str) -> Result<(), String> {
    stand_in.attach_name(name).map_err(|error| match error.code() {
        Code::RscBusy => "another endpoint has it on this node".to_owned(),
        _ => error.to_string(),
    })
}

impl Names {
    /// A remote endpoint has a name.
    pub fn add(&mut self, id: EndpointId, name: String, now: Instant) {
        let names = self.known.entry(id).or_default();
        if names.len() < NAMES_MAX && names.insert(name.clone()) {
            self.miss((id, name), now);
        }
    }

    fn miss(&mut self, name: Name, now: Instant) {
        self.missing.insert(name, Missing { next: now, pause: PAUSES[0] });
        self.next = Some(now);
    }

    /// The remote endpoint has died, or its node is lost.
    pub fn forget(&mut self, id: EndpointId) {
        self.known.remove(&id);
        self.missing.retain(|(of, _), _| *of != id);
    }

    /// A node is lost. The names of some of its endpoints stay.
    pub fn forget_node(
        &mut self,
        node: NodeId,
        owners: &Owners,
        stays: impl Fn(&EndpointId) -> bool,
    ) {
        let all: Vec<EndpointId> = self.known.keys().copied().collect();
        let is_lost = |id: &EndpointId| owners.owner(*id) == Some(node) && !stays(id);
        let of_node = all.into_iter().filter(is_lost);
        of_node.for_each(|id| self.forget(id));
    }

    /// The stand-in of an endpoint has ended, and its names with it.
    pub fn lost(&mut self, id: EndpointId, now: Instant) {
        let names = self.known.get(&id).cloned().unwrap_or_default();
        names.into_iter().for_each(|name| self.miss((id, name), now));
    }

    /// When [`Names::step`] has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        self.next.filter(|_| !self.missing.is_empty())
    }

    /// Attaches what is due. `attach` is for the names of these nodes; without a stand-in it does
    /// nothing.
    pub fn step(
        &mut self,
        now: Instant,
        node_of: impl Fn(EndpointId) -> Option<NodeId>,
        mut attach: impl FnMut(EndpointId, &str) -> Option<Result<(), String>>,
    ) {
        if self.deadline().is_none_or(|at| at > now) {
            return;
        }
        let mut attempts: BTreeMap<Option<NodeId>, usize> = BTreeMap::new();
        self.missing.retain(|(id, name), missing| {
            let attempts = attempts.entry(node_of(*id)).or_default();
            if missing.next > now || *attempts >= ATTEMPTS {
                return true;
            }
            match attach(*id, name) {
                Some(Ok(())) => {
                    *attempts += 1;
                    return false;
                }
                Some(Err(why)) => {
                    *attempts += 1;
                    missing.refused(*id, name, &why, now);
                }
                None => missing.next = now + PAUSES[0],
            }
            true
        });
        self.next = self.missing.values().map(|missing| missing.next).min();
    }
}

impl Missing {
    fn refused(
        &mut self,
        EndpointId { vm, address }: EndpointId,
        name: &str,
        why: &str,
        now: Instant,
    ) {
        if self.pause == PAUSES[0] {
            say!(
                "names of other nodes",
                "the name {name:?} of {address} of VM {vm} is not known here: {why}"
            );
        }
        self.next = now + self.pause;
        self.pause = PAUSES[1].min(2 * self.pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use m3ipc::Address;

    const HOSTILE: NodeId = NodeId(2);

    fn id(slot: i32) -> EndpointId {
        EndpointId::new(1, Address::new(1, slot))
    }

    fn node_of(id: EndpointId) -> Option<NodeId> {
        Some(if id.address.slot() < 100 { HOSTILE } else { NodeId(3) })
    }

    #[test]
    fn names_that_are_refused_cost_few_attempts() {
        let mut names = Names::default();
        let begin = Instant::now();
        for number in 0..50 {
            names.add(id(number), number.to_string(), begin);
        }
        names.add(id(100), "good".to_owned(), begin);
        let attach = |names: &mut Names, now| {
            let mut tried = Vec::new();
            names.step(now, node_of, |id, name| {
                tried.push(name.to_owned());
                Some(if node_of(id) == Some(HOSTILE) { Err("taken".to_owned()) } else { Ok(()) })
            });
            tried
        };
        let first = attach(&mut names, begin);
        assert_eq!(first.len(), ATTEMPTS + 1);
        assert!(first.contains(&"good".to_owned()), "the other node has its turn");
        let mut steps = 0;
        while names.deadline().is_some_and(|at| at <= begin) {
            let tried = attach(&mut names, begin);
            assert!(tried.len() <= ATTEMPTS && tried.iter().all(|it| !first.contains(it)));
            steps += 1;
        }
        assert_eq!(steps, 12, "each name once");
        // A further name is tried alone.
        names.add(id(50), "further".to_owned(), begin);
        assert_eq!(attach(&mut names, begin), ["further"]);
        let mut tried = 0;
        for second in 1..=100 {
            let now = begin + Duration::from_secs(second);
            while names.deadline().is_some_and(|at| at <= now) {
                tried += attach(&mut names, now).iter().filter(|name| *name == "further").count();
            }
        }
        assert_eq!(tried, 7, "after 1, 3, 7, 15, 31, 63 and 95 seconds");
    }

    #[test]
    fn a_name_waits_for_its_stand_in_without_a_longer_pause() {
        let mut names = Names::default();
        let begin = Instant::now();
        names.add(id(1), "lamp".to_owned(), begin);
        for second in 0..10 {
            names.step(begin + Duration::from_secs(second), node_of, |_, _| None);
        }
        let mut attached = Vec::new();
        names.step(begin + Duration::from_secs(10), node_of, |_, name| {
            attached.push(name.to_owned());
            Some(Ok(()))
        });
        assert_eq!((attached, names.deadline()), (vec!["lamp".to_owned()], None));
        // It is attached again if the stand-in ends.
        names.lost(id(1), begin);
        assert_eq!(names.deadline(), Some(begin));
    }
}
