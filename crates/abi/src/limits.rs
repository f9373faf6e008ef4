//! Limits: the defaults of the paper's releases, and the bounds of larger values.

/// The distance `G` between two generations, less the number of tasks
/// (`G = NR_TASKS + 35535`).
const GENERATION_BASE: i32 = 35_535;

/// Tasks per VM (slots `-tasks ..= -1`). The number is fixed for the node, because every endpoint
/// number depends on it.
const TASKS: i32 = 35;

/// The distance between two generations of one slot (`G`).
pub const GENERATION_SIZE: i32 = TASKS + GENERATION_BASE;

/// The highest generation. Generation 1 follows it.
pub const GENERATION_MAX: i32 = i32::MAX / GENERATION_SIZE - 1;

/// Slots below this number are system slots. Their generation is always 0.
pub const SYSTEM_SLOTS: i32 = 29;

/// The first slot whose generation rises at each bind.
pub const FIRST_USER_SLOT: i32 = SYSTEM_SLOTS;

/// Longest VM name, in bytes.
pub const VM_NAME_MAX_BYTES: usize = 15;

/// Longest endpoint name, in bytes.
pub const NAME_MAX_BYTES: usize = 63;

/// Longest payload of a long message, in bytes. A link holds it inline.
pub const LONG_MAX_BYTES: usize = 1792;

/// Size of the name of a block, in bytes. A message carries it in place of a long payload.
pub const BLOCK_NAME_BYTES: usize = 32;
/// The most ranges of slots of other nodes, and of free slots, that a node knows.
pub const FOREIGN_RANGES_MAX: usize = 512;

/// Longest payload of a message, in bytes. A payload above [`LONG_MAX_BYTES`] travels as a block.
pub const LARGE_MAX_BYTES: usize = 1 << 30;

/// Longest payload that an endpoint takes unless its owner says otherwise, in bytes.
pub const RECEIVE_LIMIT_BYTES: usize = 16 << 20;

/// Limits of a node, set once by `drvs_init`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLimits {
    /// VMs on the node: 1 to 1,024.
    pub vms: i32,
    /// Nodes of the system: 1 to 1,024. Node ids are `0 .. nodes`.
    pub nodes: i32,
    /// Process slots per VM (`0 .. procs`): 1 to 35,534, less the numbers of ANY, NONE and SELF.
    pub procs: i32,
    /// Task slots per VM (`-tasks ..= -1`): 0 to 35.
    pub tasks: i32,
}

impl NodeLimits {
    /// Defaults of the paper's releases: 32, 32, 221, 35.
    pub const DEFAULT: Self = Self { vms: 32, nodes: 32, procs: 221, tasks: TASKS };
    /// The highest values that `drvs_init` accepts.
    pub const MAX: Self = Self { vms: 1024, nodes: 1024, procs: 35_534, tasks: TASKS };

    /// Whether every limit lies within 1 (tasks: 0) and [`NodeLimits::MAX`].
    #[must_use]
    pub const fn in_bounds(&self) -> bool {
        let max = Self::MAX;
        1 <= self.vms
            && self.vms <= max.vms
            && 1 <= self.nodes
            && self.nodes <= max.nodes
            && 1 <= self.procs
            && self.procs <= max.procs
            && 0 <= self.tasks
            && self.tasks <= max.tasks
    }
}

impl Default for NodeLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Limits of one VM: at most those of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VmLimits {
    /// Process slots (`0 .. procs`).
    pub procs: i32,
    /// Task slots (`-tasks ..= -1`).
    pub tasks: i32,
}

impl VmLimits {
    /// Whether the limits are in range and no larger than the limits of the node.
    #[must_use]
    pub const fn fit(&self, node: &NodeLimits) -> bool {
        1 <= self.procs && self.procs <= node.procs && 0 <= self.tasks && self.tasks <= node.tasks
    }
}
