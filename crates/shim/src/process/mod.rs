//! What this process keeps: its policy, an entry and a note for each descriptor.

pub mod apart;
pub mod descriptors;
pub mod forks;
pub mod library_files;
pub mod limits;
pub mod notes;
pub mod policy;
pub mod vfork;
