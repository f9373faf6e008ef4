//! Names of nodes.

use std::fmt;

/// The name of a node: 1 to 63 characters `a-z`, `0-9` and `-`, no `-` at either end.
///
/// It is a DNS label, so a certificate can carry it as its only DNS name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeName(String);

/// A text that names no node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no node name: 1 to 63 characters a-z, 0-9 and -, with no - at the begin or the end"
)]
pub struct NotANodeName(String);

impl NodeName {
    /// Checks a name.
    ///
    /// # Errors
    /// It has another form.
    pub fn new(name: &str) -> Result<Self, NotANodeName> {
        let is_allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let is_name = (1..=63).contains(&name.len())
            && name.bytes().all(is_allowed)
            && !name.starts_with('-')
            && !name.ends_with('-');
        if is_name {
            Ok(Self(name.into()))
        } else {
            Err(NotANodeName(name.chars().take(64).collect()))
        }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_dns_label() {
        for name in ["a", "node-1", "7", &"x".repeat(63)] {
            assert!(NodeName::new(name).is_ok(), "{name}");
        }
        for name in ["", "-a", "a-", "A", "a.b", "a b", "\u{e4}", &"x".repeat(64)] {
            assert!(NodeName::new(name).is_err(), "{name}");
        }
    }
}
