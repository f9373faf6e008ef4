//! The requests of the servers.
//!
//! Each change has a number of its client. The storage remembers the latest number of each client
//! and its answer. So a client may repeat a change after any error: it counts once.

// The fields are what their types say.
#![allow(missing_docs)]

use serde::{Deserialize, Serialize};

/// Bytes of a block, except for the last one of a file.
pub const BLOCK_BYTES: usize = 64 * 1024;
/// The file in which the name server keeps its log.
pub const NAME_LOG: FileId = FileId { client: 0, number: 0 };

/// The number of a change. Numbers of one client rise, and it waits for each answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChangeId {
    /// A random number.
    pub client: u64,
    /// The change, from 1.
    pub number: u64,
}

/// A file: the number of the change that began it.
pub type FileId = ChangeId;

/// A request to the storage driver, or to the cache before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockRequest {
    /// Writes a block. The answer is `Done`.
    Write {
        id: ChangeId,
        file: FileId,
        block: u32,
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// Writes a block behind the last one of the file. The answer is `Done`.
    Append {
        id: ChangeId,
        file: FileId,
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// Removes a file. The answer is `Done`.
    Free { id: ChangeId, file: FileId },
    /// Reads a block. The answer is `Bytes`.
    Read { file: FileId, block: u32 },
    /// Asks for the number of blocks. The answer is `Count`.
    Count { file: FileId },
    /// Asks for the room on the disk. The answer is `Space`.
    Space,
}

/// An answer of the storage driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockAnswer {
    /// The change is on the disk; the block that it wrote.
    Done { block: u32 },
    /// The block, if there is one.
    Bytes(#[serde(with = "serde_bytes")] Option<Vec<u8>>),
    /// The number of blocks.
    Count(u32),
    /// Bytes of the disk, and those that are free.
    Space { all: u64, free: u64 },
    /// A later change of this client has been made: this one is a late copy.
    Late,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The file.
    pub file: FileId,
    /// Its length.
    pub bytes: u64,
}

/// A change of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NameChange {
    /// The name gets a new file, or none.
    Bind(Option<Entry>),
    /// The name gets the file of another name, which then has none.
    Rename { from: String },
    /// The name gets a new file, unless it has one.
    Create(Entry),
    /// As `Rename`, unless the name has a file.
    RenameNew { from: String },
}

/// A request to the name server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NameRequest {
    /// Changes a name. The answer is `Changed`, `Refused` or `Taken`.
    Change { id: ChangeId, name: String, change: NameChange },
    /// Asks for the file of a name. The answer is `Found`.
    Find(String),
    /// Asks for the names from one on. The answer is `Names`.
    List { after: String },
}

/// An answer of the name server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NameAnswer {
    /// The change is on the disk; the file that the name had before.
    Changed { before: Option<Entry> },
    /// There was no file to rename.
    Refused,
    /// The file of the name.
    Found(Option<Entry>),
    /// Some names, in their order.
    Names(Vec<(String, Entry)>),
    /// The name has a file already.
    Taken,
}
