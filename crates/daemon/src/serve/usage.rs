//! The use and the quotas of users, for `m3 doctor`.

use crate::quota::{self, Resource, Share};
use crate::server::Server;
use crate::tables::Credentials;
use crate::token::Token;
use m3ipc_wire::{QuotaUse, Reply, UserUse};
use std::collections::BTreeSet;

/// The number of users in one frame.
const FRAME_USERS: usize = 32;

impl Server {
    pub(super) fn usage(&mut self, token: Token, cred: &Credentials, from: u32) {
        let sees_all = cred.is_daemons(m3ipc_sys::user_id()) || cred.owns_all();
        let mut users: BTreeSet<u32> = self.accounts.users().chain(self.node.users()).collect();
        users.retain(|uid| *uid >= from && (sees_all || *uid == cred.uid));
        let next = users.iter().nth(FRAME_USERS).copied();
        for uid in users.iter().take(FRAME_USERS) {
            self.count_read_descriptors(*uid);
        }
        let users = users.into_iter().take(FRAME_USERS).map(|uid| self.use_of(uid)).collect();
        self.reply(token, Reply::Usage { users, next }, Vec::new());
    }

    fn use_of(&self, uid: u32) -> UserUse {
        let [vms, endpoints, links] = self.node.use_of(uid);
        let number = |limit: u32| (uid != 0).then_some(u64::from(limit));
        let vms_of_node = u64::from(self.node.limits().vms.unsigned_abs());
        let is_privileged = self.accounts.is_privileged(uid);
        let share = |total: u64| (!is_privileged).then(|| Share::of_user(total));
        let mut uses = vec![
            ("VMs", vms, share(vms_of_node)),
            ("members", endpoints, number(quota::MEMBERS)),
            ("links", links, number(quota::LINKS)),
        ];
        for resource in Resource::ALL {
            let limit = self.accounts.limit(uid, resource);
            let used = self.accounts.used(uid, resource);
            uses.push((resource.name(), used, (limit != u64::MAX).then_some(limit)));
        }
        let of_others = self.node.vms().filter(|vm| vm.spec().owner_uid != uid);
        let domains = of_others.map(|vm| self.domain_share(vm.id(), uid));
        let domains =
            domains.max_by_key(|share| share.used_by_user).map(|share| ("domains", share));
        for (name, share) in self.node.highest_shares(uid).into_iter().chain(domains) {
            uses.push((name, share.used_by_user, self.limit_of_share(uid, share)));
        }
        let quotas = uses.into_iter().filter(|(_, used, _)| *used > 0);
        let quotas = quotas
            .map(|(name, used, limit)| QuotaUse { name: name.to_owned(), used, limit })
            .collect();
        UserUse { uid, quotas }
    }

    fn limit_of_share(&self, uid: u32, share: Share) -> Option<u64> {
        (!self.accounts.is_privileged(uid)).then(|| Share::of_user(share.total))
    }
}
