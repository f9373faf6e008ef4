//! Attacks that take time of the daemon, and little else.

use super::{Greedy, refusal};
use m3ipc_link::{CONTROL_PAGE_BYTES, ControlPageView, LIVENESS_LOCK_OFFSET};
use m3ipc_sys::LivenessLock;
use m3ipc_wire::{AreaAudience, AreaParams, AreaReply, AreaRequest, BindKind, Reply, Request};

/// Repetitions of one round of a flood.
const ROUND: usize = 5_000;
/// Connections of a flood of frames, and frames on each before it reads the answers.
const CONNECTIONS: usize = 64;
const FRAMES: usize = 40;
/// The limit of the area that is filled, and the size of its extents.
const AREA_BYTES: u64 = 64 << 20;
const EXTENT_BYTES: u64 = 4096;

impl Greedy<'_> {
    /// Takes all extents of an area of its own, one by one, and asks for more of them.
    pub(super) fn fill_an_area(&mut self) -> String {
        self.bind();
        let raw = self.first();
        let params = AreaParams {
            limit_bytes: AREA_BYTES,
            audience: AreaAudience::Vm,
            owner_writes: false,
            huge: false,
            low: false,
        };
        let created = raw.request(&Request::Area(AreaRequest::Create(params)));
        let Some((Reply::Area(AreaReply::Joined { info, .. }), _fds)) = created else {
            return format!("no area: {created:?}");
        };
        let area = info.area;
        raw.request(&Request::Area(AreaRequest::Mapped(area)));
        let (needed, wanted) = (EXTENT_BYTES, EXTENT_BYTES);
        let more = Request::Area(AreaRequest::Extent { area, needed, wanted, from_back: false });
        let (mut taken, mut refused) = (0, 0);
        while refused < ROUND {
            let Some((reply, _)) = raw.request(&more) else { break };
            match refusal(Some(reply)) {
                Some(_) => refused += 1,
                None => taken += 1,
            }
        }
        format!("{taken} extents, {refused} refused")
    }

    /// Wakes the daemon's watcher of its own liveness lock.
    pub(super) fn wake_the_watcher(&mut self) -> String {
        let mut raw = self.connection();
        let bind = Request::Bind { vm: self.vm, slot: None, kind: BindKind::Process, nonce: 1 };
        let Some((Reply::Bound { .. }, fds)) = raw.request(&bind) else {
            return "no bind".to_owned();
        };
        let Some(control) = fds.first() else { return "no page".to_owned() };
        let lock = LivenessLock::take(control, CONTROL_PAGE_BYTES, LIVENESS_LOCK_OFFSET);
        let view = ControlPageView::map(control).expect("its own page");
        raw.request(&Request::Mapped);
        for _ in 0..100 * ROUND {
            m3ipc_sys::wake(view.liveness_lock());
        }
        drop(lock);
        format!("{} wake-ups", 100 * ROUND)
    }

    /// Asks the daemon for its state over many connections at once.
    pub(super) fn ask_without_end(&mut self) -> String {
        let mut all: Vec<_> = (0..CONNECTIONS).map(|_| self.connection()).collect();
        let question = m3ipc_wire::encode(&Request::NodeInfo);
        let mut answers = 0;
        while answers < 20 * ROUND {
            for raw in &mut all {
                let sent = (0..FRAMES).filter(|_| raw.send_bytes(&question, &[])).count();
                answers += (0..sent).filter(|_| raw.answer().is_some()).count();
            }
        }
        format!("{answers} answers")
    }

    /// Binds an endpoint and leaves.
    pub(super) fn bind_and_leave(&mut self) -> String {
        let mut raw = self.connection();
        let vm = self.vm;
        let bound = (0..ROUND).filter(|_| {
            let Some(pages) = raw.bind(vm, None) else { return false };
            raw.request(&Request::Unbind { vm, address: pages.address }).is_some()
        });
        format!("{} binds", bound.count())
    }

    /// Renews a link with an endpoint of its own that reads nothing.
    pub(super) fn renew_a_silent_member(&mut self) -> String {
        self.bind();
        self.bind();
        let Some(silent) = self.addresses.get(1).copied() else { return "no bind".to_owned() };
        let raw = self.first();
        let page = raw.contact(silent);
        let renew = Request::Renew(silent);
        let renewed = (0..ROUND).filter(|_| raw.request(&renew).is_some()).count();
        drop(page);
        format!("{renewed} renewals")
    }
}
