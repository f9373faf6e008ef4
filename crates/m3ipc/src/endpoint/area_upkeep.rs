//! The upkeep of areas: an endpoint leaves areas that nothing uses, and returns unused extents.

use super::Endpoint;
use crate::area::AreaState;
use m3ipc_wire::{AreaRequest, Request};
use std::sync::Arc;

impl Endpoint {
    /// Leaves the areas that nothing here uses any more, and returns extents that others need.
    #[cold]
    pub(super) fn maintain_areas(&mut self) {
        let wanted = self.areas.begin_maintenance();
        for id in wanted {
            self.return_extents(id);
        }
        self.sweep_areas();
        let me = self.membership.address();
        let unused = |state: &Arc<AreaState>| {
            // The only reference is that of this endpoint: no handle and no block.
            Arc::strong_count(state) == 1 && state.is_unused_by(me)
        };
        let all = self.areas.all().filter(|state| unused(state));
        let ids: Vec<u32> = all.map(|state| state.info.area).collect();
        for id in ids {
            self.leave_area(id);
        }
    }

    /// Looks for own blocks that came back from other members. A block is free after two sweeps:
    /// the daemon's events between them name all members that may claim it.
    pub(super) fn sweep_areas(&mut self) {
        self.receive_area_events();
        for state in self.areas.all() {
            let mut member = state.member();
            member.mark_events_received();
            member.sweep_all();
        }
    }

    /// Returns the extents of an area to the daemon if no block of them is in use.
    fn return_extents(&mut self, id: u32) {
        self.sweep_areas();
        self.sweep_areas();
        if self.session.control().has_open_recall() {
            // The list to come names these extents, also if the daemon frees them behind it.
            return self.areas.note_room_wanted(id);
        }
        let Some(state) = self.areas.get(id).map(Arc::clone) else { return };
        let extents = state.member().surrender_extents();
        for extent in extents {
            // A daemon that took over does not have the memory. A sealed one stays.
            let _ = m3ipc_sys::release_memory(&state.memory, extent.offset, extent.bytes);
            let release = AreaRequest::Release { area: id, offset: extent.offset };
            self.session.control_mut().request_later(&Request::Area(release));
        }
    }
}
