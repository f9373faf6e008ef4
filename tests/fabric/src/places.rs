//! Backups: one endpoint of each node in each VM has one on the next node.

use m3ipc_abi::Address;
use m3ipc_fabric::{Action, EndSign, EndpointId, NodeId};

use crate::network::{Event, MS, pair};
use crate::node::{VMS, backed_slot};
use crate::world::{Checked, Trouble, World};

impl World {
    /// Carries out the actions of backups; any other action comes back.
    pub fn place_action(&mut self, id: NodeId, action: Action) -> Result<Option<Action>, String> {
        match action {
            Action::Moved { endpoint } => {
                let slot = (endpoint.vm, endpoint.address.slot());
                self.at(id).moved.insert(slot, endpoint.address);
            }
            Action::Placed { vm, slot, node } => {
                if node != id {
                    // The daemon tells of the end later: what the machine says before comes first.
                    self.drain(id)?;
                    let here = self.endpoint_at(id, (vm, slot));
                    if let Some(endpoint) = here
                        && self.at(id).machine.owners().owner(endpoint) != Some(id)
                    {
                        self.end_endpoint(id, endpoint, false)?;
                    }
                }
                if node == id && self.rng.bool() {
                    self.bind_at_home(id, (vm, slot));
                }
            }
            Action::PlaceFree { vm, slot } => {
                self.check_proof(id, EndpointId::new(vm, Address::new(0, slot)))?;
                let at_ns = self.now_ns + self.rng.u64(0..300 * MS);
                if self.rng.u8(0..4) > 0 {
                    self.network.at(at_ns, Event::TakePlace(id, (vm, slot)));
                }
            }
            Action::GiveBack { vm, slot } => {
                let clock_ns = self.clock_ns(id);
                // It stays given: the home may have moved the endpoint once more.
                if self.endpoint_at(id, (vm, slot)).is_none() {
                    self.at(id).machine.gave_back(clock_ns, vm, slot);
                }
            }
            other => return Ok(Some(other)),
        }
        Ok(None)
    }

    fn endpoint_at(&mut self, id: NodeId, (vm, slot): (u16, i32)) -> Option<EndpointId> {
        let mut all = self.at(id).endpoints.iter();
        all.find(|it| it.vm == vm && it.address.slot() == slot).copied()
    }

    /// A sign of the end of a node whose last connection is closed. Its own word is always true; a
    /// refused connection may come from a firewall.
    pub fn sign_of(&mut self, node: NodeId) -> Option<EndSign> {
        let (is_up, choice) = (self.at(node).is_up, self.rng.u8(0..8));
        match (is_up, choice) {
            (false, 0..3) => Some(EndSign::Left),
            (false, _) => Some(EndSign::Refused),
            (true, 0) if self.trouble != Trouble::None => Some(EndSign::Refused),
            (true, _) => None,
        }
    }

    /// A node tries to connect to another one, and may be refused.
    pub fn refuse(&mut self, (id, peer): (NodeId, NodeId)) -> Checked {
        let (now_ns, is_connected) = (self.now_ns, self.network.is_connected(pair(id, peer)));
        let node = self.at(id);
        let clock_ns = node.clock_ns(now_ns);
        let tries = node.is_up && !node.paused && !is_connected;
        let awaits = tries && node.machine.awaits_refusal(peer);
        if awaits && self.sign_of(peer).is_some() {
            self.at(id).machine.gone(clock_ns, peer, EndSign::Refused);
            return self.drain(id);
        }
        Ok(())
    }

    /// The life of the home that the backup has met must be over, if its own word is the only sign
    /// that counts.
    fn check_proof(&mut self, id: NodeId, place: EndpointId) -> Checked {
        let owners = self.at(id).machine.owners();
        let backup = owners.backup(place).filter(|backup| backup.node == id);
        let (backup, home) = (backup.ok_or("not the backup")?, owners.home(place).ok_or("a home")?);
        let met = self.at(id).met.get(&home).copied();
        let home = self.at(home);
        let lives = home.is_up && Some(home.incarnation) == met;
        let was_given = self.given.contains(&(place.vm, place.address.slot()));
        if lives && backup.after == EndSign::Left && !was_given {
            return Err(format!("node {} takes {place:?} from a living node", id.0));
        }
        Ok(())
    }

    /// A backup gets the address that the home gave its endpoint.
    pub fn bind_backup(&mut self, id: NodeId, (vm, slot): (u16, i32)) -> Checked {
        let place = EndpointId::new(vm, Address::new(0, slot));
        let (clock_ns, is_taken) = (self.clock_ns(id), self.endpoint_at(id, (vm, slot)).is_some());
        let node = self.at(id);
        let may = node.is_up && !node.paused && node.machine.owners().owner(place) == Some(id);
        if !may || is_taken {
            return Ok(());
        }
        let home = node.machine.owners().home(place).ok_or("a home")?;
        let generation = i32::try_from(self.at(home).incarnation).unwrap_or(0) * 100;
        let moved = self.at(id).moved.remove(&(vm, slot));
        let address = moved.unwrap_or(Address::new(generation, slot));
        self.given.remove(&(vm, slot));
        self.at(id).bind(clock_ns, EndpointId::new(vm, address));
        self.drain(id)
    }

    /// The slot is at its home again, and a new endpoint has it.
    fn bind_at_home(&mut self, id: NodeId, (vm, slot): (u16, i32)) {
        let (clock_ns, now_ms) = (self.clock_ns(id), self.now_ns / MS);
        if self.endpoint_at(id, (vm, slot)).is_none() {
            let generation = 10_000 + i32::try_from(now_ms % 10_000).unwrap_or(0);
            let moved = self.at(id).moved.remove(&(vm, slot));
            let address = moved.unwrap_or(Address::new(generation, slot));
            self.at(id).bind(clock_ns, EndpointId::new(vm, address));
        }
    }

    /// At rest each slot has one holder at most, and all nodes know where it is.
    pub fn places_agree(&self) -> Checked {
        for (home, vm) in self.ids().into_iter().flat_map(|id| VMS.map(|vm| (id, vm))) {
            let slot = backed_slot(home);
            let has = |it: &EndpointId| it.vm == vm && it.address.slot() == slot;
            let holders = self.nodes.iter().filter(|node| node.endpoints.iter().any(has));
            let holders: Vec<NodeId> = holders.map(|node| node.id).collect();
            let place = EndpointId::new(vm, Address::new(0, slot));
            let known = self.nodes.iter().filter_map(|it| it.machine.owners().owner(place));
            let mut known: Vec<NodeId> = known.collect();
            known.dedup();
            if holders.len() > 1 || known.len() != 1 || holders.iter().any(|it| !known.contains(it))
            {
                return Err(format!("{place:?} is at {holders:?}, and known at {known:?}"));
            }
            if holders.is_empty() && known != [home] {
                return Err(format!("{place:?} has no endpoint, and is kept at {known:?}"));
            }
        }
        Ok(())
    }
}
