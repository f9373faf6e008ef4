//! Slots that the node of their backup takes when their home has ended (ADR 63).
//!
//! | event | node of the backup | home, and other nodes |
//! |---|---|---|
//! | the home has ended | takes the slot: a local endpoint may be bound there | |
//! | the endpoint moves (`moves`) | takes the slot, for a time | at the home, the slot is there |
//! | the backup is bound | announces it, as each bind | believe it, unless the home is here still |
//! | the home is back | announces its bind, or gives the slot back and says so | the home ends its own |
//! | the backup dies | gives the slot back once the home is there | the slot is at its home |
//! | the node of the backup has ended, or says that it has none there | | the slot is at its home |
//!
//! "Has ended" is a sign as sure as the registry wants it for the slot ([`EndSign`]): by default
//! the word of the node itself. A weaker sign may be wrong. Two nodes may then hold a slot while
//! they are parted, and the home gives way when they meet.
//!
//! A slot changes its holder once in a second at most (`changes`): each change costs the daemon a
//! request. A place goes back without that pause, so a backup cannot take it meanwhile.

use m3ipc_abi::{Address, Slot};

use super::action::Action;
use super::{Machine, Timer};
use crate::faults::Fault;
use crate::ids::{EndpointId, NodeId, VmId};
use crate::outcome::Failure;
use crate::owners::EndSign;
use crate::packet::Frame;

/// What becomes of a slot.
enum Change {
    /// Another node has it.
    To(NodeId),
    /// The driver may give it back.
    Back,
}

impl Machine {
    /// The owners of all slots, with the holders that this node knows.
    #[must_use]
    pub fn owners(&self) -> &crate::Owners {
        &self.owners
    }

    /// Whether the registry lets a node have this slot, at its home or as its backup.
    pub(super) fn may_hold(&self, node: NodeId, endpoint: EndpointId) -> bool {
        let Some(backup) = self.owners.backup(endpoint) else { return false };
        backup.node == node || self.owners.home(endpoint) == Some(node)
    }

    /// The slots with a backup whose home or backup a node is.
    pub(super) fn places_of(&self, node: NodeId) -> Vec<(VmId, Slot)> {
        let all = self.owners.backups().filter(|(vm, slot, backup)| {
            backup.node == node || self.owners.home(EndpointId::any_of((*vm, *slot))) == Some(node)
        });
        all.map(|(vm, slot, _)| (vm, slot)).collect()
    }

    fn settle_places_of(&mut self, node: NodeId) {
        self.places_of(node).into_iter().for_each(|slot| self.settle_place(slot));
    }

    /// Whether a local endpoint has the slot.
    pub(super) fn lives_here(&self, slot: (VmId, Slot)) -> bool {
        self.living_in(slot).is_some()
    }

    /// The local endpoint that has the slot.
    pub(super) fn living_in(&self, (vm, slot): (VmId, Slot)) -> Option<EndpointId> {
        let first = EndpointId::new(vm, Address(i32::MIN));
        let last = EndpointId::new(vm, Address(i32::MAX));
        let mut all = self.living.range(first..=last).map(|(it, _)| *it);
        all.find(|it| it.address.slot() == slot)
    }

    /// Whether a node that was here has ended, as far as the registry wants to know it.
    pub(super) fn has_ended(&self, node: NodeId, after: EndSign) -> bool {
        let Some(peer) = self.peers.get(&node) else { return false };
        let unproven = self.own.planted.has(Fault::TakenUnproven);
        let is_sure = peer.end.sign.is_some_and(|sign| sign <= after || unproven);
        is_sure && peer.end.was_met && peer.session.is_gone()
    }

    /// Whether a refused connection to a node would free a place: the driver may look for it.
    #[must_use]
    pub fn awaits_refusal(&self, node: NodeId) -> bool {
        let Some(peer) = self.peers.get(&node) else { return false };
        let is_known = peer.end.sign.is_some_and(|sign| sign <= EndSign::Refused);
        let mut all = self.owners.backups();
        peer.end.was_met
            && !is_known
            && all.any(|(vm, slot, backup)| {
                let holder = self.owners.owner(EndpointId::any_of((vm, slot)));
                let counts = backup.node == self.own.node || backup.node == node;
                backup.after >= EndSign::Refused && counts && holder == Some(node)
            })
    }

    /// Whether a refused connection to a node may free a place at some time.
    #[must_use]
    pub fn may_await_refusal(&self, node: NodeId) -> bool {
        self.owners.backups().any(|(vm, slot, backup)| {
            let is_home = self.owners.home(EndpointId::any_of((vm, slot))) == Some(node);
            let counts = backup.node == node || backup.node == self.own.node && is_home;
            backup.after >= EndSign::Refused && counts
        })
    }

    /// A node shows a sign of its end. While a connection stands it is none.
    pub(super) fn note_end(&mut self, node: NodeId, sign: EndSign) {
        let Some(peer) = self.peers.get_mut(&node).filter(|it| it.session.is_gone()) else {
            return;
        };
        peer.end.sign = Some(peer.end.sign.map_or(sign, |known| known.min(sign)));
        self.settle_places_of(node);
    }

    /// A connection of a node has ended. It may have been the last one.
    pub(super) fn look_for_end(&mut self, node: NodeId) {
        if self.peers.get(&node).is_some_and(|it| it.end.sign.is_some()) {
            self.settle_places_of(node);
        }
    }

    /// The session with a node has ended.
    pub(super) fn places_at_loss(&mut self, node: NodeId, cause: Failure) {
        self.departures_at_loss(node);
        self.settle_places_of(node);
        if cause == Failure::LinkDown {
            self.look_for_silence(node);
        }
    }

    /// A node whose session has ended shows the sign of silence once it was not heard for the time
    /// of the settings.
    pub(super) fn look_for_silence(&mut self, node: NodeId) {
        let silence_ns = self.own.settings.silence_ns;
        let Some(peer) = self.peers.get_mut(&node) else { return };
        if peer.session.lives() || peer.end.sign.is_some() {
            return;
        }
        let end_ns = peer.session.heard_ns().saturating_add(silence_ns);
        if self.now_ns < end_ns {
            self.timers.insert((end_ns, Timer::Silence(node)));
        } else {
            peer.end.sign = Some(EndSign::Silence);
            self.settle_places_of(node);
        }
    }

    /// A session begins. This node says of which slots that it might have it has none.
    pub(super) fn places_at_begin(&mut self, node: NodeId) {
        if let Some(peer) = self.peers.get_mut(&node) {
            (peer.end.was_met, peer.end.sign) = (true, None);
        }
        self.moves_at_begin(node);
        let own = self.own.node;
        let all = self.owners.backups().filter(|(.., backup)| backup.node == own);
        let all: Vec<_> = all.map(|(vm, slot, _)| (vm, slot)).collect();
        for slot in all {
            // The home has it back once the driver has given it back.
            let gives_back = self.owners.home(EndpointId::any_of(slot)) == Some(node)
                && self.owners.owner(EndpointId::any_of(slot)) == Some(own);
            if !gives_back && !self.lives_here(slot) {
                self.disclaim(node, slot);
            }
        }
        self.settle_places_of(node);
    }

    /// Says to all nodes that no endpoint of this one has the slot.
    pub(super) fn disclaim_to_all(&mut self, slot: (VmId, Slot)) {
        let nodes: Vec<NodeId> = self.peers.keys().copied().collect();
        nodes.into_iter().for_each(|node| self.disclaim(node, slot));
    }

    /// Says that no endpoint of this node has the slot.
    fn disclaim(&mut self, node: NodeId, (vm, slot): (VmId, Slot)) {
        if self.is_reachable(node) && self.shares_vm(node, vm) {
            let endpoint = EndpointId::any_of((vm, slot)).address.0;
            self.push(node, Frame::Died { vm, endpoint }, Vec::new());
        }
    }

    /// A local endpoint lives in a slot whose backup is here: it took the place before this machine
    /// began. Once this machine has taken the place and given it back, the bind is that of a backup
    /// which has come and gone meanwhile.
    pub(super) fn keep_place(&mut self, endpoint: EndpointId) {
        let slot = (endpoint.vm, endpoint.address.slot());
        if self.owners.backup(endpoint).is_some_and(|backup| backup.node == self.own.node)
            && !self.changes.has_changed(slot)
        {
            self.owners.place(slot.0, slot.1, self.own.node);
        }
    }

    /// No local endpoint has the slot, and none takes it any more: [`Action::GiveBack`].
    pub fn gave_back(&mut self, now_ns: u64, vm: VmId, slot: Slot) {
        self.advance(now_ns);
        if !self.lives_here((vm, slot))
            && let Some(home) = self.owners.home(EndpointId::any_of((vm, slot)))
            && self.owners.place(vm, slot, home)
        {
            self.settle_early(home, (vm, slot));
            self.disclaim_to_all((vm, slot));
            // The home may have ended meanwhile.
            self.settle_place((vm, slot));
        }
    }

    /// A local endpoint has died. If it had the place of another one, then its home may have it.
    pub(super) fn place_left(&mut self, endpoint: EndpointId) {
        self.settle_place((endpoint.vm, endpoint.address.slot()));
    }

    /// An endpoint of the node that has the slot has died.
    pub(super) fn place_left_there(&mut self, node: NodeId, slot: (VmId, Slot)) {
        let Some(backup) = self.owners.backup(EndpointId::any_of(slot)) else { return };
        // One of an earlier life may have died: a watch asks for any.
        if backup.node == node && !self.has_announced(node, slot) {
            self.changes.leaves(slot);
        }
        self.settle_place(slot);
    }

    fn has_announced(&self, node: NodeId, slot: (VmId, Slot)) -> bool {
        self.peers.get(&node).is_some_and(|it| it.announced.contains_key(&slot))
    }

    /// Puts a slot with a backup where it is to be, as far as this node knows it.
    pub(super) fn settle_place(&mut self, slot: (VmId, Slot)) {
        let Some(change) = self.next_change(slot) else { return };
        let (vm, number) = slot;
        match change {
            // At once, or a backup would take the place beside the home.
            Change::Back => {
                self.changes.goes_back(slot);
                self.actions.push_back(Action::GiveBack { vm, slot: number });
            }
            Change::To(node) => {
                if let Err(next_ns) = self.changes.begin(slot, self.now_ns) {
                    self.timers.insert((next_ns, Timer::Place(slot)));
                    return;
                }
                self.changes.stays(slot);
                self.owners.place(vm, number, node);
                let is_backup = self.owners.home(EndpointId::any_of(slot)) != Some(self.own.node);
                self.actions.push_back(match node == self.own.node && is_backup {
                    true => Action::PlaceFree { vm, slot: number },
                    false => Action::Placed { vm, slot: number, node },
                });
                self.settle_early(node, slot);
            }
        }
    }

    fn next_change(&self, slot: (VmId, Slot)) -> Option<Change> {
        let backup = self.owners.backup(EndpointId::any_of(slot))?;
        let (home, holder) = (
            self.owners.home(EndpointId::any_of(slot))?,
            self.owners.owner(EndpointId::any_of(slot))?,
        );
        let own = self.own.node;
        if backup.node == own {
            // A place that a backup had before this life is proven by that backup alone.
            let is_proven = self.peers.get(&home).is_some_and(|peer| peer.end.was_met);
            let has_home = || self.is_reachable(home) && !self.moves.has(slot);
            let is_back = || (has_home() || !is_proven) && !self.lives_here(slot);
            let is_kept = self.own.planted.has(Fault::PlaceKept);
            let is_free = || self.has_moved_here(slot) || self.has_ended(home, backup.after);
            return match holder == own {
                true => (is_back() && !is_kept).then_some(Change::Back),
                false => is_free().then_some(Change::To(own)),
            };
        }
        if holder != home {
            let is_over = self.changes.has_left(slot) || self.has_ended(holder, backup.after);
            // Calls of this node to an endpoint that moves here end first.
            let is_early = home == own && self.moves.has(slot) && !self.has_moved_here(slot);
            return (is_over && !is_early).then_some(Change::To(home));
        }
        // The home itself believes its backup. Others do so unless they talk to the home, and it
        // has the endpoint.
        let home_has = home != own && self.is_reachable(home) && self.has_announced(home, slot);
        let is_deaf = home == own && self.own.planted.has(Fault::ReplacedStays);
        let is_believed = !home_has && !is_deaf && self.has_early(backup.node, slot);
        is_believed.then_some(Change::To(backup.node))
    }
}
