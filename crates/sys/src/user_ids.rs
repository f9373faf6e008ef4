//! User numbers that name one user.
//!
//! A user namespace shows every user that it does not map as the overflow user (65534). Two files
//! of that owner may belong to two users, so that number names nobody there.

/// The overflow user where the system does not say.
const OVERFLOW_USER: u32 = 65_534;
/// The number of users that the map of the first namespace has.
const USERS: u64 = 0xffff_ffff;

/// The users of this process's user namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserNames {
    /// The number that stands for all unmapped users; `None` where every user is mapped.
    ambiguous: Option<u32>,
}

impl UserNames {
    /// Reads the map of this process's namespace. Without /proc, the map counts as incomplete.
    ///
    /// # Source
    /// user_namespaces(7)
    #[must_use]
    pub fn read() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let map = read(Self::MAP);
        // Where every user is mapped, the number stands for nobody.
        let overflow = if is_complete(&map) { String::new() } else { read(Self::OVERFLOW) };
        Self::of(&map, &overflow)
    }

    /// The file with the map of this process's namespace.
    pub const MAP: &str = "/proc/self/uid_map";
    /// The file with the number of unmapped users.
    pub const OVERFLOW: &str = "/proc/sys/kernel/overflowuid";

    /// The users of a namespace, from the contents of [`MAP`](Self::MAP) and
    /// [`OVERFLOW`](Self::OVERFLOW). Allocates nothing.
    #[must_use]
    pub fn of(map: &str, overflow: &str) -> Self {
        let number = || overflow.trim().parse().unwrap_or(OVERFLOW_USER);
        Self { ambiguous: (!is_complete(map)).then(number) }
    }

    /// Whether this namespace maps every user.
    #[must_use]
    pub fn are_all_known(self) -> bool {
        self.ambiguous.is_none()
    }

    /// Whether this number names exactly one user.
    #[must_use]
    pub fn names_one(self, uid: u32) -> bool {
        self.ambiguous != Some(uid)
    }
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
        let partial = UserNames { ambiguous: Some(OVERFLOW_USER) };
        assert!(!partial.names_one(OVERFLOW_USER) && partial.names_one(0));
        let complete = UserNames { ambiguous: None };
        assert!(complete.names_one(OVERFLOW_USER));
    }
}
