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
use m3ipc_abi::{NodeLimits, Slot, VM_NAME_MAX_BYTES};
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
    /// Two entries share an id, a name or an address.
    #[error("two entries have the {what} {value}; give each its own")]
    Twice {
        /// What they share.
        what: &'static str,
        /// The value.
        value: String,
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
    /// Ranges overlap, or one is empty.
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

/// Fails if two entries share a value.
fn check_once<T: ToString + Ord>(
    what: &'static str,
    values: impl Iterator<Item = T>,
) -> Result<(), RegistryError> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    match values.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(RegistryError::Twice { what, value: pair[0].to_string() }),
        None => Ok(()),
    }
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
        check_once("node id", nodes.iter().map(|node| node.id.0))?;
        check_once("node name", nodes.iter().map(|node| &node.name))?;
        check_once("node address", nodes.iter().map(|node| node.address))?;
        let mut owners = Owners::default();
        let mut vms = Vec::new();
        for vm in raw.vm {
            vms.push(read_vm(vm, &nodes, &mut owners)?);
        }
        vms.sort_by_key(|vm: &VmEntry| vm.id);
        check_once("VM id", vms.iter().map(|vm| vm.id))?;
        check_once("VM name", vms.iter().map(|vm| &vm.name))?;
        for node in &nodes {
            let ranges = owners.of_node(node.id).count();
            if ranges > CLAIMS_MAX {
                return Err(RegistryError::Ranges { node: node.name.clone(), ranges });
            }
        }
        Ok(Self { cluster: raw.cluster, parameters: raw.parameters, nodes, vms, owners })
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
        self.owners.add(entry.id, range, node)?;
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
            owners.add(id, check_range(&name, first, last)?, node.id)?;
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
mod tests {
    use super::*;
    use crate::ids::EndpointId;
    use m3ipc_abi::Address;

    const HEAD: &str = r#"
        cluster = "lab"
        [[node]]
        id = 1
        name = "alpha"
        address = "192.0.2.1:7400"
        [[node]]
        id = 2
        name = "beta"
        address = "192.0.2.2:7400"
    "#;

    fn parse(rest: &str) -> Result<Registry, RegistryError> {
        Registry::parse(&format!("{HEAD}\n{rest}"))
    }

    #[test]
    fn a_registry_names_the_owner_of_each_slot() {
        let registry = parse(
            "[[vm]]\nid = 3\nname = \"shop\"\n\
             slots = { alpha = [[-35, 99], [200, 220]], beta = [[100, 199]] }",
        )
        .expect("a registry");
        let owner = |slot| registry.owners.owner(EndpointId::new(3, Address::new(1, slot)));
        assert_eq!([owner(-35), owner(99), owner(210)], [Some(NodeId(1)); 3]);
        assert_eq!([owner(100), owner(221)], [Some(NodeId(2)), None]);
        assert_eq!(registry.vms[0].nodes, [NodeId(1), NodeId(2)]);
        assert_eq!(registry.node("beta").map(|node| node.id), Some(NodeId(2)));
    }

    #[test]
    fn a_registry_becomes_the_same_text_and_back() {
        let text = format!(
            "parameters = {{ vms = 4 }}\n{HEAD}\n[[vm]]\nid = 3\nname = \"shop\"\n\
             slots = {{ alpha = [[-35, 99], [200, 220]], beta = [[100, 199]] }}\n\
             parameters = {{ mode = 0o640, life = \"members\" }}\n"
        );
        let mut registry = Registry::parse(&text).expect("a registry");
        assert_eq!(registry.parameters.vms, Some(4));
        assert_eq!(registry.vms[0].parameters.mode, Some(0o640));
        let again = Registry::parse(&registry.to_toml().expect("a text")).expect("a registry");
        assert_eq!(again, registry);
        registry.give("shop", "beta", (300, 309)).expect("a free range");
        let refused = registry.give("shop", "alpha", (309, 309)).expect_err("an overlap");
        assert!(refused.to_string().contains("overlaps 300..309 of node 2"), "{refused}");
        assert!(registry.give("shop", "alpha", (-36, 0)).is_err());
        assert!(registry.give("shops", "alpha", (0, 0)).is_err());
    }

    #[test]
    fn each_mistake_is_named() {
        for (rest, name) in [
            (
                "[[vm]]\nid = 3\nname = \"a\"\nslots = { alpha = [[0, 9]], beta = [[9, 9]] }",
                "overlap",
            ),
            ("[[vm]]\nid = 3\nname = \"a\"\nslots = { gamma = [[0, 9]] }", "`gamma`"),
            ("[[vm]]\nid = 3\nname = \"a\"\nslots = { beta = [[9, 0]] }", "9..0 is empty"),
            ("[[vm]]\nid = 3\nname = \"a\"\nslots = { beta = [[-36, 0]] }", "-36..0"),
            ("[[vm]]\nid = 3\nname = \"a\"\nslots = { beta = [[0, 35534]] }", "0..35534"),
            ("[[vm]]\nid = 1024\nname = \"a\"", "0 to 1023"),
            ("[[vm]]\nid = -1\nname = \"a\"", "0 to 1023"),
            ("[[vm]]\nid = 1\nname = \"sixteen-bytes-no\"", "1 to 15"),
            ("[[vm]]\nid = 1\nname = \"a\"\n[[vm]]\nid = 1\nname = \"b\"", "VM id 1"),
            ("[[vm]]\nid = 1\nname = \"a\"\n[[vm]]\nid = 2\nname = \"a\"", "VM name a"),
            ("[[node]]\nid = 1\nname = \"c\"\naddress = \"192.0.2.3:1\"", "node id 1"),
            ("[[node]]\nid = 3\nname = \"beta\"\naddress = \"192.0.2.3:1\"", "node name beta"),
            ("[[node]]\nid = 3\nname = \"c\"\naddress = \"192.0.2.2:7400\"", "192.0.2.2:7400"),
            ("[[node]]\nid = 3\nname = \"c/d\"\naddress = \"192.0.2.3:1\"", "c/d"),
            ("[[vm]]\nid = 1\nname = \"a\"\nslot = {}", "unknown field"),
        ] {
            let text = parse(rest).expect_err(rest).to_string();
            assert!(text.contains(name), "{rest}\n{text}");
        }
    }

    #[test]
    fn a_registry_names_backups_and_each_wrong_one() {
        let with = |backups: &str| {
            parse(&format!(
                "[[node]]\nid = 3\nname = \"gamma\"\naddress = \"192.0.2.3:7400\"\n\
                 [[vm]]\nid = 3\nname = \"shop\"\n\
                 slots = {{ alpha = [[0, 9]], beta = [[10, 19]] }}\nbackups = [{backups}]\n"
            ))
        };
        let registry = with(
            "{ slot = 5, node = \"beta\" }, \
             { slot = 12, node = \"alpha\", after = \"silence\" }",
        );
        let registry = registry.expect("a registry");
        let backups: Vec<_> = registry.backups(3).collect();
        assert_eq!(backups, [(5, "beta", EndSign::Left), (12, "alpha", EndSign::Silence)]);
        let again = Registry::parse(&registry.to_toml().expect("a text")).expect("a registry");
        assert_eq!(again, registry);
        for (backups, named) in [
            ("{ slot = 5, node = \"delta\" }", "`delta` cannot be the backup of slot 5: no"),
            ("{ slot = 20, node = \"beta\" }", "slot 20: no node has the slot"),
            ("{ slot = 5, node = \"alpha\" }", "slot 5: the node has the slot itself"),
            ("{ slot = 5, node = \"gamma\" }", "slot 5: the node has no slots of this VM"),
            (
                "{ slot = 5, node = \"beta\" }, { slot = 5, node = \"beta\" }",
                "slot 5: the slot has a backup already",
            ),
            ("{ slot = 5, node = \"beta\", silence = 1 }", "unknown field"),
            ("{ slot = 5, node = \"beta\", after = \"sleep\" }", "unknown variant"),
        ] {
            let text = with(backups).expect_err(backups).to_string();
            assert!(text.contains(named), "{backups}\n{text}");
        }
    }
}
