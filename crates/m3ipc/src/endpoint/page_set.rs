//! The pages that a daemon makes for an endpoint at a bind.

use crate::error::Fail;
use m3ipc_link::{ControlPage, OwnStatus, ReadyBitmap, WaitMode};
use m3ipc_sys::LivenessLock;
use std::os::fd::OwnedFd;

/// The pages that one daemon made for this endpoint. A link names the pages of the daemon that made
/// the link. After a takeover there are several page sets with the same content.
#[derive(Debug)]
pub(super) struct PageSet {
    status: OwnStatus,
    ready_bitmap: ReadyBitmap,
}

/// The page sets of an endpoint, one from each daemon that it had.
#[derive(Debug)]
pub(super) struct PageSets {
    first: PageSet,
    later: Vec<PageSet>,
}

impl PageSets {
    pub(super) fn new(first: PageSet) -> Self {
        Self { first, later: Vec::new() }
    }

    fn all(&self) -> impl Iterator<Item = &PageSet> {
        core::iter::once(&self.first).chain(&self.later)
    }

    /// The number of daemons that the endpoint had.
    #[cfg(feature = "tokio")]
    pub(super) fn count(&self) -> usize {
        1 + self.later.len()
    }

    /// Adds the pages of a new daemon. Peers of new links see the same mode as those of old ones
    /// (the endpoint may be armed, or have announced a sleep), priority and receive limit.
    pub(super) fn add(&mut self, page_set: PageSet) {
        let former = self.later.last().unwrap_or(&self.first);
        page_set.status.set_mode(former.status.mode());
        page_set.status.set_priority(former.status.priority());
        page_set.status.set_thread(former.status.thread());
        page_set.status.set_receive_limit(former.status.receive_limit());
        self.later.push(page_set);
    }

    /// Publishes how the endpoint waits.
    pub(super) fn set_mode(&self, mode: WaitMode) {
        for page_set in self.all() {
            page_set.status.set_mode(mode);
        }
    }

    /// Publishes the CPU of the endpoint.
    #[inline]
    pub(super) fn set_cpu(&mut self, cpu: u32) {
        for page_set in core::iter::once(&mut self.first).chain(&mut self.later) {
            page_set.status.set_cpu(cpu);
        }
    }

    /// Whether a peer has marked a link.
    pub(super) fn any_ready(&self) -> bool {
        self.all().any(|page_set| page_set.ready_bitmap.any())
    }

    /// The same, where no index of a link is `links` or more.
    #[inline(always)]
    pub(super) fn any_ready_of(&self, links: usize) -> bool {
        self.first.ready_bitmap.any_of(links)
            || self.later.iter().any(|page_set| page_set.ready_bitmap.any_of(links))
    }

    pub(super) fn ready_bitmaps(&self) -> impl Iterator<Item = &ReadyBitmap> {
        self.all().map(|page_set| &page_set.ready_bitmap)
    }

    pub(super) fn statuses(&self) -> impl Iterator<Item = &OwnStatus> {
        self.all().map(|page_set| &page_set.status)
    }
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
    let control_page = ControlPage::map(control_page)?;
    // Without the liveness lock the daemon learns of a death later, by the pidfd.
    let liveness_lock = control_page.take_liveness_lock().ok();
    Ok((control_page, page_set, liveness_lock))
}
