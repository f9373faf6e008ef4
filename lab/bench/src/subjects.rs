//! The registry: all subjects, by suite.

mod area;
mod c_library;
mod channel;
mod copy;
mod ipc;
mod m3ipc;
mod message;
mod messages;
mod node;
mod phases;
mod sock;

use crate::job::SuiteName;
use crate::subject::Subject;

pub use m3ipc::most_clients;
pub use node::{directory as node_directory, end as end_node};
pub use phases::{Costs, OURS, record as phase_record};
pub use sock::left_out as sock_left_out;

/// m3ipc among the mechanisms of messages.
pub const M3IPC: &dyn Subject = &m3ipc::M3ipc;

/// The same by the C library.
pub const C_CALLS: &dyn Subject = &c_library::CCalls;

/// All subjects of a suite, ours first.
pub fn all(suite: SuiteName) -> Vec<&'static dyn Subject> {
    match suite {
        SuiteName::Ipc => [M3IPC, C_CALLS].into_iter().chain(ipc::all()).collect(),
        SuiteName::Copy => copy::all(),
        SuiteName::Area => area::all(),
        SuiteName::Sock => sock::all(),
        SuiteName::Phases => phases::all(),
    }
}

/// The subject of this name, subjects for tests included.
pub fn find(suite: SuiteName, name: &str) -> Option<&'static dyn Subject> {
    let planted = match suite {
        SuiteName::Ipc => ipc::planted().to_vec(),
        SuiteName::Copy => vec![copy::planted()],
        SuiteName::Area | SuiteName::Sock | SuiteName::Phases => vec![],
    };
    all(suite).into_iter().chain(planted).find(|subject| subject.name() == name)
}
