//! Services as their file describes them.

use crate::policy::Policy;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// When a service counts as ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadyBy {
    /// An endpoint of its process has the name of the service.
    #[default]
    Name,
    /// Its process has an endpoint in the VM.
    Bind,
    /// Its process has started.
    Start,
}

/// What a service gets when a service that it needs was restarted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenNeedsRestart {
    /// A notification from the supervisor.
    #[default]
    Inform,
    /// A restart.
    Restart,
    /// Nothing.
    Ignore,
}

/// What starts as the process of a service. A change needs a new process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// The working directory.
    pub directory: PathBuf,
    /// Variables beside those of the supervisor.
    pub environment: BTreeMap<String, String>,
    /// The slot in which the process is bound before it starts.
    pub slot: Option<i32>,
    /// The name that it binds.
    pub name: String,
    /// When it is ready.
    pub ready: ReadyBy,
}

/// A service as its file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Its process.
    pub program: Program,
    /// Its restarts and limits.
    pub policy: Policy,
    /// The services that must be ready before it starts, and that stop after it.
    pub needs: Vec<String>,
    /// What it gets when one of them was restarted.
    pub when_needs_restart: WhenNeedsRestart,
}

/// The content of a file of services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The VM of all services.
    pub vm: String,
    /// The permission bits of the VM: those of a new one, and the most of one that runs.
    pub mode: u16,
    /// Whether the VM and all its members end with the supervisor.
    pub vm_ends_with_supervisor: bool,
    /// The slot of the supervisor.
    pub slot: i32,
    /// The name of the supervisor's endpoint.
    pub name: String,
    /// The services by their names.
    pub services: BTreeMap<String, Spec>,
}
