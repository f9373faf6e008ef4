//! An endpoint and the areas in which it allocates blocks.

use crate::anchor::Anchor;
use core::time::Duration;
use m3ipc::{ANY, Address, Area, AreaConfig, AreaError, BlockLifetime};
use std::sync::Arc;

/// The least limit of an area that an endpoint makes for its blocks, in bytes.
const AREA_LEAST_BYTES: u64 = 256 << 20;
/// Areas with single peers that an endpoint keeps for their next block.
const PAIR_AREAS_MAX: usize = 16;

/// An endpoint and the areas of its blocks.
pub(super) struct Owned {
    pub(super) endpoint: m3ipc::Endpoint,
    /// The newest areas last, each with its peer; `ANY` stands for the whole VM.
    areas: Vec<(Address, Area)>,
    /// Ends last.
    _anchor: Arc<Anchor>,
}

/// Looks for the death of a peer, and the pause between two: the news of its areas comes first.
const DEATH_LOOKS: u32 = 20;
const DEATH_PAUSE: Duration = Duration::from_millis(1);

impl Owned {
    pub(super) fn of(endpoint: m3ipc::Endpoint, anchor: Arc<Anchor>) -> Self {
        Self { endpoint, areas: Vec::new(), _anchor: anchor }
    }

    /// Whether a peer whose block was not acceptable has died.
    pub(super) fn is_gone(&mut self, peer: Address) -> bool {
        for _ in 0..DEATH_LOOKS {
            let _ = self.endpoint.is_bound(); // reads the daemon's events
            if self.endpoint.peer(peer).is_none() {
                return true;
            }
            std::thread::sleep(DEATH_PAUSE);
        }
        false
    }

    pub(super) fn allocate(&mut self, nbytes: u64, to: Address) -> Result<m3ipc::Block, AreaError> {
        let own = self.areas.iter().rev().filter(|(peer, _)| *peer == to);
        for (_, area) in own {
            match self.endpoint.allocate(area, nbytes, BlockLifetime::Short) {
                Err(AreaError::Full(_)) => {}
                other => return other,
            }
        }
        let limit = AREA_LEAST_BYTES.max(nbytes.saturating_mul(2).saturating_add(1 << 20));
        let config = if to == ANY { AreaConfig::vm(limit) } else { AreaConfig::pair(limit, to) };
        let area = self.endpoint.create_area(&config)?;
        let block = self.endpoint.allocate(&area, nbytes, BlockLifetime::Short)?;
        // An area without a handle here ends after its blocks.
        self.areas.retain(|(peer, _)| *peer != to);
        self.areas.push((to, area));
        if self.areas.len() > PAIR_AREAS_MAX {
            self.areas.remove(0);
        }
        Ok(block)
    }
}
