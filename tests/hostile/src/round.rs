//! One round of the attacker: a fresh endpoint and a fresh link.

use m3ipc_test_fixture::Rng;
use m3ipc_test_fixture::raw::{EndpointPages, PeerPages, RawMember};
use std::path::Path;

/// What the attacker holds in one round.
pub struct Round<'a> {
    pub directory: &'a Path,
    pub vm: i32,
    pub victim: i32,
    pub raw: RawMember,
    /// The pages of its own endpoint.
    pub own: EndpointPages,
    /// The pages that it holds of the victim.
    pub peer: PeerPages,
    pub until_ns: u64,
    pub rng: Rng,
}

impl Round<'_> {
    /// Whether the round still lasts.
    pub fn lasts(&self) -> bool {
        m3ipc_sys::monotonic_ns() < self.until_ns
    }
}

/// The id of a VM by its name.
pub fn vm_id(directory: &Path, name: &str) -> i32 {
    let mut node = m3ipc::Node::find(directory).expect("the node runs");
    node.vm_named(name).expect("the VM may be seen").id()
}
