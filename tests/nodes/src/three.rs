//! Three nodes on one machine, with a cable between each two.
//!
//! | node | slots | its server |
//! |---|---|---|
//! | alpha | -35 to 9, 29 to 99 | |
//! | beta | 10 to 19, 100 to 199 | 10 |
//! | gamma | 20 to 28, 200 to 240 | 20 |
//!
//! Each node has a registry of its own, which names a cable in place of the address of a node of a
//! higher id: the node of the lower id connects.

use crate::relay::Relay;
use crate::spaces::{self, Spaces};
use crate::{OneNode, VM, free_ports};
use m3ipc_proxy::{NodeName, keys};
use m3ipc_test_fixture::unused_directory;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

const NAMES: [&str; 3] = ["alpha", "beta", "gamma"];

/// The cables, by the ids of their ends less one.
const CABLES: [(usize, usize); 3] = [(0, 1), (0, 2), (1, 2)];

/// Three nodes.
#[derive(Debug)]
pub struct Three {
    /// alpha, beta, gamma.
    pub nodes: [OneNode; 3],
    cables: Vec<Relay>,
    directory: PathBuf,
}

impl Three {
    /// Starts three nodes on loopback.
    ///
    /// # Panics
    /// If one of them does not start.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let directory = prepare(name);
        let ports: [u16; 3] = free_ports();
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let cables: Vec<Relay> = CABLES.iter().map(|(_, to)| Relay::to(at(ports[*to]))).collect();
        let nodes = [0, 1, 2].map(|own| {
            let port_of = |other: usize| {
                let cable = CABLES.iter().position(|cable| *cable == (own, other));
                cable.map_or(ports[other], |at| cables[at].port())
            };
            let addresses = [0, 1, 2].map(|other| at(port_of(other)));
            start(&directory, own, (addresses, None), "")
        });
        Self { nodes, cables, directory }
    }

    /// Starts three nodes that connect to each other without cables: a proxy that has ended refuses
    /// them. The VM has these backups, as in the registry.
    ///
    /// # Panics
    /// If one of them does not start.
    #[must_use]
    pub fn with_backups(name: &str, backups: &str) -> Self {
        let directory = prepare(name);
        let ports: [u16; 3] = free_ports();
        let addresses = ports.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let more = format!("backups = {backups}\n");
        let nodes = [0, 1, 2].map(|own| start(&directory, own, (addresses, None), &more));
        Self { nodes, cables: Vec::new(), directory }
    }

    /// Starts three nodes whose proxies are in these namespaces.
    ///
    /// # Panics
    /// If one of them does not start.
    #[must_use]
    pub fn in_spaces(name: &str, spaces: &Spaces) -> Self {
        let directory = prepare(name);
        let addresses = [0, 1, 2].map(|at| SocketAddr::from((spaces::address(at), spaces::PORT)));
        let space = |own| Some(spaces.holder_of(own));
        let nodes = [0, 1, 2].map(|own| start(&directory, own, (addresses, space(own)), ""));
        Self { nodes, cables: Vec::new(), directory }
    }

    /// The cable between two nodes, the lower one first.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn cable(&self, ends: (usize, usize)) -> &Relay {
        &self.cables[CABLES.iter().position(|cable| *cable == ends).expect("a cable")]
    }
}

/// A directory with the keys of all nodes.
fn prepare(name: &str) -> PathBuf {
    let directory = unused_directory(&format!("nodes-{name}"));
    let names = NAMES.map(|name| NodeName::new(name).expect("a name"));
    keys::make(&directory.join("keys"), &names).expect("keys can be made");
    directory
}

fn start(
    base: &Path,
    own: usize,
    (addresses, space): ([SocketAddr; 3], Option<u32>),
    more_of_vm: &str,
) -> OneNode {
    let directory = base.join(NAMES[own]);
    std::fs::create_dir(&directory).expect("a test may write there");
    std::os::unix::fs::symlink(base.join("keys"), directory.join("keys")).expect("a fresh name");
    let mut registry = String::from("cluster = \"test\"\n");
    for (at, (name, address)) in NAMES.iter().zip(addresses).enumerate() {
        let id = at + 1;
        registry += &format!("[[node]]\nid = {id}\nname = \"{name}\"\naddress = \"{address}\"\n");
    }
    registry += &format!(
        "[[vm]]\nid = {VM}\nname = \"shop\"\nslots = {{ alpha = [[-35, 9], [29, 99]], \
         beta = [[10, 19], [100, 199]], gamma = [[20, 28], [200, 240]] }}\n{more_of_vm}"
    );
    std::fs::write(directory.join("nodes.toml"), registry).expect("a test may write there");
    OneNode::new(&directory, NAMES[own], space)
}

impl Drop for Three {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
