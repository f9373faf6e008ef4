//! The static registry: nodes, VMs and the owners of slots, in a TOML file.
//!
//! ```toml
//! cluster = "lab"
//!
//! [[node]]
//! id = 1
//! name = "alpha"
//! address = "192.0.2.1:7400"
//!
//! [[node]]
//! id = 2
//! name = "beta"
//! address = "192.0.2.2:7400"
//!
//! [[vm]]
//! id = 3
//! name = "shop"
//! slots = { alpha = [[-35, 99]], beta = [[100, 199]] }
//! backups = [{ slot = 10, node = "beta" }]
//! parameters = { procs = 200, mode = 0o750, life = "members" }
//! ```
//!
//! All nodes have the same file. The name of a node is the name in its certificate. The parameters
//! of a VM, and those of the cluster before the first `[[node]]`, may be left out. A proxy does not
//! use them; programs that start a VM or a node ask for them (`m3 ldap get`).
//!
//! A backup may take the slot when the node that has it says that it ends (ADR 63). With
//! `after = "refused"`, a refused connection is such a word, and with `after = "silence"` its
//! silence is one too.

mod backups;

use std::collections::BTreeMap;
use std::net::SocketAddr;

pub use backups::BackupError;
use backups::{RawBackup, read_backup};
use m3ipc_abi::{FOREIGN_RANGES_MAX, NodeLimits, Slot, VM_NAME_MAX_BYTES};
use serde::{Deserialize, Serialize};

use crate::ids::{NodeId, VmId};
use crate::owners::{EndSign, Owners, OwnersError, SlotRange};
use crate::packet::{CLAIMS_MAX, CLUSTER_MAX_BYTES};

/// The longest name of a node, in bytes.
const NODE_NAME_MAX_BYTES: usize = 63;

/// Why a file is no registry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// No TOML of this form.
    #[error("the registry cannot be read: {0}")]
    Syntax(String),
    /// A name is empty, too long, or has other characters than letters, digits, `-`, `_` and `.`.
    #[error("{what} `{name}`: use 1 to {most} letters, digits, `-`, `_` and `.`")]
    Name {
        /// What has the name.
        what: &'static str,
        /// The name.
        name: String,
        /// The longest name.
        most: usize,
    },
    /// An id is out of range.
    #[error("{what} {id}: the ids go from 0 to {last}")]
    Id {
        /// What has the id.
        what: &'static str,
        /// The id.
        id: i64,
        /// The last id.
        last: i64,
    },
    /// Two entries share an id or an address.
    #[error("two {entries} have the {what} {value}; give each its own")]
    Twice {
        /// The kind of the entries.
        entries: &'static str,
        /// What they share.
        what: &'static str,
        /// The value.
        value: String,
    },
    /// Two entries share a name.
    #[error("two {entries} are named {name}; give each its own name")]
    SameName {
        /// The kind of the entries.
        entries: &'static str,
        /// The name.
        name: String,
    },
    /// A VM names a node that the registry lacks.
    #[error("VM `{vm}` gives slots to the node `{node}`, which has no [[node]] entry")]
    UnknownNode {
        /// The VM.
        vm: String,
        /// The node.
        node: String,
    },
    /// No VM has this name.
    #[error("the registry has no VM `{0}`; add a [[vm]] entry")]
    UnknownVm(String),
    /// A slot that no VM has.
    #[error("VM `{vm}`: the slots {first}..{last} are not all within {low}..{high}")]
    Slot {
        /// The VM.
        vm: String,
        /// First slot of the range.
        first: Slot,
        /// Last slot of the range.
        last: Slot,
        /// The lowest slot.
        low: Slot,
        /// The highest slot.
        high: Slot,
    },
    /// A backup that is none.
    #[error("VM `{vm}`: `{node}` cannot be the backup of slot {slot}: {cause}")]
    Backup {
        /// The VM.
        vm: String,
        /// The slot.
        slot: Slot,
        /// The node that was named.
        node: String,
        /// The reason.
        cause: BackupError,
    },
    /// Two ranges share a slot.
    #[error(
        "VM `{vm}`: the slots {range} of node {node} overlap {other_range} of node {other}; give \
         each slot one node"
    )]
    Overlap {
        /// The VM.
        vm: String,
        /// The node of the range.
        node: String,
        /// The range.
        range: SlotRange,
        /// The node of the other range.
        other: String,
        /// The other range.
        other_range: SlotRange,
    },
    /// A range is empty.
    #[error(transparent)]
    Owners(#[from] OwnersError),
    /// A node has more ranges than a greeting carries.
    #[error("the node `{node}` has {ranges} ranges; join them to at most {CLAIMS_MAX}")]
    Ranges {
        /// The node.
        node: String,
        /// Its ranges.
        ranges: usize,
    },
    /// A node knows more ranges than its daemon takes.
    #[error(
        "the node `{node}` would know {ranges} ranges of other nodes and of free slots, more than \
         {FOREIGN_RANGES_MAX}; claim slots beside those that the claiming node has"
    )]
    Foreign {
        /// The node.
        node: String,
        /// The ranges.
        ranges: usize,
    },
}

/// A node of the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEntry {
    /// Its id.
    pub id: NodeId,
    /// Its name, also in its certificate.
    pub name: String,
    /// Where its proxy listens.
    pub address: SocketAddr,
}

/// Parameters of all nodes, for a program that starts a node. `None`: the node's own default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterParameters {
    /// Most VMs of a node.
    pub vms: Option<i32>,
    /// Most nodes.
    pub nodes: Option<i32>,
    /// Most user and server slots of a VM.
    pub procs: Option<i32>,
    /// Most task slots of a VM.
    pub tasks: Option<i32>,
    /// Most bytes of a copy.
    pub max_copy_bytes: Option<i32>,
}

/// Parameters of a VM, for a program that starts it on its node. `None`: the node's own default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VmParameters {
    /// User and server slots.
    pub procs: Option<i32>,
    /// Task slots.
    pub tasks: Option<i32>,
    /// Access, as of a file.
    pub mode: Option<u16>,
    /// The time between SIGPIPE and SIGKILL at the end of the VM.
    pub grace_ms: Option<i32>,
    /// Which copies are allowed.
    pub copy: Option<VmCopy>,
    /// When the VM ends.
    pub life: Option<VmLife>,
}

/// Which copies a VM allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VmCopy {
    /// Between all members.
    Open,
    /// Of granted memory.
    Granted,
}

/// When a VM ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VmLife {
    /// Never.
    Ended,
    /// With its creator.
    Creator,
    /// With its last member.
    Members,
}

/// A VM of the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmEntry {
    /// Its id.
    pub id: VmId,
    /// Its name.
    pub name: String,
    /// The nodes that have slots of it.
    pub nodes: Vec<NodeId>,
    /// Its parameters.
    pub parameters: VmParameters,
}

/// Nodes, VMs and owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registry {
    /// The name of the cluster.
    pub cluster: String,
    /// The parameters of its nodes.
    pub parameters: ClusterParameters,
    /// The nodes, by id.
    pub nodes: Vec<NodeEntry>,
    /// The VMs, by id.
    pub vms: Vec<VmEntry>,
    /// The owners of all slots.
    pub owners: Owners,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawRegistry {
    cluster: String,
    #[serde(default)]
    parameters: ClusterParameters,
    #[serde(default)]
    node: Vec<RawNode>,
    #[serde(default)]
    vm: Vec<RawVm>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawNode {
    id: i64,
    name: String,
    address: SocketAddr,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawVm {
    id: i64,
    name: String,
    #[serde(default)]
    slots: BTreeMap<String, Vec<(Slot, Slot)>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    backups: Vec<RawBackup>,
    #[serde(default)]
    parameters: VmParameters,
}

fn check_name(what: &'static str, name: &str, most: usize) -> Result<(), RegistryError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if (1..=most).contains(&name.len()) && name.chars().all(is_plain) {
        return Ok(());
    }
    Err(RegistryError::Name { what, name: name.to_owned(), most })
}

fn check_id(what: &'static str, id: i64, count: i32) -> Result<u16, RegistryError> {
    let last = i64::from(count) - 1;
    let fitting = u16::try_from(id).ok().filter(|_| id <= last);
    fitting.ok_or(RegistryError::Id { what, id, last })
}

/// A value that two entries share.
fn shared<T: ToString + Ord>(values: impl Iterator<Item = T>) -> Option<String> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0].to_string())
}

/// Fails if two entries share a value.
fn check_once<T: ToString + Ord>(
    entries: &'static str,
    what: &'static str,
    values: impl Iterator<Item = T>,
) -> Result<(), RegistryError> {
    let twice = |value| RegistryError::Twice { entries, what, value };
    shared(values).map_or(Ok(()), |value| Err(twice(value)))
}

/// Fails if two entries share a name.
fn check_names<'a>(
    entries: &'static str,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), RegistryError> {
    shared(names).map_or(Ok(()), |name| Err(RegistryError::SameName { entries, name }))
}

/// Gives slots of a VM to a node.
fn give_slots(
    owners: &mut Owners,
    (vm, name): (VmId, &str),
    range: SlotRange,
    node: NodeId,
    nodes: &[NodeEntry],
) -> Result<(), RegistryError> {
    let name_of = |id: NodeId| {
        let entry = nodes.iter().find(|it| it.id == id);
        entry.map_or_else(|| id.0.to_string(), |it| format!("{} ({})", it.name, id.0))
    };
    owners.add(vm, range, node).map_err(|error| match error {
        OwnersError::Overlap { node, range, other, other_range, .. } => RegistryError::Overlap {
            vm: name.to_owned(),
            node: name_of(node),
            range,
            other: name_of(other),
            other_range,
        },
        error => error.into(),
    })
}

impl Registry {
    /// The registry in the text of a file.
    ///
    /// # Errors
    /// [`RegistryError`], which names the entry and the remedy.
    pub fn parse(text: &str) -> Result<Self, RegistryError> {
        let raw: RawRegistry =
            toml::from_str(text).map_err(|e| RegistryError::Syntax(e.to_string()))?;
        check_name("cluster", &raw.cluster, CLUSTER_MAX_BYTES)?;
        let mut nodes = Vec::new();
        for RawNode { id, name, address } in raw.node {
            check_name("node", &name, NODE_NAME_MAX_BYTES)?;
            let id = NodeId(check_id("node", id, NodeLimits::MAX.nodes)?);
            nodes.push(NodeEntry { id, name, address });
        }
        nodes.sort_by_key(|node| node.id);
        check_once("nodes", "id", nodes.iter().map(|node| node.id.0))?;
        check_names("nodes", nodes.iter().map(|node| node.name.as_str()))?;
        check_once("nodes", "address", nodes.iter().map(|node| node.address))?;
        let mut owners = Owners::default();
        let mut vms = Vec::new();
        for vm in raw.vm {
            vms.push(read_vm(vm, &nodes, &mut owners)?);
        }
        vms.sort_by_key(|vm: &VmEntry| vm.id);
        check_once("VMs", "id", vms.iter().map(|vm| vm.id))?;
        check_names("VMs", vms.iter().map(|vm| vm.name.as_str()))?;
        let registry =
            Self { cluster: raw.cluster, parameters: raw.parameters, nodes, vms, owners };
        registry.check_claims()?;
        Ok(registry)
    }

    fn check_claims(&self) -> Result<(), RegistryError> {
        for node in &self.nodes {
            let ranges = self.owners.of_node(node.id).count();
            if ranges > CLAIMS_MAX {
                return Err(RegistryError::Ranges { node: node.name.clone(), ranges });
            }
        }
        Ok(())
    }

    /// Fails if a node has more ranges than a greeting carries, or knows more ranges of others and
    /// of free slots than its daemon takes.
    ///
    /// # Errors
    /// [`RegistryError::Ranges`], [`RegistryError::Foreign`].
    pub fn check_ranges(&self) -> Result<(), RegistryError> {
        self.check_claims()?;
        let free = self.vms.iter().map(|vm| self.owners.unclaimed(vm.id, SlotRange::ALL).len());
        let free: usize = free.sum();
        let count = |node: &NodeEntry| self.owners.of_node(node.id).count();
        let all: usize = self.nodes.iter().map(count).sum();
        let foreign = |node: &NodeEntry| all - count(node) + free;
        let most = self.nodes.iter().map(|node| (foreign(node), node)).max_by_key(|it| it.0);
        match most {
            Some((ranges, node)) if ranges > FOREIGN_RANGES_MAX => {
                Err(RegistryError::Foreign { node: node.name.clone(), ranges })
            }
            _ => Ok(()),
        }
    }

    /// The text that [`parse`](Self::parse) reads as this registry.
    ///
    /// # Errors
    /// [`RegistryError::Syntax`]: never for a registry that was parsed.
    pub fn to_toml(&self) -> Result<String, RegistryError> {
        let node = self.nodes.iter().map(|node| RawNode {
            id: i64::from(node.id.0),
            name: node.name.clone(),
            address: node.address,
        });
        let vm = self.vms.iter().map(|vm| {
            let members = self.nodes.iter().filter(|node| vm.nodes.contains(&node.id));
            let slots = members.map(|node| {
                let ranges = self.owners.of_node(node.id).filter(|(of, _)| *of == vm.id);
                let ranges = ranges.map(|(_, range)| (range.first, range.last));
                (node.name.clone(), ranges.collect())
            });
            let backups = self.backups(vm.id).map(|(slot, node, after)| RawBackup {
                slot,
                node: node.to_owned(),
                after,
            });
            RawVm {
                id: i64::from(vm.id),
                name: vm.name.clone(),
                slots: slots.collect(),
                backups: backups.collect(),
                parameters: vm.parameters,
            }
        });
        let raw = RawRegistry {
            cluster: self.cluster.clone(),
            parameters: self.parameters,
            node: node.collect(),
            vm: vm.collect(),
        };
        toml::to_string(&raw).map_err(|e| RegistryError::Syntax(e.to_string()))
    }

    /// The backups of a VM: the slot, the name of the node, and the weakest sign that counts.
    pub fn backups(&self, vm: VmId) -> impl Iterator<Item = (Slot, &str, EndSign)> + '_ {
        let of_vm = self.owners.backups().filter(move |(of, ..)| *of == vm);
        of_vm.filter_map(|(_, slot, backup)| {
            let node = self.nodes.iter().find(|node| node.id == backup.node)?;
            Some((slot, node.name.as_str(), backup.after))
        })
    }

    /// The VM with this name.
    #[must_use]
    pub fn vm(&self, name: &str) -> Option<&VmEntry> {
        self.vms.iter().find(|vm| vm.name == name)
    }

    /// Gives a free range of a VM to a node.
    ///
    /// # Errors
    /// [`RegistryError`]: the range overlaps another one, which is named, or is out of bounds.
    pub fn give(
        &mut self,
        vm: &str,
        node: &str,
        (first, last): (Slot, Slot),
    ) -> Result<(), RegistryError> {
        let unknown = || RegistryError::UnknownNode { vm: vm.to_owned(), node: node.to_owned() };
        let node = self.node(node).map(|it| it.id).ok_or_else(unknown)?;
        let entry = self.vms.iter_mut().find(|it| it.name == vm);
        let entry = entry.ok_or_else(|| RegistryError::UnknownVm(vm.to_owned()))?;
        let range = check_range(vm, first, last)?;
        give_slots(&mut self.owners, (entry.id, vm), range, node, &self.nodes)?;
        if !entry.nodes.contains(&node) {
            entry.nodes.push(node);
            entry.nodes.sort_unstable();
        }
        Ok(())
    }

    /// The node with this name.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&NodeEntry> {
        self.nodes.iter().find(|node| node.name == name)
    }
}

fn read_vm(vm: RawVm, nodes: &[NodeEntry], owners: &mut Owners) -> Result<VmEntry, RegistryError> {
    let RawVm { id, name, slots, backups, parameters } = vm;
    check_name("VM", &name, VM_NAME_MAX_BYTES)?;
    let id = check_id("VM", id, NodeLimits::MAX.vms)?;
    let mut members = Vec::new();
    for (node_name, ranges) in slots {
        let Some(node) = nodes.iter().find(|node| node.name == node_name) else {
            return Err(RegistryError::UnknownNode { vm: name, node: node_name });
        };
        for (first, last) in ranges {
            let range = check_range(&name, first, last)?;
            give_slots(owners, (id, &name), range, node.id, nodes)?;
        }
        members.push(node.id);
    }
    for RawBackup { slot, node, after } in backups {
        let of_name = nodes.iter().find(|it| it.name == node).map(|it| it.id);
        if let Err(cause) = read_backup((id, slot), (of_name, after), owners) {
            return Err(RegistryError::Backup { vm: name, slot, node, cause });
        }
    }
    members.sort_unstable();
    Ok(VmEntry { id, name, nodes: members, parameters })
}

fn check_range(vm: &str, first: Slot, last: Slot) -> Result<SlotRange, RegistryError> {
    let SlotRange { first: low, last: high } = SlotRange::ALL;
    if first < low || last > high {
        return Err(RegistryError::Slot { vm: vm.to_owned(), first, last, low, high });
    }
    Ok(SlotRange::new(first, last)?)
}

#[cfg(test)]
mod tests;
