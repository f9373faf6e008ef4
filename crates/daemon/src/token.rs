//! Tokens: the names of connections and of other sources of events.

/// The token of a source of events in the daemon's poll. A token also names its connection. No
/// token is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Token(u64);

impl Token {
    /// The token of this number, as the poll has it.
    pub(crate) const fn of(number: u64) -> Self {
        Self(number)
    }

    /// The number of the token.
    pub(crate) const fn number(self) -> u64 {
        self.0
    }
}
