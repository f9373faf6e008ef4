//! The namespaces in which process numbers, start times and user numbers have their meaning.

use std::os::unix::fs::MetadataExt;

/// The kinds of namespaces, in the order of [`Namespaces`].
const KINDS: [(&str, &str); 3] = [("pid", "PID"), ("time", "time"), ("user", "user")];

/// The PID, time and user namespace of a process, as the kernel numbers them; 0 where /proc does
/// not say.
///
/// # Source
/// namespaces(7)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Namespaces(pub [u64; 3]);

impl Namespaces {
    /// Those of this process.
    #[must_use]
    pub fn own() -> Self {
        let number = |name| std::fs::metadata(format!("/proc/self/ns/{name}"));
        Self(KINDS.map(|(name, _)| number(name).map_or(0, |file| file.ino())))
    }

    /// The kind of a namespace in which two processes differ, for a message.
    #[must_use]
    pub fn difference(self, other: Self) -> Option<&'static str> {
        let pairs = self.0.into_iter().zip(other.0).zip(KINDS);
        let mut differing =
            pairs.filter(|((one, other), _)| *one != 0 && *other != 0 && one != other);
        differing.next().map(|(_, (_, kind))| kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_numbers_differ() {
        let own = Namespaces::own();
        assert_eq!(own.difference(own), None);
        assert_eq!(own.difference(Namespaces::default()), None);
        assert_eq!(Namespaces([1, 2, 3]).difference(Namespaces([0, 2, 4])), Some("user"));
        assert_eq!(Namespaces([1, 2, 3]).difference(Namespaces([2, 2, 4])), Some("PID"));
    }
}
