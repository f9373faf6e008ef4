//! The return of an endpoint to a new daemon, after the death of the old one.
//!
//! ```text
//! attach:     connect ── reattach ── map the pages ── doorbell       waits for the new daemon
//!    │
//! take over:  events of the old daemon ── new pages ── recall of peers and areas
//! ```
//!
//! Existing links go on without a daemon; only new links need one. An asynchronous endpoint blocks
//! no thread of its runtime: a thread of the return attaches, and then makes the endpoint's
//! descriptor readable. That thread has taken the new liveness lock, so it stays until the endpoint
//! ends or returns again.

use super::Endpoint;
use super::page_set::{PageSet, map_pages};
use crate::area::AreaState;
use crate::control::{Control, IfAbsent, unexpected};
use crate::error::Fail;
use core::sync::atomic::Ordering;
use m3ipc_abi::Code;
use m3ipc_link::ControlPage;
use m3ipc_sys::{DoorbellReceiver, LivenessLock, ParentOnlyFd};
use m3ipc_wire::{AreaRequest, Reply, Request};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

/// Peers in one frame: a number that surely fits.
const RECALL_PEERS: usize = 1024;
/// The first and the longest pause before a return after one that failed. Each may start a process.
const PAUSE: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Returns that fail in a row before an asynchronous call that needs the daemon fails too.
const FAILURES_MAX: u32 = 3;

/// What a new daemon gave to an endpoint.
#[derive(Debug)]
struct Attached {
    control: Control,
    traps: u32,
    control_page: ControlPage,
    page_set: PageSet,
    liveness_lock: Option<LivenessLock>,
    doorbell: Option<DoorbellReceiver>,
}

/// The part of a return that waits for the daemon.
#[derive(Debug)]
struct Attachment {
    directory: PathBuf,
    request: Request,
    has_doorbell: bool,
}

impl Attachment {
    fn attach(&self) -> Result<Attached, Fail> {
        let mut control = Control::connect(&self.directory, IfAbsent::Start)?;
        let (Reply::Bound { traps, .. }, fds) = control.request(&self.request)? else {
            return Err(unexpected());
        };
        let (control_page, page_set, liveness_lock) = map_pages(fds)?;
        control.request(&Request::Mapped)?;
        // An endpoint that gets no doorbell returns all the same.
        let asked = self.has_doorbell.then(|| control.request(&Request::OpenDoorbell).ok());
        let doorbell = asked.flatten().and_then(|(_, fds)| fds.into_iter().next());
        let doorbell = doorbell.map(DoorbellReceiver::from_fd);
        Ok(Attached { control, traps, control_page, page_set, liveness_lock, doorbell })
    }
}

/// A return in a thread of its own.
#[derive(Debug)]
struct Returning {
    attached: Receiver<Result<Attached, Fail>>,
    /// The thread stays until this drops.
    stay: Sender<()>,
    /// Readable as soon as the thread has attached or failed.
    done: UnixStream,
    _not_for_children: ParentOnlyFd,
}

impl Returning {
    fn begin(attachment: Attachment, pause: Duration) -> io::Result<Self> {
        let (done, thread_end) = UnixStream::pair()?;
        let (send, attached) = channel();
        let (stay, until_end) = channel();
        let not_for_children = [ParentOnlyFd::new(&done), ParentOnlyFd::new(&thread_end)];
        let [_not_for_children, thread_end_not_for_children] = not_for_children;
        let work = move || {
            std::thread::sleep(pause);
            let mut attached = attachment.attach();
            let liveness_lock = attached.as_mut().ok().and_then(|it| it.liveness_lock.take());
            if send.send(attached).is_ok() {
                drop(thread_end_not_for_children);
                drop(thread_end);
                // The kernel marks the liveness lock at the end of this thread.
                let _: Result<(), _> = until_end.recv();
            }
            drop(liveness_lock);
        };
        std::thread::Builder::new().name("m3ipc-return".to_owned()).spawn(work)?;
        Ok(Self { attached, stay, done, _not_for_children })
    }
}

/// The returns of an endpoint.
#[derive(Debug, Default)]
pub(super) struct Returns {
    is_asynchronous: bool,
    under_way: Option<Returning>,
    /// Keeps the thread of the last return.
    stay: Option<Sender<()>>,
    failures: u32,
    last_failure: Option<Fail>,
}

impl Returns {
    /// Whether a thread of a return is at work.
    pub(super) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    fn pause(&self) -> Duration {
        match self.failures {
            0 => Duration::ZERO,
            failures => (PAUSE * 2_u32.saturating_pow(failures - 1)).min(PAUSE_MAX),
        }
    }

    fn note(&mut self, result: &Result<(), Fail>) {
        match result {
            Ok(()) => (self.failures, self.last_failure) = (0, None),
            Err(fail) => {
                self.failures = self.failures.saturating_add(1);
                self.last_failure = Some(fail.clone());
            }
        }
    }
}

impl Endpoint {
    /// From now on, returns to a new daemon block no thread of a runtime, or do so again.
    #[cfg(feature = "tokio")]
    pub(crate) fn set_asynchronous(&mut self, is_asynchronous: bool) {
        self.returns.is_asynchronous = is_asynchronous;
    }

    /// Connects to a new daemon if the old one has died.
    pub(super) fn reattach_if_closed(&mut self) {
        if self.left.is_some() {
            return;
        }
        if let Some(returning) = self.returns.under_way.take() {
            let attached = returning.attached.recv().unwrap_or_else(|_| Err(unexpected()));
            self.end_return(returning, attached);
        }
        if !self.control.is_closed() {
            return;
        }
        self.fast.close();
        let returned = self.attachment().attach().and_then(|attached| self.take_over(attached));
        self.note_return(&returned);
    }

    /// The same for a call that does not wait. In a runtime, begins the return or takes it over.
    pub(super) fn reattach_soon(&mut self) {
        if !self.returns.is_asynchronous {
            return self.reattach_if_closed();
        }
        if self.left.is_some() {
            return;
        }
        if let Some(returning) = self.returns.under_way.take() {
            match returning.attached.try_recv() {
                Ok(attached) => self.end_return(returning, attached),
                Err(TryRecvError::Empty) => self.returns.under_way = Some(returning),
                Err(TryRecvError::Disconnected) => self.end_return(returning, Err(unexpected())),
            }
        }
        if self.returns.is_under_way() || self.left.is_some() || !self.control.is_closed() {
            return;
        }
        self.fast.close();
        let pause = self.returns.pause();
        let begun = Returning::begin(self.attachment(), pause).and_then(|returning| {
            self.doorbell.as_ref().map_or(Ok(()), |doorbell| doorbell.watch(&returning.done))?;
            Ok(returning)
        });
        match begun {
            Ok(returning) => self.returns.under_way = Some(returning),
            // Without a thread or a descriptor, the return waits in this one.
            Err(_) => self.reattach_if_closed(),
        }
    }

    /// Fails if the daemon is gone and several returns to a new one have failed.
    pub(super) fn check_returns(&mut self) -> Result<(), Fail> {
        if self.returns.failures < FAILURES_MAX {
            return Ok(());
        }
        self.returns.failures = 0;
        self.returns.last_failure.take().map_or(Ok(()), Err)
    }

    fn attachment(&self) -> Attachment {
        Attachment {
            directory: self.control.directory().to_owned(),
            request: Request::Reattach { vm: self.vm, address: self.address.0, tid: self.tid },
            has_doorbell: self.doorbell.is_some(),
        }
    }

    /// Takes over what the thread of a return got.
    fn end_return(&mut self, returning: Returning, attached: Result<Attached, Fail>) {
        if let Some(doorbell) = &self.doorbell {
            doorbell.unwatch(&returning.done);
        }
        self.fast.close();
        let returned = attached.and_then(|attached| self.take_over(attached));
        if returned.is_ok() {
            self.returns.stay = Some(returning.stay);
        }
        self.note_return(&returned);
    }

    fn note_return(&mut self, returned: &Result<(), Fail>) {
        self.returns.note(returned);
        if returned.as_ref().is_err_and(|fail| fail.code == Code::NotBind) {
            self.left = Some(Code::NotBind);
        }
    }

    fn take_over(&mut self, attached: Attached) -> Result<(), Fail> {
        let Attached { mut control, traps, control_page, page_set, liveness_lock, doorbell } =
            attached;
        if let Some((verb, peer, since_ns)) = self.blocked {
            control_page.set_blocked(verb, peer);
            control_page.set_sleep_start(since_ns, m3ipc_sys::thread_id().cast_unsigned());
        }
        self.traps = traps;
        // The new daemon knows of no tracing; the tracer asks again.
        (self.tracing, self.suspended) = (None, None);
        // The events of the former daemon still count, and are received death by death.
        control.inherit(&mut self.control);
        self.control = control;
        self.events_seen = control_page.event_word().load(Ordering::Acquire).wrapping_sub(1);
        (self.control_page, self.liveness_lock) = (control_page, liveness_lock);
        self.returns.stay = None;
        self.page_sets.push(page_set);
        if let (Some(own), Some(doorbell)) = (&mut self.doorbell, doorbell) {
            own.replace(doorbell, &self.control)?;
        }
        self.recall()
    }

    /// Tells a new daemon the peers and the areas of this endpoint. The daemon answers with the
    /// deaths that its predecessor could not report.
    fn recall(&mut self) -> Result<(), Fail> {
        let held = self.peers.indexes().map(|index| self.peers.get(index).address().0);
        let peers: Vec<i32> = held.chain(self.control.unread_contacts()).collect();
        for part in peers.chunks(RECALL_PEERS) {
            self.tell(&Request::Recall(part.to_vec()))?;
        }
        self.recall_areas()
    }

    /// Asks for the events about areas that the former daemon may not have sent. Extents that the
    /// new daemon does not list are gone; an asynchronous endpoint does not wait for the list.
    fn recall_areas(&mut self) -> Result<(), Fail> {
        // Events of the former daemon are no part of the lists.
        self.receive_area_events();
        let all: Vec<Arc<AreaState>> = self.areas.all().map(Arc::clone).collect();
        for area in all {
            let recall = Request::Area(AreaRequest::Recall(area.info.area));
            if self.returns.is_asynchronous {
                self.tell(&recall)?;
                continue;
            }
            area.member().begin_extent_list();
            self.tell(&recall)?;
            self.receive_area_events();
            area.member().end_extent_list();
        }
        Ok(())
    }

    /// Sends a request of a return. An asynchronous endpoint gets the events behind it later.
    fn tell(&mut self, request: &Request) -> Result<(), Fail> {
        if self.returns.is_asynchronous {
            self.control.request_later(request);
            return Ok(());
        }
        self.control.request(request).map(drop)
    }

    /// Ends a return that is under way: its connection closes, which unbinds this endpoint.
    pub(super) fn drop_return(&mut self) -> bool {
        self.returns.under_way.take().is_some()
    }

    /// Unbinds this endpoint at the successor of a killed daemon, which never had its connection.
    pub(super) fn unbind_at_successor(&self, request: Request) {
        let directory = self.control.directory().to_owned();
        let unbind = move || {
            if let Ok(mut next) = Control::connect(&directory, IfAbsent::Revive) {
                let _ = next.request_soon(&request, u64::MAX);
            }
        };
        if self.returns.is_asynchronous {
            // Without a thread, the successor learns of the end of this process.
            let _ = std::thread::Builder::new().name("m3ipc-unbind".to_owned()).spawn(unbind);
        } else {
            unbind();
        }
    }
}
