//! User numbers that name one user.
//!
//! A user namespace shows every user that it does not map as the overflow user (65534). Two files
//! of that owner may belong to two users, so that number names nobody there.

use core::sync::atomic::{AtomicU64, Ordering};

/// The overflow user where the system does not say.
const OVERFLOW_USER: u32 = 65_534;
/// The number of users that the map of the first namespace has.
const USERS: u64 = 0xffff_ffff;

/// The users of this process's user namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserNames {
    /// The number that stands for all unmapped users, if there are any.
    overflow: u32,
    /// Whether every user is mapped; `None` where the map is read at each question that needs it.
    are_all_known: Option<bool>,
}

impl UserNames {
    /// Reads the map of this process's namespace. Without /proc, the map counts as incomplete.
    ///
    /// # Source
    /// user_namespaces(7)
    #[must_use]
    pub fn read() -> Self {
        Self { are_all_known: Some(is_own_map_complete()), ..Self::unread() }
    }

    /// The same, without the map. A question about the one number that may stand for unmapped users
    /// reads it then. That number is the same in all namespaces, so it is read once.
    #[must_use]
    pub fn unread() -> Self {
        Self { overflow: overflow_user(), are_all_known: None }
    }

    /// The file with the map of this process's namespace.
    pub const MAP: &str = "/proc/self/uid_map";
    /// The file with the number of unmapped users.
    pub const OVERFLOW: &str = "/proc/sys/kernel/overflowuid";

    /// The users of a namespace, from the contents of [`MAP`](Self::MAP) and
    /// [`OVERFLOW`](Self::OVERFLOW). Allocates nothing.
    #[must_use]
    pub fn of(map: &str, overflow: &str) -> Self {
        let overflow = overflow.trim().parse().unwrap_or(OVERFLOW_USER);
        Self { overflow, are_all_known: Some(is_complete(map)) }
    }

    /// Whether this namespace maps every user.
    #[must_use]
    pub fn are_all_known(self) -> bool {
        self.are_all_known.unwrap_or_else(is_own_map_complete)
    }

    /// Whether this number names exactly one user.
    #[must_use]
    pub fn names_one(self, uid: u32) -> bool {
        uid != self.overflow || self.are_all_known()
    }
}

/// The number of unmapped users. Root of the machine alone can change it.
fn overflow_user() -> u32 {
    /// The number; `u64::MAX` before it is read.
    static NUMBER: AtomicU64 = AtomicU64::new(u64::MAX);
    if let Ok(known) = u32::try_from(NUMBER.load(Ordering::Relaxed)) {
        return known;
    }
    let text = std::fs::read_to_string(UserNames::OVERFLOW);
    let Some(read) = text.ok().and_then(|text| text.trim().parse().ok()) else {
        return OVERFLOW_USER;
    };
    NUMBER.store(u64::from(read), Ordering::Relaxed);
    read
}

/// Whether the map of this process's namespace has all users. Without /proc it has not.
fn is_own_map_complete() -> bool {
    is_complete(&std::fs::read_to_string(UserNames::MAP).unwrap_or_default())
}

/// Whether a map in the form of /proc/PID/uid_map has all users.
fn is_complete(map: &str) -> bool {
    let length = |line: &str| line.split_ascii_whitespace().nth(2)?.parse::<u64>().ok();
    map.lines().filter_map(length).fold(0_u64, u64::saturating_add) >= USERS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_map_of_all_users_is_complete() {
        assert!(is_complete("         0          0 4294967295\n"));
        assert!(!is_complete("0 100000 65536\n") && !is_complete("1000 1000 1\n"));
        assert!(!is_complete("") && !is_complete("x y z"));
        assert!(is_complete("0 0 1\n1 1 4294967294\n"));
    }

    #[test]
    fn the_overflow_user_is_nobody_where_users_are_unmapped() {
        let partial = UserNames::of("0 100000 65536", "");
        assert!(!partial.names_one(OVERFLOW_USER) && partial.names_one(0));
        assert!(!partial.are_all_known());
        let complete = UserNames::of("0 0 4294967295", "65534");
        assert!(complete.names_one(OVERFLOW_USER) && complete.are_all_known());
    }

    #[test]
    fn a_map_that_was_not_read_gives_the_same_answers() {
        let (read, unread) = (UserNames::read(), UserNames::unread());
        assert_eq!(read.are_all_known(), unread.are_all_known());
        for uid in [0, 1, 1000, OVERFLOW_USER, overflow_user(), u32::MAX] {
            assert_eq!(read.names_one(uid), unread.names_one(uid), "{uid}");
        }
    }
}
