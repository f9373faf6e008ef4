//! An endpoint and the areas in which it allocates blocks.

use crate::anchor::Anchor;
use crate::block::Memory;
use crate::error::{Fault, closed};
use core::time::Duration;
use m3ipc::{ANY, Address, Area, AreaConfig, AreaError, BlockLifetime};

/// The limit of the first area that an endpoint makes for its blocks, in bytes. An area maps
/// addresses for all of it, so the limit doubles with the need.
const AREA_LEAST_BYTES: u64 = 16 << 20;
/// The limit up to which it doubles by itself.
const AREA_DOUBLED_BYTES: u64 = 256 << 20;
/// Areas with single peers that an endpoint keeps for their next block.
const PAIR_AREAS_MAX: usize = 64;

/// An endpoint and the areas of its blocks.
pub(super) struct Owned {
    pub(super) endpoint: m3ipc::Endpoint,
    /// The newest areas last, each with its peer and its limit; `ANY` stands for the whole VM.
    areas: Vec<(Address, Area, u64)>,
    /// Ends last.
    _anchor: Anchor,
}

/// Looks for the death of a peer, and the pause between two: the news of its areas comes first.
const DEATH_LOOKS: u32 = 20;
const DEATH_PAUSE: Duration = Duration::from_millis(1);

impl Owned {
    pub(super) fn of(endpoint: m3ipc::Endpoint, anchor: Anchor) -> Self {
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
        let mut limit = AREA_LEAST_BYTES;
        if let Some((_, area, former)) = self.areas.iter().find(|(peer, ..)| *peer == to) {
            match self.endpoint.allocate(area, nbytes, BlockLifetime::Short) {
                Err(AreaError::Full(_)) => limit = (former * 2).min(AREA_DOUBLED_BYTES),
                other => return other,
            }
        }
        let limit = limit.max(nbytes.saturating_mul(2).saturating_add(1 << 20));
        let config = if to == ANY { AreaConfig::vm(limit) } else { AreaConfig::pair(limit, to) };
        let area = self.endpoint.create_area(&config)?;
        let block = self.endpoint.allocate(&area, nbytes, BlockLifetime::Short)?;
        // An area without a handle here ends after its blocks.
        self.forget_area(to);
        self.areas.push((to, area, limit));
        if self.areas.len() > PAIR_AREAS_MAX {
            self.areas.remove(0);
        }
        Ok(block)
    }

    /// Lets the next block for a peer lie in a new area.
    pub(super) fn forget_area(&mut self, peer: Address) {
        self.areas.retain(|(other, ..)| *other != peer);
    }

    /// The memory of an object as a block that can be given to a peer. After an error it is back.
    pub(super) fn shared(
        &mut self,
        taken: &mut Option<Memory>,
        to: Address,
    ) -> Result<m3ipc::Block, Fault> {
        match taken.take().ok_or_else(|| closed("endpoint"))? {
            Memory::Shared(block) => Ok(block),
            Memory::Local(bytes) => {
                let copied = self.allocate(bytes.len() as u64, to).and_then(|mut block| {
                    block.copy_from(&bytes)?;
                    Ok(block)
                });
                *taken = copied.is_err().then_some(Memory::Local(bytes));
                Ok(copied?)
            }
        }
    }
}
