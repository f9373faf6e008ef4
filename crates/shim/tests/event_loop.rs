//! Waits of an event loop, whose real waits this test makes: what each sleeps for, and what it
//! reports, where a sender is stopped or hostile, a signal arrives, or the set is closed.
#![allow(unsafe_code, clippy::unwrap_used)]

#[path = "processes/end.rs"]
#[allow(dead_code)]
mod end;

use end::End;
use libc::epoll_event;
use m3ipc_shim::connection::ring_extent::any_large;
use m3ipc_shim::connection::socket::Socket;
use m3ipc_shim::connection::socket_state::{any_joined, any_paired};
use m3ipc_shim::counters::{self, Counter, process_word};
use m3ipc_shim::epoll::control::controlled;
use m3ipc_shim::epoll::sets;
use m3ipc_shim::epoll::wait::{EpollWait, Sleep, Waited, set_of_wait};
use m3ipc_shim::event_list::EventList;
use m3ipc_shim::kernel::process::now_ticks;
use m3ipc_shim::kernel::socket::cookie;
use m3ipc_shim::memory::layout::{half, pair};
use m3ipc_shim::process::{limits, policy};
use m3ipc_shim::{lifecycle, prepare, prepare_tables, signals, sockets};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock};

const IN: u32 = libc::EPOLLIN.cast_unsigned();

/// The directory of the connections, for one test at a time.
fn begin() -> MutexGuard<'static, PathBuf> {
    static HOME: OnceLock<Mutex<PathBuf>> = OnceLock::new();
    let home = HOME.get_or_init(|| {
        let home = std::env::temp_dir().join(format!("m3-event-loop-{}", std::process::id()));
        std::fs::create_dir_all(&home).unwrap();
        // SAFETY: before any thread here looks at the environment.
        unsafe { std::env::set_var("M3_RUNTIME_DIR", &home) };
        prepare_tables();
        let policy =
            policy::store(b"after=0 spin=1000 same=1 message=0 rest=0", "event_loop", 0).unwrap();
        prepare(policy.settings);
        Mutex::new(home)
    });
    home.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// An event loop with its connections: the receiving ends are in the set.
struct EventLoop {
    set: i32,
    from: Vec<End>,
    to: Vec<End>,
}

impl EventLoop {
    fn new(connections: usize) -> Self {
        let this = Self::unjoined(connections);
        // From the first wait on, the set has a poller.
        this.settle();
        for at in 0..connections {
            for _trip in 0..4 {
                this.from[at].send_all(b"warm").unwrap();
                this.take(at, 4);
                this.to[at].send_all(b"warm").unwrap();
                this.from[at].receive_all(&mut [0; 4]).unwrap();
            }
        }
        this.settle();
        this
    }

    /// The same before any call: no connection has a ring.
    fn unjoined(connections: usize) -> Self {
        // SAFETY: no pointers.
        let set = unsafe { libc::epoll_create1(0) };
        lifecycle::opened_epoll(set);
        let mut this = Self { set, from: Vec::new(), to: Vec::new() };
        for at in 0..connections {
            let (from, to) = UnixStream::pair().unwrap();
            from.set_nonblocking(true).unwrap();
            to.set_nonblocking(true).unwrap();
            for end in [&from, &to] {
                lifecycle::opened_connected(end.as_raw_fd());
            }
            let open = |stream: UnixStream| {
                let socket: Option<Socket> = sockets::find(stream.as_raw_fd());
                End { fd: stream.into(), socket }
            };
            let (from, to) = (open(from), open(to));
            let mut event = epoll_event { events: IN, u64: at as u64 };
            // SAFETY: a live event.
            unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, to.fd.as_raw_fd(), &raw mut event) };
            controlled(set, libc::EPOLL_CTL_ADD, to.fd.as_raw_fd(), Some(event));
            this.from.push(from);
            this.to.push(to);
        }
        this
    }

    /// What is there at this moment.
    fn now(&self) -> Vec<u64> {
        self.wait(0, |_list, _sleep, _mask| 0).0
    }

    /// Waits until nothing is left to report.
    fn settle(&self) {
        while !self.now().is_empty() {}
    }

    fn take(&self, at: usize, bytes: usize) {
        self.to[at].receive_all(&mut vec![0; bytes]).unwrap();
    }

    /// One wait; `limit` is in milliseconds, -1 for none.
    fn wait(
        &self,
        limit: i64,
        real: impl FnMut(&mut EventList<'_>, Sleep, Option<&libc::sigset_t>) -> i32,
    ) -> (Vec<u64>, Waited) {
        let mut room = [const { MaybeUninit::<epoll_event>::uninit() }; 64];
        let limit_ns = u64::try_from(limit).ok().map(|ms| ms * 1_000_000);
        let set = set_of_wait(self.set).unwrap();
        let waited = EpollWait::new(set, self.set, EventList::new(&mut room), limit_ns).wait(real);
        let count = if let Waited::Ready(count) = waited { count } else { 0 };
        // SAFETY: the wait wrote so many events.
        let data = room[..count].iter().map(|event| unsafe { event.assume_init() }.u64).collect();
        (data, waited)
    }

    /// The file of a pair, and the half that its watched end receives on.
    fn words(&self, home: &PathBuf, at: usize) -> Words {
        let directory = std::fs::read_dir(home).unwrap().next().unwrap().unwrap().path();
        let own = cookie(self.from[at].fd.as_raw_fd()).unwrap();
        let path = directory.join(format!("{own:016x}"));
        let file = File::options().read(true).write(true).open(path).unwrap();
        let words = Words { file, half: 0 };
        let side = usize::from(words.load(pair::COOKIES[0]) != own);
        Words { half: pair::HALVES[side], ..words }
    }
}

impl Drop for EventLoop {
    fn drop(&mut self) {
        for end in self.from.drain(..).chain(self.to.drain(..)) {
            let fd = end.fd.as_raw_fd();
            let must_end = lifecycle::closing(fd);
            let End { fd: open, .. } = &end;
            assert_eq!(open.as_raw_fd(), fd);
            // The state is freed: the end has no socket any more.
            let mut end = end;
            end.socket = None;
            drop(end);
            if must_end {
                lifecycle::closed(fd);
            }
        }
        if lifecycle::closing(self.set) {
            // SAFETY: no pointers.
            unsafe { libc::close(self.set) };
            lifecycle::closed(self.set);
        }
    }
}

/// The words of a half, as a hostile process reaches them.
struct Words {
    file: File,
    half: usize,
}

impl Words {
    fn load(&self, offset: usize) -> u64 {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, (self.half + offset) as u64).unwrap();
        u64::from_ne_bytes(bytes)
    }

    fn store(&self, offset: usize, value: u64) {
        self.file.write_all_at(&value.to_ne_bytes(), (self.half + offset) as u64).unwrap();
    }
}

/// Whether a real wait is at most a tenth of a second.
fn is_short(sleep: Sleep) -> bool {
    matches!(sleep, Sleep::Milliseconds(1..=100))
}

/// A sender stops in its publish after the loop was found awake, and goes on without a wakeup byte.
fn reports_bytes_of_a_stopped_sender(connections: usize) {
    let home = begin();
    let events = EventLoop::new(connections);
    events.from[0].send_all(b"some bytes").unwrap();
    let words = events.words(&home, 0);
    let even = words.load(half::PUBLISHING);
    assert_eq!(even & 1, 0);
    words.store(half::PUBLISHING, even + 1);
    let mut waits = 0;
    let (data, waited) = events.wait(-1, |_list, sleep, _mask| {
        waits += 1;
        assert!(is_short(sleep), "wait {waits} lasts {sleep:?}, over a mark");
        if waits == 5 {
            words.store(half::PUBLISHING, even);
        }
        0
    });
    assert_eq!((data, waited), (vec![0], Waited::Ready(1)));
    assert_eq!(waits, 5);
    events.take(0, 10);
}

#[test]
fn a_small_loop_reports_bytes_of_a_sender_that_was_stopped() {
    reports_bytes_of_a_stopped_sender(3);
}

/// A process without rings waits as natively; its next connection is polled as the first one was.
#[test]
fn a_loop_without_rings_sleeps_as_given_and_polls_the_next_connection() {
    let home = begin();
    let events = EventLoop::new(1);
    assert!(any_joined());
    drop(events);
    assert!(!any_joined() && any_paired(), "a closed socket is counted no more");
    // A set with a socket that has no ring.
    let events = EventLoop::unjoined(1);
    let mut sleeps = Vec::new();
    let (data, waited) = events.wait(-1, |_list, sleep, mask| {
        assert!(mask.is_none(), "no signal is held back");
        sleeps.push(sleep);
        0
    });
    assert_eq!((data, waited, sleeps), (vec![], Waited::Real(0), vec![Sleep::AsGiven]));
    drop(events);
    drop(home);
    reports_bytes_of_a_stopped_sender(3);
}

#[test]
fn a_loop_reports_bytes_of_a_sender_that_was_stopped() {
    reports_bytes_of_a_stopped_sender(30);
}

/// The bits of a loop, as each of its senders may write them.
fn clear_bits(home: &PathBuf) {
    let directory = std::fs::read_dir(home).unwrap().next().unwrap().unwrap().path();
    let file = directory.join(format!("p{}", std::process::id()));
    let file = File::options().write(true).open(file).unwrap();
    file.write_all_at(&[0; 16 * 4096], 4096).unwrap();
}

/// Writes the bits of one poller.
fn set_bits(home: &PathBuf, poller: u64, bits: &[u8]) {
    let directory = std::fs::read_dir(home).unwrap().next().unwrap().unwrap().path();
    let file = directory.join(format!("p{}", std::process::id()));
    let file = File::options().write(true).open(file).unwrap();
    file.write_all_at(bits, 4096 + 2048 * poller).unwrap();
}

#[test]
fn a_small_loop_reports_bytes_whose_bit_was_cleared_while_their_sender_was_stopped() {
    let home = begin();
    let events = EventLoop::new(3);
    events.from[0].send_all(b"some bytes").unwrap();
    let words = events.words(&home, 0);
    let even = words.load(half::PUBLISHING);
    words.store(half::PUBLISHING, even + 1);
    clear_bits(&home);
    let mut waits = 0;
    let (data, waited) = events.wait(-1, |_list, sleep, _mask| {
        waits += 1;
        assert!(is_short(sleep), "wait {waits} lasts {sleep:?}");
        words.store(half::PUBLISHING, even);
        0
    });
    assert_eq!((data, waited), (vec![0], Waited::Ready(1)));
    events.take(0, 10);
}

/// More than 256 connections whose moments of their marks are false are always marked. The mark of
/// another one gets its place in a list.
#[test]
fn marks_of_many_hostile_senders_displace_no_other_mark() {
    const HOSTILE: usize = 300;
    let home = begin();
    let events = EventLoop::new(HOSTILE + 1);
    let words: Vec<Words> = (1..=HOSTILE).map(|at| events.words(&home, at)).collect();
    for stamp in [0, u64::MAX] {
        for at in 1..=HOSTILE {
            events.from[at].send_all(b"x").unwrap();
        }
        words.iter().for_each(|words| words.store(half::STAMP, stamp));
        events.from[0].send_all(b"some bytes").unwrap();
        let mut lists = 0;
        loop {
            lists += 1;
            assert!(lists < 40, "the mark never comes");
            let data = events.now();
            if data.contains(&0) {
                break;
            }
            // Their programs take nothing, and all send again.
            for at in data.iter().map(|at| usize::try_from(*at).unwrap()) {
                events.take(at, 1);
                events.from[at].send_all(b"x").unwrap();
                words[at - 1].store(half::STAMP, stamp);
            }
        }
        events.take(0, 10);
        (1..=HOSTILE).for_each(|at| events.take(at, 1));
        events.settle();
    }
}

/// More than 256 hostile senders set their bits again and again, and send nothing. Their marks take
/// no place in a list.
#[test]
fn marks_without_bytes_displace_no_other_mark() {
    const HOSTILE: usize = 300;
    let home = begin();
    let events = EventLoop::new(HOSTILE + 1);
    let words: Vec<Words> = (1..=HOSTILE).map(|at| events.words(&home, at)).collect();
    let mut bits = vec![0_u8; 2048];
    for words in &words {
        words.store(half::STAMP, 0);
        let slot = words.load(half::POLLER_SLOT) & 0x3fff;
        bits[usize::try_from(slot / 8).unwrap()] |= 1 << (slot % 8);
    }
    events.from[0].send_all(b"some bytes").unwrap();
    let poller = words[0].load(half::POLLER_SLOT) >> 14 & 0x7f;
    let own = events.words(&home, 0).load(half::POLLER_SLOT) & 0x3fff;
    bits[usize::try_from(own / 8).unwrap()] |= 1 << (own % 8);
    set_bits(&home, poller, &bits);
    let data = events.now();
    assert_eq!(data, [0]);
    events.take(0, 10);
}

/// Senders that seem to publish for ever cost one list a few waits, and another report comes.
#[test]
fn a_mark_is_reported_beside_senders_that_never_end_their_publish() {
    let home = begin();
    let events = EventLoop::new(60);
    for at in 1..60 {
        events.from[at].send_all(b"x").unwrap();
        let words = events.words(&home, at);
        words.store(half::PUBLISHING, words.load(half::PUBLISHING) + 1);
    }
    events.from[0].send_all(b"some bytes").unwrap();
    let data = events.now();
    assert_eq!(data, [0]);
    events.take(0, 10);
}

/// All locks of a set's connections seem to be held for ever.
#[test]
fn the_waits_for_the_locks_of_a_set_end_together() {
    let home = begin();
    let events = EventLoop::new(12);
    let holder = process_word(std::os::unix::process::parent_id(), now_ticks());
    let words: Vec<Words> = (0..12).map(|at| events.words(&home, at)).collect();
    words.iter().for_each(|words| words.store(half::RECEIVE_LOCK, holder));
    let before = counters::read(Counter::LockTimeouts);
    sets::before_fork();
    assert_eq!(counters::read(Counter::LockTimeouts) - before, 1);
    for words in &words {
        assert_eq!(words.load(half::POLLER_SLOT), 0, "later bytes have wakeup bytes");
        words.store(half::RECEIVE_LOCK, 0);
    }
}

fn grow(events: &EventLoop) {
    events.from[0].send_all(&[7; 30_000]).unwrap();
    events.take(0, 30_000);
    events.settle();
    assert!(any_large());
}

extern "C" fn on_signal(_number: i32) {}

/// A large ring cuts the sleep of a set that has no socket of ours. A signal between two parts ends
/// the sleep, also one whose handler another thread installs meanwhile.
#[test]
fn a_signal_between_two_parts_of_a_sleep_interrupts_it() {
    let _home = begin();
    let events = EventLoop::new(1);
    grow(&events);
    let empty = EventLoop::new(0);
    // The starter of this process may have left the signal ignored.
    // SAFETY: no pointers but the default handler.
    signals::change(libc::SIGUSR2, || unsafe { libc::signal(libc::SIGUSR2, libc::SIG_DFL) });
    let mut waits = 0;
    let (_data, waited) = empty.wait(10_000, |_list, sleep, mask| {
        waits += 1;
        let Sleep::Milliseconds(ms) = sleep else { panic!("the sleep is not cut") };
        // SAFETY: a live set of signals, and a handler that does nothing.
        unsafe {
            if waits == 1 {
                let handler = on_signal as extern "C" fn(i32) as libc::sighandler_t;
                signals::change(libc::SIGUSR2, || libc::signal(libc::SIGUSR2, handler));
                // It comes when this part is over.
                libc::raise(libc::SIGUSR2);
                return 0;
            }
            let mut none = epoll_event { events: 0, u64: 0 };
            let mask = mask.map_or(std::ptr::null(), std::ptr::from_ref);
            assert!(ms > 0);
            libc::epoll_pwait(empty.set, &raw mut none, 1, ms.min(100), mask)
        }
    });
    assert_eq!((waits, waited), (2, Waited::Real(-1)));
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINTR));
    // SAFETY: no pointers but the default handler.
    signals::change(libc::SIGUSR2, || unsafe { libc::signal(libc::SIGUSR2, libc::SIG_DFL) });
}

/// Another thread closes the set between two parts, and its number and place get another set.
#[test]
fn a_wait_takes_nothing_of_the_set_that_follows_its_own() {
    let _home = begin();
    let large = EventLoop::new(1);
    grow(&large);
    let events = EventLoop::new(1);
    let old = events.set;
    let mut next = None;
    let mut waits = 0;
    let (data, waited) = events.wait(-1, |_list, _sleep, _mask| {
        waits += 1;
        assert_eq!(waits, 1, "a wait on a foreign set");
        assert!(lifecycle::closing(old));
        // SAFETY: no pointers.
        unsafe { libc::close(old) };
        lifecycle::closed(old);
        let other = EventLoop::new(1);
        assert_eq!(other.set, old);
        other.from[0].send_all(b"foreign").unwrap();
        next = Some(other);
        0
    });
    assert_eq!((data, waited), (vec![], Waited::Failed(libc::EBADF)));
    let next = next.unwrap();
    let (data, waited) = next.wait(-1, |_list, _sleep, _mask| panic!("bytes are there"));
    assert_eq!((data, waited), (vec![0], Waited::Ready(1)));
    next.take(0, 7);
    // The counts of its threads are its own: the next arrival has a mark.
    next.from[0].send_all(b"again").unwrap();
    assert_eq!(next.wait(-1, |_list, _sleep, _mask| panic!("bytes are there")).0, [0]);
    std::mem::forget(events);
}

/// Another thread limits the system calls of the process during a sleep. A part of a sleep has a
/// mask; the program's own call has none.
#[test]
fn a_wait_whose_process_limits_its_calls_makes_the_programs_own_call() {
    let _home = begin();
    let events = EventLoop::new(1);
    grow(&events);
    let mut sleeps = Vec::new();
    let (_data, waited) = events.wait(-1, |_list, sleep, mask| {
        sleeps.push((sleep, mask.is_some()));
        limits::set(true);
        0
    });
    limits::set(false);
    let wanted = vec![(Sleep::Milliseconds(1000), true), (Sleep::AsGiven, false)];
    assert_eq!((sleeps, waited), (wanted, Waited::Real(0)));
}
