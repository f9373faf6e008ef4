//! Quotas: how much of the daemon one user may have.
//!
//! The daemon serves all users with one thread, one table of descriptors and one address space. A
//! user at its quota is refused, and other users go on. [`TABLE`] is the only list of the quotas:
//! the checks, `m3 doctor` and the threat model show it.
//!
//! | limit | meaning |
//! |---|---|
//! | a number | the same on each node |
//! | a share | a part of a total: of the daemon, of a VM or of an area |
//!
//! A share leaves the rest to others: one user gets a quarter. All users without a privilege
//! together get seven eighths. The last eighth is the reserve of root and of the owner of the total
//! ([`Share`]). Root has no quota. On a node of its own, a user owns all totals of the daemon.
//!
//! A [`Charge`] counts against its user while it lives. So a forgotten release is not possible.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

/// The number of connections of one user.
pub const CONNECTIONS: u64 = 8_192;
/// The number of bound endpoints of one user, in all VMs.
pub const MEMBERS: u32 = 4_096;
/// The number of links that the endpoints of one user requested.
pub const LINKS: u32 = 65_536;
/// The number of names of one endpoint.
pub const NAMES: u32 = 64;
/// The number of open waits of one user.
pub const TICKETS: u64 = 8_192;
/// The number of mappings in the daemon for one user.
pub const MAPPINGS: u64 = 8_192;
/// The number of pairs that connections of one user requested.
pub const PAIRS: u64 = 4_096;
/// Memory that the daemon made for one user, in bytes; most of it is sparse. Links and areas have
/// quotas of their own.
pub const MEMORY_BYTES: u64 = 16 << 30;
/// The part of a total that one user may have: one of so many.
const SHARE_PARTS: u64 = 4;
/// The part of a total that is kept for root and for the owner of the total.
const RESERVE_PARTS: u64 = 8;
/// The least time between two counts of the descriptors that the members of a user have read.
const COUNT_PAUSE_NS: u64 = 100_000_000;

/// A quota: its name, its limit, and the things that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The name, as refusals and `m3 doctor` show it.
    pub name: &'static str,
    /// The limit for one user.
    pub limit: Limit,
    /// The things that count.
    pub counts: &'static str,
}

/// The limit of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The same number on each node.
    Number(u64),
    /// A quarter of this total, with a reserve.
    Share(&'static str),
}

impl Limit {
    /// The limit for people.
    ///
    /// ```
    /// use m3ipc_daemon::quota::Limit;
    /// assert_eq!(Limit::Number(8_192).text(), "8,192");
    /// assert_eq!(Limit::Share("the VMs of the node").text(), "1/4 of the VMs of the node");
    /// ```
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Number(number) => with_commas(*number),
            Self::Share(total) => format!("1/{SHARE_PARTS} of {total}"),
        }
    }
}

/// The number with a comma before each group of three digits.
fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// All quotas.
pub const TABLE: [Row; 19] = [
    row("connections", Limit::Number(CONNECTIONS), "control connections to the daemon"),
    row("members", Limit::Number(MEMBERS as u64), "bound endpoints in all VMs"),
    row("links", Limit::Number(LINKS as u64), "links that endpoints of the user requested"),
    row("names", Limit::Number(NAMES as u64), "names of one endpoint"),
    row("tickets", Limit::Number(TICKETS), "open waits for binds, unbinds and names"),
    row("mappings", Limit::Number(MAPPINGS), "mappings in the daemon: pages, ledgers, pairs"),
    row("pairs", Limit::Number(PAIRS), "pairs that com-sockets of the user requested"),
    row(
        "memory",
        Limit::Number(MEMORY_BYTES),
        "bytes of pages, ledgers and pools, also unused ones",
    ),
    row("VMs", Limit::Share("the VMs of the node"), "VMs that the user owns"),
    row("descriptors", Limit::Share("the daemon's descriptors"), "descriptors held by the daemon"),
    row(
        "descriptors on their way",
        Limit::Share("half of the daemon's descriptors"),
        "descriptors that members of the user have not read",
    ),
    row("slots", Limit::Share("the user slots of a VM"), "endpoints in one VM"),
    row("areas", Limit::Share("the areas of a VM"), "areas that the user created in one VM"),
    row("area addresses", Limit::Share("the addresses of a VM"), "bytes of those areas"),
    row("area members", Limit::Share("the members of an area"), "present and expected members"),
    row(
        "area indexes",
        Limit::Share("the indexes of an area"),
        "members in the whole life of an area",
    ),
    row(
        "area room",
        Limit::Share("the bytes of an area for a VM"),
        "bytes that members of the user asked for",
    ),
    row(
        "block numbers",
        Limit::Share("the block numbers of an area for a VM"),
        "block numbers that members of the user asked for",
    ),
    row("domains", Limit::Share("the domains of a VM"), "domains of com-sockets in one VM"),
];

const fn row(name: &'static str, limit: Limit, counts: &'static str) -> Row {
    Row { name, limit, counts }
}

/// The use of a total that users share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The total.
    pub total: u64,
    /// The part of all users together.
    pub used: u64,
    /// The part of the requesting user.
    pub used_by_user: u64,
}

impl Share {
    /// The part of a total that one user may have.
    ///
    /// ```
    /// use m3ipc_daemon::quota::Share;
    /// assert_eq!((Share::of_user(32), Share::of_user(1)), (8, 1));
    /// ```
    #[must_use]
    pub const fn of_user(total: u64) -> u64 {
        let part = total / SHARE_PARTS;
        if part == 0 { 1 } else { part }
    }

    /// Whether the user may have `wanted` more. The owner of the total and root may have all of it.
    ///
    /// ```
    /// use m3ipc_daemon::quota::Share;
    /// let vms = Share { total: 32, used: 20, used_by_user: 8 };
    /// assert!(!vms.admits(1, false));
    /// assert!(vms.admits(1, true));
    /// ```
    #[must_use]
    pub const fn admits(&self, wanted: u64, is_privileged: bool) -> bool {
        let used = self.used.saturating_add(wanted);
        let used_by_user = self.used_by_user.saturating_add(wanted);
        if is_privileged {
            return used <= self.total;
        }
        used_by_user <= Self::of_user(self.total) && used <= self.total - self.total / RESERVE_PARTS
    }
}

/// A resource that the daemon counts by charges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Control connections.
    Connections,
    /// Open waits.
    Tickets,
    /// Mappings in the daemon.
    Mappings,
    /// Pairs of com-sockets, for the party that connects.
    Pairs,
    /// Bytes of memory that the daemon made.
    Memory,
    /// Descriptors in the daemon.
    Descriptors,
    /// Descriptors in the sockets of members that have not read them.
    OnTheirWay,
}

impl Resource {
    /// All resources.
    pub const ALL: [Self; 7] = [
        Self::Connections,
        Self::Tickets,
        Self::Mappings,
        Self::Pairs,
        Self::Memory,
        Self::Descriptors,
        Self::OnTheirWay,
    ];

    /// The name in [`TABLE`].
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Tickets => "tickets",
            Self::Mappings => "mappings",
            Self::Pairs => "pairs",
            Self::Memory => "memory",
            Self::Descriptors => "descriptors",
            Self::OnTheirWay => "descriptors on their way",
        }
    }
}

/// A user is at its quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "user {uid} is at its quota of {name} ({used} of {limit}), or only the reserve of root is \
     left; close what is no longer needed, and see `m3 doctor`"
)]
pub struct Exceeded {
    /// The user.
    pub uid: u32,
    /// The name of the quota.
    pub name: &'static str,
    /// The use of the user.
    pub used: u64,
    /// Its limit.
    pub limit: u64,
}

/// The use of one user.
#[derive(Debug)]
struct Account {
    uid: u32,
    used: Amounts,
    /// The use of all users without a privilege together; `None` for a user with one.
    all: Option<Rc<Amounts>>,
    /// The time of the last count of descriptors that the user's members have read.
    counted_ns: Cell<u64>,
}

/// An amount of each resource.
#[derive(Debug, Default)]
struct Amounts([Cell<u64>; Resource::ALL.len()]);

impl Amounts {
    fn of(&self, resource: Resource) -> &Cell<u64> {
        &self.0[resource as usize]
    }
}

impl Account {
    fn used(&self, resource: Resource) -> &Cell<u64> {
        self.used.of(resource)
    }

    fn add(&self, resource: Resource, amount: u64) {
        for used in self.all.iter().map(|all| all.of(resource)).chain([self.used(resource)]) {
            used.set(used.get().saturating_add(amount));
        }
    }

    fn take(&self, resource: Resource, amount: u64) {
        for used in self.all.iter().map(|all| all.of(resource)).chain([self.used(resource)]) {
            used.set(used.get().saturating_sub(amount));
        }
    }
}

/// A counted use of a resource. It counts until it is dropped.
#[derive(Debug)]
pub struct Charge {
    account: Rc<Account>,
    resource: Resource,
    amount: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.take(self.resource, self.amount);
    }
}

/// The accounts of all users.
///
/// ```
/// use m3ipc_daemon::quota::{Accounts, Resource};
/// let mut accounts = Accounts::new(None, 1_000);
/// let held = accounts.charge(1_000, &[(Resource::Descriptors, 250)])?;
/// assert!(accounts.charge(1_000, &[(Resource::Descriptors, 1)]).is_err());
/// assert!(accounts.charge(1_001, &[(Resource::Descriptors, 1)]).is_ok());
/// drop(held);
/// assert!(accounts.charge(1_000, &[(Resource::Descriptors, 1)]).is_ok());
/// # Ok::<(), m3ipc_daemon::quota::Exceeded>(())
/// ```
#[derive(Debug)]
pub struct Accounts {
    /// The user of a node of its own.
    owner: Option<u32>,
    /// The number of descriptors that the daemon may have.
    descriptors: u64,
    users: HashMap<u32, Rc<Account>>,
    all: Rc<Amounts>,
}

impl Accounts {
    /// Accounts of a daemon with this number of descriptors. `owner`: the user of a node that
    /// serves one user alone.
    #[must_use]
    pub fn new(owner: Option<u32>, descriptors: u64) -> Self {
        Self { owner, descriptors, users: HashMap::new(), all: Rc::default() }
    }

    /// Whether no share limits this user.
    #[must_use]
    pub fn is_privileged(&self, uid: u32) -> bool {
        uid == 0 || self.owner == Some(uid)
    }

    /// The limit of one user.
    #[must_use]
    pub fn limit(&self, uid: u32, resource: Resource) -> u64 {
        if uid == 0 {
            return u64::MAX;
        }
        match resource {
            Resource::Connections => CONNECTIONS,
            Resource::Tickets => TICKETS,
            Resource::Mappings => MAPPINGS,
            Resource::Pairs => PAIRS,
            Resource::Memory => MEMORY_BYTES,
            Resource::Descriptors | Resource::OnTheirWay if self.is_privileged(uid) => u64::MAX,
            Resource::Descriptors => Share::of_user(self.descriptors),
            Resource::OnTheirWay => Share::of_user(self.descriptors / 2),
        }
    }

    /// The present use of one user.
    #[must_use]
    pub fn used(&self, uid: u32, resource: Resource) -> u64 {
        self.users.get(&uid).map_or(0, |account| account.used(resource).get())
    }

    /// The users with an account.
    pub fn users(&self) -> impl Iterator<Item = u32> {
        self.users.keys().copied()
    }

    /// Charges all of these amounts to a user, or none.
    ///
    /// # Errors
    /// The first quota that the user would exceed.
    pub fn charge(
        &mut self,
        uid: u32,
        amounts: &[(Resource, u64)],
    ) -> Result<Vec<Charge>, Exceeded> {
        let account = self.account(uid);
        let mut charges = Vec::with_capacity(amounts.len());
        for (resource, amount) in amounts {
            let limit = self.limit(uid, *resource);
            let used = account.used(*resource).get();
            let sum = used.saturating_add(*amount);
            if sum > limit || !self.leaves_reserve(&account, *resource, *amount) {
                return Err(Exceeded { uid, name: resource.name(), used, limit });
            }
            account.add(*resource, *amount);
            let account = Rc::clone(&account);
            charges.push(Charge { account, resource: *resource, amount: *amount });
        }
        Ok(charges)
    }

    /// Whether the reserve of a shared total is left after this charge.
    fn leaves_reserve(&self, account: &Account, resource: Resource, amount: u64) -> bool {
        let total = match resource {
            Resource::Descriptors => self.descriptors,
            Resource::OnTheirWay => self.descriptors / 2,
            _ => return true,
        };
        let used = account.all.as_ref().map_or(0, |all| all.of(resource).get());
        account.all.is_none() || used.saturating_add(amount) <= total - total / RESERVE_PARTS
    }

    /// Whether it is time to count the descriptors again that a user's members have read.
    pub fn begin_count(&mut self, uid: u32, now_ns: u64) -> bool {
        let counted_ns = &self.account(uid).counted_ns;
        let is_due = now_ns.saturating_sub(counted_ns.get()) > COUNT_PAUSE_NS;
        if is_due {
            counted_ns.set(now_ns);
        }
        is_due
    }

    fn account(&mut self, uid: u32) -> Rc<Account> {
        if !self.users.contains_key(&uid) {
            // Users without a charge have no account.
            self.users.retain(|_, account| Rc::strong_count(account) > 1);
        }
        let all = (!self.is_privileged(uid)).then(|| Rc::clone(&self.all));
        let new =
            || Rc::new(Account { uid, used: Amounts::default(), all, counted_ns: Cell::default() });
        let account = self.users.entry(uid).or_insert_with(new);
        debug_assert_eq!(account.uid, uid);
        Rc::clone(account)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_leaves_room_for_other_users_and_a_reserve_for_the_owner() {
        let share = |used, used_by_user| Share { total: 32, used, used_by_user };
        assert!(share(7, 7).admits(1, false));
        assert!(!share(8, 8).admits(1, false), "a quarter");
        assert!(share(27, 0).admits(1, false));
        assert!(!share(28, 0).admits(1, false), "the reserve");
        assert!(share(31, 31).admits(1, true));
        assert!(!share(32, 0).admits(1, true));
        assert!(Share { total: 1, used: 0, used_by_user: 0 }.admits(1, false));
        assert!(!share(u64::MAX, u64::MAX).admits(u64::MAX, true));
    }

    #[test]
    fn a_charge_that_fails_takes_nothing() {
        let mut accounts = Accounts::new(None, 1_000);
        let tickets = (Resource::Tickets, TICKETS);
        let refused = accounts.charge(7, &[tickets, (Resource::Descriptors, 251)]).unwrap_err();
        assert_eq!((refused.name, refused.limit), ("descriptors", 250));
        assert!(refused.to_string().contains("quota of descriptors (0 of 250)"));
        assert_eq!(accounts.used(7, Resource::Tickets), 0);
        assert!(accounts.charge(7, &[tickets]).is_ok());
    }

    #[test]
    fn root_has_no_quota_and_the_owner_of_a_node_no_share() {
        let mut accounts = Accounts::new(Some(7), 1_000);
        let all = [(Resource::Descriptors, 1_000), (Resource::OnTheirWay, 1_000)];
        assert!(accounts.charge(7, &all).is_ok());
        assert!(accounts.charge(7, &[(Resource::Tickets, TICKETS + 1)]).is_err());
        assert!(accounts.charge(0, &[(Resource::Tickets, TICKETS + 1)]).is_ok());
    }

    #[test]
    fn users_together_leave_the_reserve() {
        let mut accounts = Accounts::new(None, 800);
        let most = [(Resource::Descriptors, 200)];
        let held: Vec<_> = (1..4).map(|uid| accounts.charge(uid, &most).unwrap()).collect();
        assert!(accounts.charge(4, &most).is_err());
        assert!(accounts.charge(4, &[(Resource::Descriptors, 100)]).is_ok());
        assert!(accounts.charge(0, &most).is_ok());
        drop(held);
        assert!(accounts.charge(4, &most).is_ok());
    }

    #[test]
    fn users_without_charges_have_no_accounts() {
        let mut accounts = Accounts::new(None, 1_000);
        for uid in 1..100 {
            assert!(accounts.charge(uid, &[(Resource::Tickets, 1)]).is_ok());
        }
        assert_eq!(accounts.users().count(), 1);
    }

    #[test]
    fn each_resource_has_a_row_and_each_row_another_name() {
        for resource in Resource::ALL {
            assert!(TABLE.iter().any(|row| row.name == resource.name()), "{resource:?}");
        }
        for (at, row) in TABLE.iter().enumerate() {
            assert!(TABLE[..at].iter().all(|other| other.name != row.name), "{}", row.name);
        }
    }
}
