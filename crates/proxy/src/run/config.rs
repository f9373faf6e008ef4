//! The configuration of a proxy, and the registry that it names.

use super::feed::{Feed, FeedError};
use super::user;
use crate::keys::{KeyError, NodeKeys};
use crate::{NodeName, NotANodeName};
use m3ipc::Address;
use m3ipc::nodes::{BackedSlot, ForeignRange, OtherSlots};
use m3ipc_fabric::{
    Backup, EndpointId, NodeEntry, Owners, Registry, RegistryError, SlotRange, VmId,
};
use serde::Deserialize;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What the daemon calls the owner of slots that no node has claimed. No node can have this name.
pub(super) const NO_NODE: &str = "(none: not claimed)";

/// Why a proxy cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("{path}: {source}; `m3-proxy run --help` shows an example of both files")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The configuration has another form.
    #[error("{path}: {cause}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The place and the reason.
        cause: toml::de::Error,
    },
    /// The registry is wrong.
    #[error("{path}: {cause}")]
    Registry {
        /// The file.
        path: PathBuf,
        /// The reason.
        cause: RegistryError,
    },
    /// A name does not fit in a certificate.
    #[error("{path}: {cause}")]
    Name {
        /// The file.
        path: PathBuf,
        /// The reason.
        cause: NotANodeName,
    },
    /// The registry lacks the own node.
    #[error("the node {node} has no [[node]] entry in {path}; add it there, on all nodes")]
    Absent {
        /// The node.
        node: NodeName,
        /// The registry.
        path: PathBuf,
    },
    /// The system does not have the user of the configuration.
    #[error("the configuration names the user {0:?}, which this system does not have; make it")]
    User(String),
    /// The program of the registry gives none.
    #[error(transparent)]
    Feed(#[from] FeedError),
    /// The keys cannot be read.
    #[error("{cause}{}", remedy_of_keys(cause))]
    Keys {
        /// The reason.
        #[from]
        cause: KeyError,
    },
    /// The keys cannot be read again.
    #[error("{0}")]
    Renewal(String),
    /// The number of the last start cannot be kept.
    #[error(
        "{path}: {source}; the proxy counts its starts there: give its user the right to write in \
         that directory, or name another one with `state`"
    )]
    Lives {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Certificate and key do not belong together.
    #[error(
        "the keys of node {node} in {path} do not belong together: {cause}; move both files away, \
         and make keys again with `m3 node keys`"
    )]
    KeyPair {
        /// The node.
        node: NodeName,
        /// The directory.
        path: PathBuf,
        /// The reason.
        cause: rustls::Error,
    },
}

fn remedy_of_keys(error: &KeyError) -> &'static str {
    match error {
        KeyError::File { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            "; run the proxy as the owner of its keys, or as root with `user` in the configuration"
        }
        KeyError::File { .. } => "; make keys with `m3 node keys`",
        _ => "",
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawConfig {
    node: String,
    registry: RawSource,
    keys: PathBuf,
    runtime_dir: Option<PathBuf>,
    state: Option<PathBuf>,
    user: Option<String>,
    #[serde(default)]
    sandbox: Confinement,
    #[serde(default)]
    without_security: bool,
    #[serde(default = "node_bytes")]
    node_bytes: u64,
}

/// The default of `node_bytes`.
const fn node_bytes() -> u64 {
    256 << 20
}

/// Whether the proxy runs in its sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confinement {
    /// In the sandbox, as strong as the kernel allows.
    #[default]
    On,
    /// Without, by an explicit word.
    Off,
}

/// A file, or a program that writes the registry and its changes.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum RawSource {
    File(PathBuf),
    Program {
        program: PathBuf,
        #[serde(default)]
        arguments: Vec<String>,
    },
}

/// What a proxy knows from its files.
#[derive(Debug)]
pub struct Config {
    /// The own node.
    pub name: NodeName,
    /// Its entry in the registry.
    pub own: NodeEntry,
    /// All nodes and VMs. The owners of slots may be others by now: [`Config::owners`].
    pub registry: Registry,
    /// The registry, where a program writes it.
    pub(super) feed: Option<Feed>,
    /// The directory of the keys.
    pub keys: PathBuf,
    /// The runtime directory of the daemon of this node.
    pub runtime_directory: PathBuf,
    /// The directory in which the proxy counts its starts.
    pub state: PathBuf,
    /// The user that the proxy becomes, if root starts it.
    pub user: Option<String>,
    /// Whether the proxy runs in its sandbox.
    pub confinement: Confinement,
    /// Whether the connections are bare TCP, whose peers are believed whatever they claim.
    pub without_security: bool,
    /// What the endpoints of one other node may have at receivers here, in bytes: long payloads and
    /// blocks that are not free again.
    pub node_bytes: u64,
}

fn user_of(name: &str) -> Result<(u32, u32), ConfigError> {
    let found = user::find(name).ok().flatten();
    let found = found.map(|(uid, gid)| (uid.as_raw(), gid.as_raw()));
    found.ok_or_else(|| ConfigError::User(name.to_owned()))
}

fn read(path: &Path) -> Result<String, ConfigError> {
    fs::read_to_string(path).map_err(|source| ConfigError::File { path: path.into(), source })
}

impl Config {
    /// Reads the configuration and the registry. Relative paths begin at the configuration.
    ///
    /// # Errors
    /// [`ConfigError`], which names the file and the remedy.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        // The sandbox does not tell the working directory.
        let absolute = |path: &Path| {
            std::path::absolute(path)
                .map_err(|source| ConfigError::File { path: path.into(), source })
        };
        let raw: RawConfig = toml::from_str(&read(path)?)
            .map_err(|cause| ConfigError::Syntax { path: path.into(), cause })?;
        let path = &absolute(path)?;
        let base = path.parent().unwrap_or(Path::new("/"));
        let name = |name: &str, path: &Path| {
            NodeName::new(name).map_err(|cause| ConfigError::Name { path: path.into(), cause })
        };
        let own_name = name(&raw.node, path)?;
        let (registry_path, registry, feed) = match raw.registry {
            RawSource::File(file) => {
                let file = base.join(file);
                let registry = Registry::parse(&read(&file)?)
                    .map_err(|cause| ConfigError::Registry { path: file.clone(), cause })?;
                (file, registry, None)
            }
            RawSource::Program { program, arguments } => {
                // Root alone can become another user, and does so later.
                let user = raw.user.as_deref().filter(|_| rustix::process::geteuid().is_root());
                let user = user.map(user_of).transpose()?;
                let (feed, registry) = Feed::start(base, &program, &arguments, user)?;
                (program, registry, Some(feed))
            }
        };
        for node in &registry.nodes {
            name(&node.name, &registry_path)?;
        }
        let own = registry.node(own_name.as_str()).cloned();
        let own = own.ok_or(ConfigError::Absent { node: own_name.clone(), path: registry_path })?;
        let runtime_directory =
            raw.runtime_dir.map_or_else(m3ipc::runtime::directory, |path| base.join(path));
        let runtime_directory = absolute(&runtime_directory)?;
        let keys = base.join(&raw.keys);
        // systemd names the directory of a service.
        let state = raw.state.map(|path| base.join(path));
        let state = state.or_else(|| std::env::var_os("STATE_DIRECTORY").map(PathBuf::from));
        let state = absolute(&state.unwrap_or_else(|| base.to_owned()))?;
        let (name, user, confinement) = (own_name, raw.user, raw.sandbox);
        Ok(Self {
            name,
            own,
            registry,
            feed,
            keys,
            runtime_directory,
            state,
            user,
            confinement,
            without_security: raw.without_security,
            node_bytes: raw.node_bytes,
        })
    }

    /// The owners of slots, as far as they are known now.
    #[must_use]
    pub fn owners(&self) -> Owners {
        match &self.feed {
            Some(feed) => feed.owners(),
            None => self.registry.owners.clone(),
        }
    }

    /// The keys of the own node.
    ///
    /// # Errors
    /// A file is missing or holds something else.
    pub fn read_keys(&self) -> Result<NodeKeys, ConfigError> {
        Ok(NodeKeys::read(&self.keys, &self.name)?)
    }

    /// The error of keys that do not belong together.
    pub(super) fn unfit_keys(&self, cause: rustls::Error) -> ConfigError {
        ConfigError::KeyPair { node: self.name.clone(), path: self.keys.clone(), cause }
    }

    /// The other nodes.
    pub fn peers(&self) -> impl Iterator<Item = &NodeEntry> {
        self.registry.nodes.iter().filter(|node| node.id != self.own.id)
    }

    /// The slots that programs of this node cannot bind, and those with a backup, for the daemon.
    #[must_use]
    pub fn slots(&self) -> OtherSlots {
        self.slots_in(&self.owners())
    }

    pub(super) fn slots_in(&self, owners: &Owners) -> OtherSlots {
        let own = Some(self.own.id);
        let is_own = |(vm, slot, backup): &(VmId, i32, Backup)| {
            let home = owners.home(EndpointId::new(*vm, Address::new(0, *slot)));
            home == own || Some(backup.node) == own
        };
        let backed = owners.backups().filter(is_own);
        let backed = backed.map(|(vm, slot, _)| BackedSlot { vm: i32::from(vm), slot });
        OtherSlots { foreign: self.foreign_in(owners), backed: backed.collect() }
    }

    /// The slots of other nodes; and those of no node, if a node may claim them.
    fn foreign_in(&self, owners: &Owners) -> Vec<ForeignRange> {
        let of_node = |node: &NodeEntry| -> Vec<ForeignRange> {
            let ranges = owners.of_node(node.id);
            let foreign = ranges.map(|(vm, range)| ForeignRange {
                vm: i32::from(vm),
                first: range.first,
                last: range.last,
                node: node.name.clone(),
            });
            foreign.collect()
        };
        let vms = self.registry.vms.iter().filter(|_| self.feed.is_some());
        let unclaimed = vms.flat_map(|vm| {
            let ranges = owners.unclaimed(vm.id, SlotRange::ALL).into_iter();
            ranges.map(|range| ForeignRange {
                vm: i32::from(vm.id),
                first: range.first,
                last: range.last,
                node: NO_NODE.to_owned(),
            })
        });
        self.peers().flat_map(of_node).chain(unclaimed).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const REGISTRY: &str = "cluster = \"lab\"\n\
        [[node]]\nid = 1\nname = \"alpha\"\naddress = \"127.0.0.1:7401\"\n\
        [[node]]\nid = 2\nname = \"beta\"\naddress = \"127.0.0.1:7402\"\n\
        [[vm]]\nid = 3\nname = \"shop\"\nslots = { alpha = [[0, 9]], beta = [[10, 19]] }\n";

    fn config(text: &str) -> Result<Config, ConfigError> {
        let directory = std::env::temp_dir().join(format!(
            "m3-proxy-config-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        fs::create_dir_all(&directory).expect("a test may write there");
        fs::write(directory.join("nodes.toml"), REGISTRY).expect("a test may write there");
        let path = directory.join("proxy.toml");
        fs::write(&path, text).expect("a test may write there");
        let read = Config::read(&path);
        let _ = fs::remove_dir_all(&directory);
        read
    }

    /// The configuration of alpha, whose peer is beta.
    pub(crate) fn alpha() -> Config {
        let text = "node = \"alpha\"\nregistry = \"nodes.toml\"\nkeys = \"keys\"\n";
        config(text).expect("a configuration")
    }

    #[test]
    fn a_configuration_names_the_slots_of_others() {
        let config = alpha();
        assert_eq!(config.own.address.port(), 7401);
        let foreign = config.slots().foreign;
        assert_eq!(foreign.len(), 1);
        let range = &foreign[0];
        assert_eq!((range.vm, range.first, range.last), (3, 10, 19));
        assert_eq!(range.node, "beta");
    }

    #[test]
    fn each_mistake_is_named() {
        for (text, named) in [
            ("node = \"gamma\"\nregistry = \"nodes.toml\"\nkeys = \"k\"", "gamma"),
            ("node = \"alpha\"\nregistry = \"absent.toml\"\nkeys = \"k\"", "absent.toml"),
            ("node = \"Alpha\"\nregistry = \"nodes.toml\"\nkeys = \"k\"", "Alpha"),
            ("node = \"alpha\"\nkeys = \"k\"", "registry"),
            ("node = \"alpha\"\nregistry = \"nodes.toml\"\nkey = \"k\"", "key"),
        ] {
            let error = config(text).expect_err(text).to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
