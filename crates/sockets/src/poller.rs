//! A poller: an event loop over com-sockets and other descriptors.
//!
//! While the loop is awake, bytes come to it without a wakeup record and without a call of the
//! kernel: a sender sets a bit in a [bitmap](m3ipc_link::armed). Before the loop sleeps, it says so
//! in its bitmaps, and looks at the bits once more. Senders then send wakeup records, and the
//! kernel's epoll wakes the loop.
//!
//! | what | how the loop learns of it |
//! |---|---|
//! | bytes in blocks | by a bit, or by a wakeup record while the loop sleeps |
//! | all else: other descriptors, ends, errors, room, bytes in the socket | from the kernel: each 25 us while the loop is busy, and in its sleep |
//!
//! The bitmaps of peers that were active since the last sleep are *awake*, 256 at most. The others
//! cost a wait nothing: their first bytes come with a wakeup record.

mod registry;

use crate::polled::{PollEvent, Registration, StreamRemover};
use crate::stream::Stream;
use core::time::Duration;
use m3ipc_link::SpinStep;
use m3ipc_sys::{Errno, EventFd, ForkGuard, Interest, Mode, Poll, Ready};
use registry::Registry;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::send_ring::current_cpu;

/// The epoll token of [`Poller::notify`].
const NOTIFY: u64 = u64::MAX;
/// A busy loop asks the kernel when this time has passed since it asked last, in ticks: 25 us.
const KERNEL_TICKS: u64 = 60_000;

#[derive(Debug)]
struct Shared {
    poll: Poll,
    notify: EventFd,
    registry: Mutex<Registry>,
    /// Held by the thread that waits.
    turn: Mutex<Vec<Ready>>,
    guard: ForkGuard,
}

impl StreamRemover for Shared {
    fn remove(&self, socket: &OwnedFd, entry: u64) {
        let _ = self.poll.remove(socket);
        self.registry().remove(entry);
    }
}

impl Shared {
    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An event loop's wait for com-sockets and other descriptors.
///
/// Any thread may add and remove; one thread at a time waits. A stream in a poller does not wait in
/// its own calls. Its descriptor alone does not tell of its bytes while the poller is awake. So no
/// other epoll, poll or select may await it; to await the poller with other means, see
/// [`prepare_sleep`](Self::prepare_sleep). After a [`remove`](Self::remove), read the stream until
/// `WouldBlock` once.
///
/// ```no_run
/// // Not run here: it needs a node daemon and clients in other processes.
/// use m3ipc_sockets::{Interest, Listener, Mode, Poller};
/// use std::io::{Read, Write};
///
/// # fn serve(listener: Listener) -> std::io::Result<()> {
/// let poller = Poller::new()?;
/// listener.set_nonblocking(true);
/// poller.add_descriptor(&listener, 0, Interest::Read, Mode::Level)?;
/// let (mut streams, mut events) = (Vec::new(), Vec::new());
/// loop {
///     poller.wait(&mut events, None)?;
///     for event in &events {
///         if event.token == 0 {
///             let (stream, _) = listener.accept()?;
///             poller.add(&stream, 1 + streams.len() as u64, Interest::Read, Mode::Level)?;
///             streams.push(stream);
///         } else {
///             let stream = &mut streams[event.token as usize - 1];
///             let mut bytes = [0; 4096];
///             match stream.read(&mut bytes) {
///                 Ok(length) => stream.write_all(&bytes[..length])?,
///                 // The event was about bytes that were read before.
///                 Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
///                 Err(error) => return Err(error),
///             }
///         }
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Poller {
    shared: Arc<Shared>,
}

impl Poller {
    /// A poller without streams and descriptors.
    ///
    /// # Errors
    /// `MFILE`, `NFILE`, `NOMEM`.
    pub fn new() -> Result<Self, Errno> {
        let (poll, notify) = (Poll::new()?, EventFd::new()?);
        poll.add(&notify, NOTIFY)?;
        let registry = Mutex::new(Registry::new());
        let (turn, guard) = (Mutex::default(), ForkGuard::new()?);
        Ok(Self { shared: Arc::new(Shared { poll, notify, registry, turn, guard }) })
    }

    /// Adds a stream under a token, and makes it non-blocking.
    ///
    /// # Errors
    /// `EXIST` where it is in a poller already; `NOTCONN` in a child by fork; those of
    /// epoll_ctl(2).
    pub fn add(
        &self,
        stream: &Stream,
        token: u64,
        interest: Interest,
        mode: Mode,
    ) -> Result<(), Errno> {
        self.check_process()?;
        stream.check_process()?;
        let connection = &stream.connection;
        let mut registration = connection.registration();
        if registration.as_ref().is_some_and(Registration::is_alive) {
            return Err(Errno::EXIST);
        }
        connection.set_nonblocking(true)?;
        let mut registry = self.shared.registry();
        let entry = registry.add(token, interest, mode, Some(connection));
        if let Err(errno) = self.shared.poll.add_for(stream, entry, interest, mode) {
            registry.remove(entry);
            return Err(errno);
        }
        let poller: Weak<dyn StreamRemover> = Arc::downgrade(&self.shared) as _;
        *registration = Some(Registration { poller, entry });
        connection.polled().ask_kernel();
        connection.polled().arm(registry.place(entry));
        // Bytes from before have no bit, and perhaps no record.
        registry.look_at(entry);
        self.tell_sleeper(&registry, stream)
    }

    /// Changes the token of a stream, and what a wait for it is for.
    ///
    /// # Errors
    /// `NOENT` where it is not in this poller; those of [`add`](Self::add).
    pub fn modify(
        &self,
        stream: &Stream,
        token: u64,
        interest: Interest,
        mode: Mode,
    ) -> Result<(), Errno> {
        self.check_process()?;
        stream.check_process()?;
        let entry = self.entry(stream)?;
        let mut registry = self.shared.registry();
        self.shared.poll.set_interest_and_mode(stream, entry, interest, mode)?;
        registry.change(entry, token, interest, mode);
        registry.look_at(entry);
        self.tell_sleeper(&registry, stream)
    }

    /// Removes a stream. A dropped stream removes itself.
    ///
    /// Other means do not tell of bytes that came before: read it until `WouldBlock`.
    ///
    /// # Errors
    /// `NOENT` where it is not in this poller; `NOTCONN` in a child by fork.
    pub fn remove(&self, stream: &Stream) -> Result<(), Errno> {
        self.check_process()?;
        stream.check_process()?;
        self.entry(stream)?;
        let registration = stream.connection.registration().take();
        registration.iter().for_each(|it| {
            it.end(&stream.connection.socket, stream.connection.polled());
        });
        Ok(())
    }

    /// Adds a descriptor that is no stream of com-sockets: a listener, a timer, a socket.
    ///
    /// # Errors
    /// Those of epoll_ctl(2); `NOTCONN` in a child by fork.
    pub fn add_descriptor(
        &self,
        fd: impl AsFd,
        token: u64,
        interest: Interest,
        mode: Mode,
    ) -> Result<(), Errno> {
        self.check_process()?;
        let mut registry = self.shared.registry();
        let entry = registry.add(token, interest, mode, None);
        let added = self.shared.poll.add_for(&fd, entry, interest, mode);
        match added {
            Ok(()) => registry.name_descriptor(entry, fd.as_fd().as_raw_fd()),
            Err(_) => registry.remove(entry),
        }
        added
    }

    /// Changes the token of a descriptor, and what a wait for it is for.
    ///
    /// # Errors
    /// `NOENT` where it is not in this poller; those of epoll_ctl(2).
    pub fn modify_descriptor(
        &self,
        fd: impl AsFd,
        token: u64,
        interest: Interest,
        mode: Mode,
    ) -> Result<(), Errno> {
        self.check_process()?;
        let mut registry = self.shared.registry();
        let entry = registry.descriptor(fd.as_fd().as_raw_fd()).ok_or(Errno::NOENT)?;
        self.shared.poll.set_interest_and_mode(&fd, entry, interest, mode)?;
        registry.change(entry, token, interest, mode);
        Ok(())
    }

    /// Removes a descriptor. Remove it before it is closed.
    ///
    /// # Errors
    /// `NOENT` where it is not in this poller; those of epoll_ctl(2).
    pub fn remove_descriptor(&self, fd: impl AsFd) -> Result<(), Errno> {
        self.check_process()?;
        let mut registry = self.shared.registry();
        let entry = registry.descriptor(fd.as_fd().as_raw_fd()).ok_or(Errno::NOENT)?;
        registry.remove(entry);
        self.shared.poll.remove(&fd)
    }

    /// Waits until something is ready, the limit has passed, or another thread calls
    /// [`notify`](Self::notify). `None` waits without limit. `events` has one event for each ready
    /// stream or descriptor, and none after the limit or a notification.
    ///
    /// The wait first polls for as long as a sleep would cost, where that pays.
    ///
    /// # Errors
    /// `INTR` after a signal; `NOTCONN` in a child by fork.
    pub fn wait(&self, events: &mut Vec<PollEvent>, limit: Option<Duration>) -> Result<(), Errno> {
        events.clear();
        self.check_process()?;
        let mut ready = self.shared.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let now = limit == Some(Duration::ZERO);
        if self.look(events, &mut ready, now)? || now || self.spin(events, &mut ready)? {
            return Ok(());
        }
        if self.fall_asleep(events) {
            let limit_ns = limit.map(|it| u64::try_from(it.as_nanos()).unwrap_or(u64::MAX));
            self.ask_kernel(events, &mut ready, limit_ns)?;
        }
        Ok(())
    }

    /// Looks for events without waiting, and asks the kernel only where it is time to.
    ///
    /// For programs that poll. Call it again soon, or [`wait`](Self::wait).
    ///
    /// # Errors
    /// `NOTCONN` in a child by fork.
    pub fn poll(&self, events: &mut Vec<PollEvent>) -> Result<(), Errno> {
        events.clear();
        self.check_process()?;
        let mut ready = self.shared.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.look(events, &mut ready, false).map(drop)
    }

    /// Prepares a sleep by other means: `true` where the poller's descriptor may be awaited now (by
    /// poll, epoll, an event loop of another library). It becomes readable when a
    /// [`wait`](Self::wait) would find something. `false` where a wait finds something now.
    ///
    /// # Errors
    /// `NOTCONN` in a child by fork.
    pub fn prepare_sleep(&self) -> Result<bool, Errno> {
        self.check_process()?;
        let _turn = self.shared.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut registry = self.shared.registry();
        registry.fall_asleep();
        Ok(!registry.has_ready())
    }

    /// Ends the present wait of another thread, else the next one.
    ///
    /// # Errors
    /// `NOTCONN` in a child by fork.
    pub fn notify(&self) -> Result<(), Errno> {
        self.check_process()?;
        self.shared.notify.set()
    }

    /// Whether the number of the poller's descriptor still stands for the poller. It does not after
    /// a close(2) by other code, and may then stand for a descriptor of that.
    #[must_use]
    pub fn has_its_descriptor(&self) -> bool {
        // Only the set that has the descriptor of notifications can change what it awaits.
        let Shared { poll, notify, .. } = &*self.shared;
        poll.set_interest(notify, NOTIFY, Interest::Read).is_ok()
    }

    fn check_process(&self) -> Result<(), Errno> {
        if self.shared.guard.is_original() { Ok(()) } else { Err(Errno::NOTCONN) }
    }

    /// Ends the sleep of a thread that does not know of the bytes of a stream.
    fn tell_sleeper(&self, registry: &Registry, stream: &Stream) -> Result<(), Errno> {
        if registry.is_asleep() && stream.connection.polled().has_bytes() {
            self.shared.notify.set()
        } else {
            Ok(())
        }
    }

    fn entry(&self, stream: &Stream) -> Result<u64, Errno> {
        let registration = stream.connection.registration();
        let own = Arc::as_ptr(&self.shared).cast::<()>();
        let here = |it: &&Registration| it.poller.as_ptr().cast::<()>() == own;
        registration.as_ref().filter(here).map(|it| it.entry).ok_or(Errno::NOENT)
    }

    /// Looks at the bits, and asks the kernel where it is time or `ask` is set.
    fn look(
        &self,
        events: &mut Vec<PollEvent>,
        ready: &mut Vec<Ready>,
        ask: bool,
    ) -> Result<bool, Errno> {
        let mut registry = self.shared.registry();
        registry.begin();
        registry.take_marks();
        let found = registry.report(events);
        let due = registry.kernel_is_due(KERNEL_TICKS);
        drop(registry);
        Ok(if due || ask { self.ask_kernel(events, ready, Some(0))? } else { found })
    }

    /// Polls for at most the cost of a sleep; `true` where something came.
    fn spin(&self, events: &mut Vec<PollEvent>, ready: &mut Vec<Ready>) -> Result<bool, Errno> {
        let mut registry = self.shared.registry();
        let Some((latest, mut wait)) = registry.begin_spin() else { return Ok(false) };
        let here = current_cpu();
        latest.publish_cpu(here);
        let found = loop {
            if registry.take_marks() && registry.report(events) {
                break true;
            }
            let due = registry.kernel_is_due(KERNEL_TICKS);
            drop(registry);
            let found = due && self.ask_kernel(events, ready, Some(0))?;
            let over = found || wait.next(latest.peer_is_on(here)) == SpinStep::Sleep;
            registry = self.shared.registry();
            if over {
                break found;
            }
        };
        registry.learn(&wait);
        Ok(found)
    }

    /// Tells the peers that the loop sleeps; `false` where something was there.
    fn fall_asleep(&self, events: &mut Vec<PollEvent>) -> bool {
        let mut registry = self.shared.registry();
        registry.fall_asleep();
        !registry.report(events)
    }

    /// Asks the kernel, and waits there for at most `limit_ns`; `true` where the wait is over.
    fn ask_kernel(
        &self,
        events: &mut Vec<PollEvent>,
        ready: &mut Vec<Ready>,
        limit_ns: Option<u64>,
    ) -> Result<bool, Errno> {
        self.shared.poll.wait(ready, limit_ns)?;
        let mut registry = self.shared.registry();
        registry.kernel_was_asked();
        for it in ready.drain(..) {
            if it.token == NOTIFY {
                self.shared.notify.clear();
                registry.note_notification();
            } else {
                registry.report_ready(&it, events);
            }
        }
        Ok(registry.report(events))
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.poll.as_fd()
    }
}

impl AsRawFd for Poller {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let registry = self.registry.get_mut().unwrap_or_else(PoisonError::into_inner);
        // A child by fork has none of the words that this changes.
        if self.guard.is_original() {
            registry.end();
        }
    }
}
