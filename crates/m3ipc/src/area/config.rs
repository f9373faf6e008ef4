//! The parameters of a new area.

use super::state::AreaMapping;
use m3ipc_abi::Address;
use m3ipc_wire::{AreaAudience, AreaParams};

/// The huge pages that areas use, in bytes.
pub(crate) const HUGE_PAGE_BYTES: u64 = 2 << 20;

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
        let params =
            AreaParams { limit_bytes, audience, owner_writes: false, huge: false, low: false };
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

    pub(crate) fn mapping(&self) -> AreaMapping {
        if self.prefault { AreaMapping::Prefaulted } else { AreaMapping::Whole }
    }

    /// The parameters for the daemon, with the limit in whole pages of `page_bytes`. A `low` area
    /// lies in the addresses that sanitizers and valgrind leave free.
    pub(crate) fn to_wire(&self, page_bytes: u64, low: bool) -> AreaParams {
        let page = if self.params.huge { HUGE_PAGE_BYTES } else { page_bytes };
        let limit_bytes = m3ipc_sys::whole_pages(self.params.limit_bytes, page);
        AreaParams { limit_bytes, low, ..self.params.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_has_whole_pages_of_each_size() {
        let limit = |config: &AreaConfig, page| config.to_wire(page, false).limit_bytes;
        let small = AreaConfig::vm(5000);
        assert_eq!([4096, 16384, 65536].map(|page| limit(&small, page)), [8192, 16384, 65536]);
        assert_eq!(limit(&small.pages(Pages::Huge), 16384), HUGE_PAGE_BYTES);
    }
}
