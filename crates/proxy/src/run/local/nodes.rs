//! What the daemon and the stand-ins learn of other nodes.

use super::super::network::Clock;
use super::{Entry, Local};
use m3ipc::NodeError;
use m3ipc::nodes::{OtherNode, OtherSlots};
use m3ipc_fabric::{EndpointId, Failure, Machine, NodeId, Owners};

impl Local {
    /// Slots were claimed. The daemon then names its endpoints anew.
    ///
    /// # Errors
    /// A local endpoint has a slot of another node, and nothing has changed; the daemon is gone.
    pub fn set_owners(&mut self, owners: Owners, slots: OtherSlots) -> Result<(), NodeError> {
        self.proxy.set_foreign(slots)?;
        self.owners = owners.with_held_of(&self.owners);
        Ok(())
    }

    /// Calls to a slot of this owner, where nobody stands in, fail as on this node.
    ///
    /// # Errors
    /// The daemon is gone.
    pub fn answers_for(&mut self, owner: &str) -> Result<(), NodeError> {
        self.proxy.set_reachable(owner, true)
    }

    /// Tells the daemon which other nodes there are, for lists.
    ///
    /// # Errors
    /// The daemon is gone.
    pub fn knows(&mut self, nodes: Vec<OtherNode>) -> Result<(), NodeError> {
        let names = nodes.iter().filter_map(|it| Some((u16::try_from(it.id).ok()?, &it.name)));
        self.node_names = names.map(|(id, name)| (NodeId(id), name.clone())).collect();
        self.proxy.set_known(nodes)
    }

    /// A node can be reached now.
    ///
    /// # Errors
    /// The daemon is gone.
    pub fn node_up(&mut self, name: &str) -> Result<(), NodeError> {
        self.proxy.set_reachable(name, true)
    }

    /// A node cannot be reached any more, or has begun a new life.
    ///
    /// # Errors
    /// The daemon is gone.
    pub fn node_lost(
        &mut self,
        (node, name): (NodeId, &str),
        cause: Failure,
        machine: &mut Machine,
        clock: &Clock,
    ) -> Result<(), NodeError> {
        self.proxy.set_reachable(name, false)?;
        self.note_lost(node, cause);
        self.wanted.forget_node(node);
        let of_node = self.stand_ins.keys().filter(|id| self.owners.owner(**id) == Some(node));
        let mut of_node: Vec<EndpointId> = of_node.copied().collect();
        if cause == Failure::LinkDown {
            of_node = self.wait_for_backups(of_node, machine, clock);
        }
        let waits = |id: &EndpointId| self.stand_ins.get(id).is_some_and(Entry::waits_for_backup);
        self.names.forget_node(node, &self.owners, waits);
        for id in of_node {
            let Some(entry) = self.remove(id, machine, clock) else { continue };
            if cause == Failure::Rebooted {
                entry.stand_in.died();
            }
        }
        Ok(())
    }
}
