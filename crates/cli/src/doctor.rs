//! Checks of this machine. A check tries the operation itself wherever that is possible.

mod areas;
mod copies;
pub mod finding;
mod isolation;
mod kernel;
mod limits;
mod node;
mod nodes;
mod seals;

use finding::Group;
use std::path::Path;

/// Runs all checks, with the node of this runtime directory.
pub fn examine(directory: &Path) -> Vec<Group> {
    vec![
        ("kernel", kernel::examine()),
        ("self-test of the seals", seals::examine()),
        ("limits", limits::examine()),
        ("isolation between processes", isolation::examine(directory)),
        ("copies", copies::examine()),
        ("areas", areas::examine()),
        ("node", node::examine(directory)),
        ("other nodes", nodes::examine(directory)),
    ]
}
