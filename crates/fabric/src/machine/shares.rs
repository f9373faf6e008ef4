//! How many calls with a peer each local user has open: no user holds all that the peer admits.
//!
//! After its call has begun, a user has at most three times what is still free. So one user gets
//! three quarters, a second one three quarters of the rest, and so on. A user without a call may
//! have the last free place. The rule holds for the calls of a VM, and for those of all VMs.
//!
//! | calls of a VM: 512 | first user | second | third | fourth | fifth | sixth |
//! |---|---|---|---|---|---|---|
//! | each takes what it can, in turn | 384 | 96 | 24 | 6 | 1 | 1 |
//!
//! Calls without a user, such as wakeups, do not count: the other proxy ends them at once.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::VmId;

/// How many times that which is free a user may have.
const TIMES_FREE: u32 = 3;

/// The most calls of all VMs, and of one VM.
pub(super) type Most = (u32, u32);

/// The open calls of one VM, or of all.
#[derive(Debug, Default)]
struct Counts {
    total: u32,
    of_user: BTreeMap<u32, u32>,
}

impl Counts {
    /// Whether a user may begin another call, with these calls of users beside the open ones.
    fn admits(&self, user: u32, beside: &[u32], most: u32) -> bool {
        let count = |calls: usize| u32::try_from(calls).unwrap_or(u32::MAX);
        let all = self.total.saturating_add(count(beside.len()));
        let found = beside.iter().filter(|other| **other == user).count();
        let own = self.of_user.get(&user).map_or(0, |own| *own).saturating_add(count(found));
        // What is free once this call has begun.
        match most.checked_sub(all).and_then(|free| free.checked_sub(1)) {
            Some(free) => own == 0 || own < free.saturating_mul(TIMES_FREE),
            None => false,
        }
    }

    fn add(&mut self, user: u32) {
        self.total += 1;
        *self.of_user.entry(user).or_default() += 1;
    }

    fn remove(&mut self, user: u32) {
        self.total = self.total.saturating_sub(1);
        if let Some(own) = self.of_user.get_mut(&user) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                self.of_user.remove(&user);
            }
        }
    }
}

/// The open calls of local users with one peer.
#[derive(Debug, Default)]
pub(super) struct Shares {
    of_all: Counts,
    of_vm: BTreeMap<VmId, Counts>,
    /// The users that were refused, each in its VM.
    refused: BTreeSet<(VmId, u32)>,
}

impl Shares {
    fn has_room(&self, vm: VmId, user: u32, beside: &[u32], (of_all, of_vm): Most) -> bool {
        let none = Counts::default();
        self.of_vm.get(&vm).unwrap_or(&none).admits(user, beside, of_vm)
            && self.of_all.admits(user, beside, of_all)
    }

    /// Whether a user may begin another call. A refusal is remembered.
    pub fn admits(&mut self, vm: VmId, user: u32, beside: &[u32], most: Most) -> bool {
        let admits = self.has_room(vm, user, beside, most);
        if !admits {
            self.refused.insert((vm, user));
        }
        admits
    }

    /// The VMs of users that were refused and have room now.
    pub fn take_roomy(&mut self, most: Most) -> BTreeSet<VmId> {
        let refused = self.refused.iter().copied();
        let roomy: Vec<(VmId, u32)> =
            refused.filter(|(vm, user)| self.has_room(*vm, *user, &[], most)).collect();
        self.refused.retain(|it| !roomy.contains(it));
        roomy.into_iter().map(|(vm, _)| vm).collect()
    }

    /// A call has begun.
    pub fn add(&mut self, vm: VmId, user: u32) {
        self.of_all.add(user);
        self.of_vm.entry(vm).or_default().add(user);
    }

    /// A call has ended.
    pub fn remove(&mut self, vm: VmId, user: u32) {
        self.of_all.remove(user);
        if let Some(counts) = self.of_vm.get_mut(&vm) {
            counts.remove(user);
        }
    }
}
