//! The list of watched endpoints.

use std::collections::HashSet;

/// The endpoints whose deaths are reported.
#[derive(Debug, Default)]
pub(super) struct Watches {
    /// Whether the death of each peer with a link is reported.
    pub(super) all: bool,
    pub(super) peers: HashSet<i32>,
}
