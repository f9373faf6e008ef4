//! What all registries can do, and how they fail.

use m3ipc_abi::Slot;
use m3ipc_fabric::{Registry, RegistryError, SlotRange};
use std::io;
use std::path::PathBuf;

/// Where nodes, VMs and owners of slots are kept.
pub trait Backend {
    /// Reads all of it.
    ///
    /// # Errors
    /// [`BackendError`].
    fn read(&mut self) -> Result<Registry, BackendError>;

    /// Begins the life of a node, if this registry knows of lives.
    ///
    /// # Errors
    /// [`BackendError::SecondLife`]: another process is this node now.
    fn begin(&mut self, _node: &str) -> Result<(), BackendError> {
        Ok(())
    }

    /// Keeps the life that was begun. The caller repeats this more often than each
    /// `KEEP`.
    ///
    /// # Errors
    /// [`BackendError::SecondLife`]: the life ended, and another process is this node now.
    fn keep(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    /// Ends the life that was begun, so that a successor need not wait.
    fn end(&mut self) {}

    /// Claims slots of a VM for a node. Returns the ranges that are new.
    ///
    /// # Errors
    /// [`BackendError`]; nothing was claimed, but for [`BackendError::Lost`], after which the next
    /// read tells.
    fn claim(
        &mut self,
        _node: &str,
        _vm: &str,
        _wanted: Wanted,
    ) -> Result<Vec<SlotRange>, BackendError> {
        Err(BackendError::NoClaims)
    }
}

/// Slots to claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// These slots.
    Range(Slot, Slot),
    /// As many as the node lacks to have this many, wherever they are free.
    InAll(u32),
}

/// Why a registry does not answer or refuses.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// A file cannot be read or written.
    #[error("{path}: {cause}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        cause: io::Error,
    },
    /// The registry cannot be reached now.
    #[error("{what} cannot be reached: {cause}; calls go on, new claims wait")]
    Lost {
        /// Its address.
        what: String,
        /// The reason.
        cause: String,
    },
    /// The registry refuses a request.
    #[error("{what} refuses: {cause}")]
    Refused {
        /// Its address.
        what: String,
        /// The reason.
        cause: String,
    },
    /// Its content is no registry.
    #[error("{what}: {cause}")]
    Content {
        /// Its address.
        what: String,
        /// What is wrong.
        cause: RegistryError,
    },
    /// An entry of a directory has no valid value.
    #[error("{what}: the entry {entry} has {wrong}")]
    Entry {
        /// The address of the directory.
        what: String,
        /// The name of the entry.
        entry: String,
        /// The attribute, and what is wrong with it.
        wrong: String,
    },
    /// Another process is this node.
    #[error(
        "another process is the node `{node}`: {holder}; end that one, or give this node another \
         name"
    )]
    SecondLife {
        /// The node.
        node: String,
        /// Who is it.
        holder: String,
    },
    /// This registry is written by people alone.
    #[error("slots can be claimed in etcd alone; add --etcd URL, or edit the registry")]
    NoClaims,
    /// Not as many free slots.
    #[error("VM `{vm}` has {free} free slots below {end}, fewer than {wanted}; raise its procs")]
    Full {
        /// The VM.
        vm: String,
        /// Free slots.
        free: u32,
        /// The number of the first slot that it lacks.
        end: Slot,
        /// How many are wanted.
        wanted: u32,
    },
    /// Others changed the claims again and again.
    #[error("the claims of VM `{0}` change all the time; try again")]
    Contended(String),
    /// An option is wrong.
    #[error("{0}")]
    Option(String),
}

impl BackendError {
    /// Whether a later attempt may succeed without a change of anything here.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }
}
