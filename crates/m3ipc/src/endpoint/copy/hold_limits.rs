//! How long and how often requesters without trust may hold an endpoint.

/// The time for which all requesters of other users together may hold a party that must leave.
pub(super) const HELD_MAX_NS: u64 = 100_000_000;
/// How often the endpoints of one user may exceed that time.
pub(super) const REVOCATIONS_MAX: u8 = 8;
/// The time after which one revocation is forgiven: an honest requester may be late, too.
const FORGIVEN_AFTER_NS: u64 = 60_000_000_000;
/// The number of users and processes whose revocations are counted. With more of them, none gets
/// another gate.
pub(super) const REVOKED_MAX: usize = 1024;
/// The time that requesters without trust have left in one leave of all gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HoldBudget {
    pub(super) left_ns: u64,
}

impl HoldBudget {
    pub(super) const fn new() -> Self {
        Self { left_ns: HELD_MAX_NS }
    }

    /// Whether a requester that has held the party for `held_ns` may hold it longer.
    pub(super) const fn allows(self, held_ns: u64) -> bool {
        held_ns <= self.left_ns
    }

    /// Takes the time for which a requester held the party.
    pub(super) const fn spend(&mut self, held_ns: u64) {
        self.left_ns = self.left_ns.saturating_sub(held_ns);
    }
}

/// How often a party held this endpoint longer than allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Revocations {
    count: u8,
    at_ns: u64,
}

impl Revocations {
    /// The number of revocations that are not forgiven yet.
    pub(super) fn count_at(self, now_ns: u64) -> u8 {
        let forgiven = now_ns.saturating_sub(self.at_ns) / FORGIVEN_AFTER_NS;
        self.count.saturating_sub(u8::try_from(forgiven).unwrap_or(u8::MAX))
    }

    /// Adds a revocation. Those of one leave of all gates count once.
    pub(super) fn add(&mut self, now_ns: u64) {
        if self.count == 0 || now_ns.saturating_sub(self.at_ns) > HELD_MAX_NS {
            *self = Self { count: self.count_at(now_ns).saturating_add(1), at_ns: now_ns };
        }
    }
}

/// The key under which revocations are counted: endpoints of another user count together.
pub(super) fn revocation_key(uid: u32, pid: i32) -> (u32, i32) {
    if uid == m3ipc_sys::user_id() { (uid, pid) } else { (uid, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_requesters_together_have_one_budget() {
        let mut budget = HoldBudget::new();
        let held_ns: u64 = (0..160)
            .map(|_requester| {
                // Each holds the party as long as it may.
                let held_ns = budget.left_ns;
                assert!(budget.allows(held_ns) && !budget.allows(held_ns + 1));
                budget.spend(held_ns);
                held_ns
            })
            .sum();
        assert_eq!(held_ns, HELD_MAX_NS);
    }

    #[test]
    fn revocations_of_one_moment_count_once_and_are_forgiven() {
        let mut revoked = Revocations::default();
        for _ in 0..160 {
            revoked.add(1_000);
        }
        assert_eq!(revoked.count_at(2_000), 1);
        revoked.add(1_000 + 2 * HELD_MAX_NS);
        assert_eq!(revoked.count_at(3 * HELD_MAX_NS), 2);
        assert_eq!(revoked.count_at(3 * HELD_MAX_NS + 2 * FORGIVEN_AFTER_NS), 0);
    }

    #[test]
    fn endpoints_of_another_user_count_together() {
        let own = m3ipc_sys::user_id();
        assert_eq!(revocation_key(own + 1, 7), revocation_key(own + 1, 8));
        assert_ne!(revocation_key(own, 7), revocation_key(own, 8));
    }
}
