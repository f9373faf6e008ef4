//! What a process holds, as the kernel counts it.

/// Descriptors, mappings and address space of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Open descriptors.
    pub descriptors: usize,
    /// Memory mappings.
    pub mappings: usize,
    /// Address space in KiB.
    pub address_space_kib: u64,
    /// Shared memory in use, in KiB.
    pub shared_kib: u64,
}

impl Resources {
    /// The resources of a process.
    ///
    /// # Panics
    /// If there is no such process.
    #[must_use]
    pub fn of(pid: i32) -> Self {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}"));
        let status = read("status").expect("the process lives");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|rest| rest.split_whitespace().next());
            number.and_then(|number| number.parse().ok()).unwrap_or(0)
        };
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("the process lives");
        Self {
            descriptors: descriptors.count(),
            mappings: read("maps").expect("the process lives").lines().count(),
            address_space_kib: field("VmSize:"),
            shared_kib: field("RssShmem:"),
        }
    }
}
