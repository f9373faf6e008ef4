//! The state of an endpoint's returns to new daemons: see [`super::returning`].

use super::page_set::{PageSet, map_pages};
use crate::control::{Control, IfAbsent, unexpected};
use crate::error::Fail;
use m3ipc_link::ControlPage;
use m3ipc_sys::{DoorbellReceiver, LivenessLock, ParentOnlyFd};
use m3ipc_wire::{Reply, Request};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

/// The first and the longest pause before a return after one that failed. Each may start a process.
const PAUSE: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Returns that fail in a row before an asynchronous call that needs the daemon fails too.
const FAILURES_MAX: u32 = 3;

/// What a new daemon gave to an endpoint.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) control: Control,
    pub(super) traps: u32,
    pub(super) control_page: ControlPage,
    pub(super) page_set: PageSet,
    pub(super) liveness_lock: Option<LivenessLock>,
    pub(super) doorbell: Option<DoorbellReceiver>,
}

/// The part of a return that waits for the daemon.
#[derive(Debug)]
pub(super) struct Attachment {
    pub(super) directory: PathBuf,
    pub(super) request: Request,
    pub(super) has_doorbell: bool,
}

impl Attachment {
    pub(super) fn attach(&self) -> Result<Attached, Fail> {
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
pub(super) struct Returning {
    attached: Receiver<Result<Attached, Fail>>,
    /// The thread stays until this drops.
    stay: Sender<()>,
    /// Readable as soon as the thread has attached or failed.
    done: OwnedFd,
    _not_for_children: ParentOnlyFd,
}

impl Returning {
    pub(super) fn begin(attachment: Attachment, pause: Duration) -> io::Result<Self> {
        let (done, thread_end) = m3ipc_sys::stream_pair()?;
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

    /// Waits until the thread has attached or failed.
    pub(super) fn wait(&self) -> Result<Attached, Fail> {
        self.attached.recv().unwrap_or_else(|_| Err(unexpected()))
    }

    /// What the thread got; `None` while it is at work.
    pub(super) fn poll(&self) -> Option<Result<Attached, Fail>> {
        match self.attached.try_recv() {
            Ok(attached) => Some(attached),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(unexpected())),
        }
    }
}

impl AsFd for Returning {
    /// Readable as soon as the thread has attached or failed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.done.as_fd()
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
    /// Whether returns block no thread of a runtime.
    pub(super) fn is_asynchronous(&self) -> bool {
        self.is_asynchronous
    }

    /// From now on, returns block no thread of a runtime, or do so again.
    #[cfg(feature = "tokio")]
    pub(super) fn set_asynchronous(&mut self, is_asynchronous: bool) {
        self.is_asynchronous = is_asynchronous;
    }

    /// Notes that a thread of a return is at work.
    pub(super) fn begin(&mut self, returning: Returning) {
        self.under_way = Some(returning);
    }

    /// The return that is under way, to be ended or [begun](Self::begin) again.
    pub(super) fn take_under_way(&mut self) -> Option<Returning> {
        self.under_way.take()
    }

    /// Keeps the thread of a return that was taken over.
    pub(super) fn keep_thread_of(&mut self, returning: Returning) {
        self.stay = Some(returning.stay);
    }

    /// Ends the thread of the last return: its liveness lock belongs to a dead daemon.
    pub(super) fn end_stay(&mut self) {
        self.stay = None;
    }

    /// Whether a thread of a return is at work.
    pub(super) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    pub(super) fn pause(&self) -> Duration {
        match self.failures {
            0 => Duration::ZERO,
            failures => (PAUSE * 2_u32.saturating_pow(failures - 1)).min(PAUSE_MAX),
        }
    }

    pub(super) fn note(&mut self, result: &Result<(), Fail>) {
        match result {
            Ok(()) => (self.failures, self.last_failure) = (0, None),
            Err(fail) => {
                self.failures = self.failures.saturating_add(1);
                self.last_failure = Some(fail.clone());
            }
        }
    }

    /// Fails if the daemon is gone and several returns to a new one have failed.
    pub(super) fn check(&mut self) -> Result<(), Fail> {
        if self.failures < FAILURES_MAX {
            return Ok(());
        }
        self.failures = 0;
        self.last_failure.take().map_or(Ok(()), Err)
    }
}
