//! Names of endpoints, which all nodes of their VM learn.
//!
//! A name is attached on its own node first, and then by the stand-in on each other node. Where it
//! is taken, the stand-in goes without it: each node has at most one holder.

use m3ipc_abi::NAME_MAX_BYTES;

use super::action::Action;
use super::{Machine, RuleBroken};
use crate::ids::{EndpointId, NodeId};
use crate::packet::Frame;

impl Machine {
    /// A local endpoint has attached a name.
    pub fn named(&mut self, now_ns: u64, endpoint: EndpointId, name: &str) {
        self.advance(now_ns);
        if !self.living.contains_key(&endpoint) {
            return;
        }
        let names = self.names.entry(endpoint).or_default();
        if names.insert(name.to_owned()) {
            let nodes: Vec<NodeId> = self.peers.keys().copied().collect();
            nodes.into_iter().for_each(|node| self.announce_name(node, endpoint, name));
        }
    }

    fn announce_name(&mut self, node: NodeId, endpoint: EndpointId, name: &str) {
        let EndpointId { vm, address } = endpoint;
        if self.is_reachable(node) && self.shares_vm(node, vm) {
            let body = name.as_bytes().to_vec();
            self.push(node, Frame::Named { vm, endpoint: address.0 }, body);
        }
    }

    /// A session has begun: the node learns the names of this endpoint, after its address.
    pub(super) fn announce_names(&mut self, node: NodeId, endpoint: EndpointId) {
        let names = self.names.get(&endpoint).cloned().unwrap_or_default();
        names.iter().for_each(|name| self.announce_name(node, endpoint, name));
    }

    pub(super) fn name_arrived(
        &mut self,
        node: NodeId,
        endpoint: EndpointId,
        body: &[u8],
    ) -> Result<(), RuleBroken> {
        let name = std::str::from_utf8(body).map_err(|_| RuleBroken)?;
        if name.contains('\0') || name.len() > NAME_MAX_BYTES {
            return Err(RuleBroken);
        }
        if !self.is_of(node, endpoint)? || self.may_join(endpoint.vm) {
            self.early.name(node, endpoint, name);
            return Ok(());
        }
        // The names of a dead endpoint may be late; of others a node may not speak.
        let slot = (endpoint.vm, endpoint.address.slot());
        let announced = self.peers.get(&node).and_then(|peer| peer.announced.get(&slot));
        if announced != Some(&endpoint.address) {
            return Ok(());
        }
        self.actions.push_back(Action::Named { endpoint, name: name.to_owned() });
        Ok(())
    }
}
