//! Names of remote endpoints: their stand-ins attach them on this node.

use super::copy::StandIns;
use crate::log::say;
use m3ipc::Code;
use m3ipc_fabric::{EndpointId, NodeId, Owners};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Names of one remote endpoint; more are ignored.
const NAMES_MAX: usize = 64;
/// The pause before another attempt to attach a name that was refused.
const AGAIN: Duration = Duration::from_secs(1);

/// The names of remote endpoints.
#[derive(Default)]
pub struct Names {
    known: BTreeMap<EndpointId, BTreeSet<String>>,
    /// Names that no stand-in has attached.
    missing: BTreeSet<(EndpointId, String)>,
    /// Those that were refused, and that the log has.
    refused: BTreeSet<(EndpointId, String)>,
    next: Option<Instant>,
}

impl Names {
    /// A remote endpoint has a name.
    pub fn add(&mut self, id: EndpointId, name: String) {
        let names = self.known.entry(id).or_default();
        if names.len() < NAMES_MAX && names.insert(name.clone()) {
            self.missing.insert((id, name));
            self.next = Some(Instant::now());
        }
    }

    /// The remote endpoint has died, or its node is lost.
    pub fn forget(&mut self, id: EndpointId) {
        self.known.remove(&id);
        self.missing.retain(|(of, _)| *of != id);
        self.refused.retain(|(of, _)| *of != id);
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
    pub fn lost(&mut self, id: EndpointId) {
        let names = self.known.get(&id).into_iter().flatten();
        self.missing.extend(names.map(|name| (id, name.clone())));
        self.next = Some(Instant::now());
    }

    /// When [`Names::step`] has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        self.next.filter(|_| !self.missing.is_empty())
    }

    /// Attaches what is missing.
    pub fn step(&mut self, stand_ins: &mut impl StandIns) {
        if self.deadline().is_none_or(|at| at > Instant::now()) {
            return;
        }
        self.next = Some(Instant::now() + AGAIN);
        let missing = std::mem::take(&mut self.missing);
        for (id, name) in missing {
            let attached = stand_ins.get(id).map(|stand_in| stand_in.attach_name(&name));
            match attached {
                Some(Ok(())) => {
                    self.refused.remove(&(id, name));
                    continue;
                }
                Some(Err(error)) if self.refused.insert((id, name.clone())) => {
                    let why = if error.code() == Code::RscBusy {
                        "another endpoint has it on this node".to_owned()
                    } else {
                        error.to_string()
                    };
                    let (at, vm) = (id.address, id.vm);
                    say!(
                        "names of other nodes",
                        "the name {name:?} of {at} of VM {vm} is not known here: {why}"
                    );
                }
                Some(Err(_)) | None => {}
            }
            self.missing.insert((id, name));
        }
    }
}
