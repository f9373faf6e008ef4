//! The pages that a daemon makes for an endpoint at a bind.

use crate::error::Fail;
use m3ipc_link::{CONTROL_PAGE_BYTES, ControlPage, LIVENESS_LOCK_OFFSET, OwnStatus, ReadyBitmap};
use m3ipc_sys::LivenessLock;
use std::os::fd::OwnedFd;

/// The pages that one daemon made for this endpoint. A link names the pages of the daemon that made
/// the link. After a takeover there are several page sets with the same content.
#[derive(Debug)]
pub(super) struct PageSet {
    pub(super) status: OwnStatus,
    pub(super) ready_bitmap: ReadyBitmap,
}

/// Maps the pages of a bind: control page, status page, ready bitmap.
pub(super) fn map_pages(
    fds: Vec<OwnedFd>,
) -> Result<(ControlPage, PageSet, Option<LivenessLock>), Fail> {
    let Ok([control_page, status, ready_bitmap]) = <[OwnedFd; 3]>::try_from(fds) else {
        return Err(crate::control::unexpected());
    };
    let page_set =
        PageSet { status: OwnStatus::map(status)?, ready_bitmap: ReadyBitmap::map(ready_bitmap)? };
    // Without the liveness lock the daemon learns of a death later, by the pidfd.
    let liveness_lock =
        LivenessLock::take(&control_page, CONTROL_PAGE_BYTES, LIVENESS_LOCK_OFFSET).ok();
    Ok((ControlPage::map(control_page)?, page_set, liveness_lock))
}
