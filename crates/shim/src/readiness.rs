//! `poll` and `select`: the kernel reports what is ready. Before a wait sleeps, it polls the rings.
//!
//! Such a wait is not that of an epoll set: the bytes of its sockets need wakeup bytes from then
//! on. Signals are held back during a spin, as in [`crate::epoll::wait`].

use crate::connection::seen_ends::{self, END_EVENTS};
use crate::connection::socket::Socket;
use crate::connection::socket_state::any_joined;
use crate::epoll::wait::WAKEUP_NS;
use crate::epoll::{control, sets};
use crate::kernel::{Errno, ready};
use crate::outcome::{Found, found_now};
use crate::process::descriptors::{self, Entry};
use crate::process::notes::{self, WAS_ARMED};
use crate::process::{forks, limits, policy, vfork};
use crate::signals;
use crate::sockets;
use crate::spin::WaitSpin;
use libc::{fd_set, pollfd, sigset_t};
use m3ipc_sys::monotonic_ns;
use std::os::fd::RawFd;

/// Descriptors that poll and select spin for; calls with more of them sleep at once.
const SPUN_MAX: usize = 64;
const READABLE: i16 = libc::POLLIN | libc::POLLRDNORM;

static SPIN: WaitSpin = WaitSpin::new();

/// The real wait that a call needs.
#[derive(Clone, Copy, Debug)]
pub enum RealWait<'a> {
    /// The program's own call.
    AsGiven,
    /// The call after a spin, with this mask in place of the program's missing one.
    AfterSpin(Option<&'a sigset_t>),
    /// The program's own call without time, on the entries or sets that it gets: a process that
    /// has limited its system calls makes no other. Signals that the program's mask would let in
    /// stay out.
    Now,
}

/// The outcome of a poll or a select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// So many descriptors (poll) or bits (select) are ready; the caller's arguments say which.
    Ready(usize),
    /// The call failed with this error number.
    Failed(Errno),
    /// The real wait returned this, and wrote the program's memory itself.
    Real(i32),
}

fn ready(asked: Result<usize, Errno>) -> Waited {
    asked.map_or_else(Waited::Failed, Waited::Ready)
}

/// The socket of a descriptor whose ring has bytes without a wakeup byte. From this call on its
/// bytes, or those of its epoll set, have wakeup bytes.
fn unsignalled(fd: RawFd) -> Option<Socket> {
    if forks::is_sole(fd) && descriptors::get(fd) == Entry::Unknown {
        // A socket without a connection.
        return None;
    }
    if descriptors::get(fd) == Entry::Unknown {
        let _ = control::waited_on(fd);
    }
    if let Entry::EpollSet(number) = descriptors::get(fd) {
        sets::wait_concerns_set(number, fd);
        return None;
    }
    if descriptors::get(fd) == Entry::Unknown {
        // A descriptor of an earlier program, or of a message.
        sockets::find(fd)?.join_known();
    }
    let socket = sockets::known(fd)?;
    if !notes::has(fd, WAS_ARMED) {
        return None;
    }
    if socket.is_armed() {
        sets::need_wakeups(fd);
    }
    socket.has_bytes().then_some(socket)
}

/// Whether a descriptor has bytes that the kernel does not know, in a process that has limited its
/// system calls: a socket, or an epoll set that watches one.
fn has_left(fd: RawFd) -> bool {
    match descriptors::get(fd) {
        Entry::EpollSet(number) => sets::has_left(number),
        Entry::Socket(id) => Socket::new(fd, id).has_unsignalled_at_once() == Some(true),
        _ => false,
    }
}

/// Whether a wait should spin for these descriptors.
fn may_spin(mut sockets: impl Iterator<Item = Socket>) -> bool {
    // A spin reads files now and then, which a process may have forbidden itself.
    !limits::are_on()
        && policy::spin_ns() > 0
        && any_joined()
        && sockets.next().is_some()
        && SPIN.pays()
}

/// Spins and asks the kernel; `None` where the call must sleep. `target` is what the kernel writes.
fn spin_and_ask<T>(
    target: &mut T,
    has_bytes: impl Fn(&T) -> bool,
    ask: impl Fn(&mut T) -> Result<usize, Errno>,
) -> Option<usize> {
    if !SPIN.spin(policy::spin_ns(), || has_bytes(target)) {
        return None;
    }
    let end_ns = monotonic_ns() + WAKEUP_NS;
    while monotonic_ns() < end_ns {
        if let Ok(found @ 1..) = ask(target) {
            return Some(found);
        }
    }
    None
}

/// Asks the kernel, spins, asks again and then sleeps in `real`.
fn spin_then_wait<T>(
    target: &mut T,
    has_bytes: impl Fn(&T) -> bool,
    ask: impl Fn(&mut T) -> Result<usize, Errno>,
    mut real: impl FnMut(&mut T, RealWait<'_>) -> i32,
) -> Waited {
    match ask(target) {
        Ok(0) => {}
        answer => return ready(answer),
    }
    let mut held = signals::hold();
    if let Some(found) = spin_and_ask(target, has_bytes, ask) {
        return Waited::Ready(found);
    }
    if limits::are_on() {
        // Another thread limited the process meanwhile: the call is the program's own.
        held.release();
        return Waited::Real(real(target, RealWait::AsGiven));
    }
    Waited::Real(real(target, RealWait::AfterSpin(held.mask_before())))
}

fn watched(fds: &[pollfd]) -> impl Iterator<Item = Socket> {
    let reads = |one: &&pollfd| one.events & libc::POLLIN != 0;
    fds.iter().filter(reads).filter_map(|one| sockets::known(one.fd))
}

/// `poll` and `ppoll`. `may_sleep` is false for a timeout of 0; `real` makes the real wait.
pub fn poll(
    fds: &mut [pollfd],
    may_sleep: bool,
    real: impl FnMut(&mut [pollfd], RealWait<'_>) -> i32,
) -> Waited {
    let waited = poll_once(fds, may_sleep, real);
    if any_joined() && fds.iter().any(|one| one.revents & END_EVENTS != 0) {
        seen_ends::note();
    }
    waited
}

fn poll_once(
    fds: &mut [pollfd],
    may_sleep: bool,
    mut real: impl FnMut(&mut [pollfd], RealWait<'_>) -> i32,
) -> Waited {
    if policy::is_on()
        && !vfork::in_child()
        && let Some(waited) = poll_rings(fds, may_sleep)
    {
        return waited;
    }
    if limits::has_left() && has_any_left(fds) {
        return poll_left(fds, may_sleep, real);
    }
    if !may_sleep || fds.len() > SPUN_MAX || !may_spin(watched(fds)) {
        return Waited::Real(real(fds, RealWait::AsGiven));
    }
    let mut target = fds;
    spin_then_wait(
        &mut target,
        |fds| watched(fds).any(|socket| socket.has_arrivals()),
        |fds| ready::poll_all_now(fds),
        |fds, wait| real(fds, wait),
    )
}

/// The answer where rings have bytes that the kernel does not know; `None` where none have.
fn poll_rings(fds: &mut [pollfd], may_sleep: bool) -> Option<Waited> {
    let has_unsignalled =
        |one: &pollfd| one.events & READABLE != 0 && unsignalled(one.fd).is_some();
    // All of them are asked: the bytes of each need wakeup bytes from now on.
    if fds.iter().filter(|one| has_unsignalled(one)).count() == 0 {
        return None;
    }
    let mut found = match ready::poll_all_now(fds) {
        Ok(found) => found,
        Err(errno) => return Some(Waited::Failed(errno)),
    };
    for one in fds.iter_mut().filter(|one| has_unsignalled(one)) {
        found += usize::from(one.revents == 0);
        one.revents |= one.events & READABLE;
    }
    // Others may have read the bytes meanwhile.
    (found > 0 || !may_sleep).then_some(Waited::Ready(found))
}

fn is_left(one: &pollfd) -> bool {
    one.events & READABLE != 0 && has_left(one.fd)
}

fn has_any_left(fds: &[pollfd]) -> bool {
    fds.iter().any(is_left)
}

/// The same in a process that has limited its system calls: the rings that have bytes, and what the
/// program's own call without time reports.
fn poll_left(
    fds: &mut [pollfd],
    may_sleep: bool,
    mut real: impl FnMut(&mut [pollfd], RealWait<'_>) -> i32,
) -> Waited {
    let result = real(fds, RealWait::Now);
    match found_now(result) {
        Found::Some => {}
        Found::None => fds.iter_mut().for_each(|one| one.revents = 0),
        Found::Failed => return Waited::Real(-1),
    }
    for one in fds.iter_mut().filter(|one| is_left(one)) {
        one.revents |= one.events & READABLE;
    }
    match fds.iter().filter(|one| one.revents != 0).count() {
        // Others, or a signal handler, have read the bytes meanwhile.
        0 if result < 0 => Waited::Real(result),
        0 if may_sleep => Waited::Real(real(fds, RealWait::AsGiven)),
        found => Waited::Ready(found),
    }
}

/// The sets of a select: descriptors to read, to write, and with exceptions.
#[derive(Clone, Copy)]
pub struct SelectSets {
    /// One more than the highest descriptor; at most `FD_SETSIZE`.
    pub count: i32,
    /// The sets; `None` where the program gave none.
    pub sets: [Option<fd_set>; 3],
}

impl SelectSets {
    /// Whether a descriptor to read is, or may be, one whose bytes the kernel does not know.
    #[must_use]
    pub fn concern_sockets(&self) -> bool {
        self.reads().any(|fd| {
            matches!(descriptors::get(fd), Entry::Unknown | Entry::Socket(_) | Entry::EpollSet(_))
        })
    }

    /// Descriptors to read.
    fn reads(&self) -> impl Iterator<Item = RawFd> + use<'_> {
        let set = self.sets[0].as_ref();
        (0..self.count).filter(move |fd| set.is_some_and(|set| ready::contains(set, *fd)))
    }

    fn watched(&self) -> impl Iterator<Item = Socket> + use<'_> {
        self.reads().filter_map(sockets::known)
    }

    fn ask(&mut self) -> Result<usize, Errno> {
        ready::select_now(self.count, &mut self.sets)
    }

    /// The answer where rings have bytes that the kernel does not know; `None` where none have.
    fn select_rings(&mut self, may_sleep: bool) -> Option<Waited> {
        let asked = *self;
        // All of them are asked: the bytes of each need wakeup bytes from now on.
        if asked.reads().filter(|fd| unsignalled(*fd).is_some()).count() == 0 {
            return None;
        }
        let mut found = match self.ask() {
            Ok(found) => found,
            Err(errno) => return Some(Waited::Failed(errno)),
        };
        if found == 0 {
            self.sets.iter_mut().flatten().for_each(|set| *set = ready::empty_set());
        }
        let readable = self.sets[0].as_mut()?;
        for fd in asked.reads().filter(|fd| unsignalled(*fd).is_some()) {
            if !ready::contains(readable, fd) {
                ready::insert(readable, fd);
                found += 1;
            }
        }
        // As in `poll_rings`.
        if found == 0 && may_sleep {
            *self = asked;
            return None;
        }
        Some(Waited::Ready(found))
    }
}

impl SelectSets {
    /// The answer of a process that has limited its system calls, as of [`poll_left`].
    fn select_left(
        &mut self,
        may_sleep: bool,
        mut real: impl FnMut(&mut Self, RealWait<'_>) -> i32,
    ) -> Waited {
        let asked = *self;
        let result = real(self, RealWait::Now);
        let mut found = match found_now(result) {
            Found::Some => usize::try_from(result).unwrap_or(0),
            Found::None => {
                self.sets.iter_mut().flatten().for_each(|set| *set = ready::empty_set());
                0
            }
            Found::Failed => return Waited::Real(-1),
        };
        let Some(readable) = self.sets[0].as_mut() else { return Waited::Ready(found) };
        for fd in asked.reads().filter(|fd| has_left(*fd)) {
            if !ready::contains(readable, fd) {
                ready::insert(readable, fd);
                found += 1;
            }
        }
        match found {
            // As in `poll_left`.
            0 if result < 0 => Waited::Real(result),
            0 if may_sleep => Waited::Real(real(self, RealWait::AsGiven)),
            _ => Waited::Ready(found),
        }
    }
}

/// The time that `select` writes back, in nanoseconds; `None` where it writes nothing: a limit of
/// zero stays, and the program may have it in memory that it cannot write.
#[must_use]
pub fn time_left_ns(limit_ns: u64, took_ns: u64, is_over: bool) -> Option<u64> {
    (limit_ns > 0).then_some(if is_over { 0 } else { limit_ns.saturating_sub(took_ns) })
}

/// `select` and `pselect`. `may_sleep` is false for a timeout of 0; `real` makes the real wait on
/// the program's own sets, and one without time on the given ones. On [`Waited::Ready`] the caller
/// copies `sets` to the program.
pub fn select(
    sets: &mut SelectSets,
    may_sleep: bool,
    mut real: impl FnMut(&mut SelectSets, RealWait<'_>) -> i32,
) -> Waited {
    if policy::is_on()
        && !vfork::in_child()
        && let Some(waited) = sets.select_rings(may_sleep)
    {
        return waited;
    }
    if limits::has_left() && sets.reads().any(has_left) {
        return sets.select_left(may_sleep, real);
    }
    if !may_sleep || !may_spin(sets.watched()) {
        return Waited::Real(real(sets, RealWait::AsGiven));
    }
    spin_then_wait(
        sets,
        |sets| sets.watched().any(|socket| socket.has_arrivals()),
        SelectSets::ask,
        real,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_without_sockets_is_the_programs_own_call() {
        let mut fds = [pollfd { fd: -1, events: libc::POLLIN, revents: 0 }];
        let waited = poll(&mut fds, true, |fds, wait| {
            assert!(matches!(wait, RealWait::AsGiven) && fds.len() == 1);
            7
        });
        assert_eq!(waited, Waited::Real(7));
    }

    #[test]
    fn select_writes_the_rest_of_a_limit_and_leaves_a_limit_of_zero_alone() {
        assert_eq!(time_left_ns(0, 5, false), None);
        assert_eq!(time_left_ns(0, 0, true), None);
        assert_eq!(time_left_ns(7, 5, false), Some(2));
        assert_eq!((time_left_ns(7, 5, true), time_left_ns(7, 9, false)), (Some(0), Some(0)));
    }

    #[test]
    fn a_select_of_plain_descriptors_concerns_no_socket() {
        descriptors::prepare();
        let mut set = ready::empty_set();
        for fd in [700, 701] {
            descriptors::replace(fd, Entry::Plain);
            ready::insert(&mut set, fd);
        }
        let sets = SelectSets { count: 702, sets: [Some(set), None, None] };
        assert!(!sets.concern_sockets());
        assert!(!SelectSets { sets: [None; 3], ..sets }.concern_sockets());
        descriptors::replace(701, Entry::Unknown);
        assert!(sets.concern_sockets());
        assert!(!SelectSets { count: 701, ..sets }.concern_sockets(), "beyond the count");
    }

    #[test]
    fn select_reads_its_own_bits() {
        let mut sets = SelectSets { count: 10, sets: [None; 3] };
        assert_eq!(sets.reads().count(), 0);
        let mut set = ready::empty_set();
        ready::insert(&mut set, 3);
        ready::insert(&mut set, 10);
        ready::insert(&mut set, i32::MAX);
        sets.sets[0] = Some(set);
        assert_eq!(sets.reads().collect::<Vec<_>>(), [3]);
        let waited = select(&mut sets, false, |_sets, wait| {
            assert!(matches!(wait, RealWait::AsGiven));
            1
        });
        assert_eq!(waited, Waited::Real(1));
    }
}
