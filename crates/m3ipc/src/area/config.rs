//! The parameters of a new area.

use m3ipc_abi::Address;
use m3ipc_wire::{AreaAudience, AreaParams};

/// The pages of an area. The example is at [`AreaConfig`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// Ordinary pages.
    #[default]
    Small,
    /// Huge pages where the kernel makes them by itself.
    Transparent,
    /// Huge pages of the system's pool (hugetlb). Allocation fails if the pool is empty.
    Huge,
}

/// The parameters of a new area: size limit, audience, pages.
///
/// ```
/// use m3ipc::{Address, AreaConfig, Pages};
///
/// let config = AreaConfig::vm(64 << 20).pages(Pages::Transparent).prefault();
/// let pair = AreaConfig::pair(1 << 20, Address(5)).owner_writes();
/// assert_ne!(pair, AreaConfig::set(1 << 20, &[Address(5), Address(6)]));
/// # let _ = config;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AreaConfig {
    params: AreaParams,
    pages: Pages,
    prefault: bool,
}

impl AreaConfig {
    fn new(limit_bytes: u64, audience: AreaAudience) -> Self {
        let params = AreaParams { limit_bytes, audience, owner_writes: false, huge: false };
        Self { params, pages: Pages::Small, prefault: false }
    }

    /// An area of at most `limit_bytes` bytes for its creator and one other endpoint. The example
    /// is at [`AreaConfig`].
    #[must_use]
    pub fn pair(limit_bytes: u64, other: Address) -> Self {
        Self::new(limit_bytes, AreaAudience::Pair(other.0))
    }

    /// An area of at most `limit_bytes` bytes for its creator and these endpoints. The example is
    /// at [`AreaConfig`].
    #[must_use]
    pub fn set(limit_bytes: u64, others: &[Address]) -> Self {
        Self::new(limit_bytes, AreaAudience::Set(others.iter().map(|other| other.0).collect()))
    }

    /// An area of at most `limit_bytes` bytes for every member of the VM. The example is at
    /// [`AreaConfig`].
    #[must_use]
    pub fn vm(limit_bytes: u64) -> Self {
        Self::new(limit_bytes, AreaAudience::Vm)
    }

    /// Only the creator writes and allocates. The others map the area for reading, and a seal
    /// enforces it. The example is at [`AreaConfig`].
    #[must_use]
    pub fn owner_writes(mut self) -> Self {
        self.params.owner_writes = true;
        self
    }

    /// Chooses the pages. The example is at [`AreaConfig`].
    #[must_use]
    pub fn pages(mut self, pages: Pages) -> Self {
        self.pages = pages;
        self.params.huge = pages == Pages::Huge;
        self
    }

    /// Maps pages when an extent is reserved, not at their first access. The example is at
    /// [`AreaConfig`].
    #[must_use]
    pub fn prefault(mut self) -> Self {
        self.prefault = true;
        self
    }

    pub(crate) fn wants_transparent(&self) -> bool {
        self.pages == Pages::Transparent
    }

    pub(crate) fn wants_prefault(&self) -> bool {
        self.prefault
    }

    /// The parameters for the daemon, with the limit in whole pages.
    pub(crate) fn to_wire(&self) -> AreaParams {
        let page = if self.params.huge { 2 << 20 } else { 4096 };
        let limit_bytes =
            self.params.limit_bytes.checked_next_multiple_of(page).unwrap_or(u64::MAX);
        AreaParams { limit_bytes, ..self.params.clone() }
    }
}
