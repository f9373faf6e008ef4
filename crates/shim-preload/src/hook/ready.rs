//! poll and select: the kernel says who is ready; before it puts the caller to sleep, the rings are looked at.
//!
//! While one looks, signals are held back, and come in with the real wait, which takes them as it would have taken
//! them at once: so a handler never runs between the look and the sleep, unseen by the wait.

use crate::look;
use crate::table::{self, Entry};
use crate::watch::{self, Mood, now_ns};
use crate::{errno, next, policy, set_errno};
use core::ffi::{c_int, c_long, c_short};
use libc::{fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};
use m3ipc_shim::engine::{self, Talk};

/// After a look that found bytes their token is a moment away: for so long the kernel is asked again.
pub(super) const TOKEN_NS: u64 = 30_000;

/// Bytes of the kernel's signal sets.
const MASK_BYTES: usize = 8;

/// Holds back signals that have handlers; gives the mask before, or what it is where nothing had to be held.
pub(super) unsafe fn hold() -> Option<sigset_t> {
    let caught = super::signal::caught();
    if caught == 0 {
        return None;
    }
    let mut before: sigset_t = core::mem::zeroed();
    let words = [
        libc::SIG_BLOCK as usize,
        &raw const caught as usize,
        &raw mut before as usize,
        MASK_BYTES,
        0,
        0,
    ];
    let _ = crate::raw(libc::SYS_rt_sigprocmask, words);
    Some(before)
}

/// Where the mask of before is, to sleep with.
pub(super) fn mask_of(before: Option<&sigset_t>) -> *const sigset_t {
    before.map_or(core::ptr::null(), core::ptr::from_ref)
}

/// The mask of before.
pub(super) unsafe fn release(before: Option<&sigset_t>) {
    let Some(before) = before else { return };
    let words =
        [libc::SIG_SETMASK as usize, core::ptr::from_ref(before) as usize, 0, MASK_BYTES, 0, 0];
    let _ = crate::raw(libc::SYS_rt_sigprocmask, words);
}

/// A wait: asks the kernel, looks at rings, asks again, and then sleeps (`real`, with the mask to sleep with).
///
/// `now` asks the kernel without waiting; 0 is nothing.
unsafe fn wait(
    mood: &Mood,
    look: impl Fn() -> bool,
    now: impl Fn() -> Result<usize, c_int>,
    real: impl FnOnce(*const sigset_t) -> c_int,
) -> c_int {
    match now() {
        Ok(0) => {}
        Ok(ready) => return ready as c_int,
        Err(code) => {
            set_errno(code);
            return -1;
        }
    }
    let before = hold();
    if watch::spin(mood, look) {
        let end = now_ns() + TOKEN_NS;
        while now_ns() < end {
            if let Ok(ready) = now()
                && ready > 0
            {
                release(before.as_ref());
                return ready as c_int;
            }
        }
    }
    let result = real(mask_of(before.as_ref()));
    let code = errno();
    release(before.as_ref());
    set_errno(code);
    result
}

/// Whether a wait may not sleep.
pub(super) unsafe fn is_zero(timeout: *const timespec) -> bool {
    !timeout.is_null() && (*timeout).tv_sec == 0 && (*timeout).tv_nsec == 0
}

/// Descriptors that poll and select look at; those with more sleep at once.
const LOOKED_AT: usize = 64;
static MOOD: Mood = Mood::new();

unsafe fn polled(fds: *mut pollfd, count: nfds_t) -> Option<&'static [pollfd]> {
    if policy::spin_ns() == 0
        || !engine::any_pairs()
        || fds.is_null()
        || count == 0
        || count as usize > LOOKED_AT
    {
        return None;
    }
    let fds = core::slice::from_raw_parts(fds.cast_const(), count as usize);
    (fds.iter().any(|one| one.events & libc::POLLIN != 0 && look::known(one.fd).is_some())
        && MOOD.wants())
    .then_some(fds)
}

unsafe fn look_at_polled(fds: &[pollfd]) -> bool {
    fds.iter().any(|one| {
        one.events & libc::POLLIN != 0 && look::known(one.fd).is_some_and(|talk| talk.has_bytes())
    })
}

unsafe fn ask_poll(fds: *mut pollfd, count: nfds_t) -> Result<usize, c_int> {
    let mut zero = timespec { tv_sec: 0, tv_nsec: 0 };
    crate::raw(
        libc::SYS_ppoll,
        [fds as usize, count as usize, &raw mut zero as usize, 0, MASK_BYTES, 0],
    )
}

const IN: c_short = libc::POLLIN | libc::POLLRDNORM;

/// A descriptor is waited for other than by epoll: its bytes, or those of its set, have tokens from now on. Its talk, where its ring
/// has bytes that have none.
unsafe fn without_token(fd: c_int) -> Option<&'static Talk> {
    if let Entry::Unknown = table::get(fd) {
        let _ = watch::waited_on(fd);
    }
    if let Entry::Set(index) = table::get(fd) {
        watch::wait_for_set(index, fd);
        return None;
    }
    watch::waited_for(fd).filter(|talk| talk.has_bytes())
}

/// What a poll gives where rings have bytes that the kernel knows nothing of; `None` where there are none.
unsafe fn poll_rings(fds: *mut pollfd, count: nfds_t) -> Option<c_int> {
    if !policy::on() || fds.is_null() || super::in_vfork() {
        return None;
    }
    let each = || (0..count as usize).map(|at| fds.add(at)).filter(|one| (**one).events & IN != 0);
    // All of them: each has tokens from now on.
    if each().filter(|one| without_token((**one).fd).is_some()).count() == 0 {
        return None;
    }
    let mut ready = match ask_poll(fds, count) {
        Ok(ready) => ready as c_int,
        Err(code) => {
            set_errno(code);
            return Some(-1);
        }
    };
    for one in each().filter(|one| without_token((**one).fd).is_some()) {
        ready += c_int::from((*one).revents == 0);
        (*one).revents |= (*one).events & IN;
    }
    Some(ready)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    if let Some(ready) = poll_rings(fds, count) {
        return ready;
    }
    match polled(fds, count).filter(|_fds| timeout != 0) {
        None => next::poll(fds, count, timeout),
        Some(looked) => {
            let time = timespec {
                tv_sec: i64::from(timeout / 1000),
                tv_nsec: i64::from(timeout % 1000) * 1_000_000,
            };
            let time = if timeout < 0 { core::ptr::null() } else { &raw const time };
            wait(
                &MOOD,
                || look_at_polled(looked),
                || ask_poll(fds, count),
                |before| next::ppoll(fds, count, time, before),
            )
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    poll(fds, count, timeout)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    if let Some(ready) = poll_rings(fds, count) {
        return ready;
    }
    match polled(fds, count).filter(|_fds| !is_zero(timeout)) {
        None => next::ppoll(fds, count, timeout, mask),
        Some(looked) => wait(
            &MOOD,
            || look_at_polled(looked),
            || ask_poll(fds, count),
            |before| next::ppoll(fds, count, timeout, if mask.is_null() { before } else { mask }),
        ),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __poll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: c_int,
    room: usize,
) -> c_int {
    if room / size_of::<pollfd>() < count as usize {
        next::__chk_fail();
    }
    poll(fds, count, timeout)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __ppoll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    room: usize,
) -> c_int {
    if room / size_of::<pollfd>() < count as usize {
        next::__chk_fail();
    }
    ppoll(fds, count, timeout, mask)
}

/// The sets of a select, to be asked for again.
#[derive(Clone, Copy)]
struct Sets {
    count: c_int,
    sets: [*mut fd_set; 3],
}

impl Sets {
    /// Those with sockets of ours to be read, and not too many.
    unsafe fn looked_at(self) -> Option<Self> {
        let fits =
            self.count > 0 && self.count as usize <= libc::FD_SETSIZE && !self.sets[0].is_null();
        (policy::spin_ns() > 0
            && engine::any_pairs()
            && fits
            && self.ours().next().is_some()
            && MOOD.wants())
        .then_some(self)
    }

    unsafe fn ours(self) -> impl Iterator<Item = &'static m3ipc_shim::engine::Talk> {
        (0..self.count).filter(move |fd| libc::FD_ISSET(*fd, self.sets[0])).filter_map(look::known)
    }

    /// What a select gives where rings have bytes that the kernel knows nothing of; `None` where there are none.
    unsafe fn rings(self) -> Option<c_int> {
        let fits =
            self.count > 0 && self.count as usize <= libc::FD_SETSIZE && !self.sets[0].is_null();
        if !policy::on() || !fits || super::in_vfork() {
            return None;
        }
        let asked: fd_set = self.sets[0].read();
        let each = || (0..self.count).filter(|fd| libc::FD_ISSET(*fd, &raw const asked));
        if each().filter(|fd| without_token(*fd).is_some()).count() == 0 {
            return None;
        }
        let mut ready = match self.ask() {
            Ok(ready) => ready as c_int,
            Err(code) => {
                set_errno(code);
                return Some(-1);
            }
        };
        if ready == 0 {
            for set in self.sets.into_iter().filter(|set| !set.is_null()) {
                set.write(core::mem::zeroed());
            }
        }
        for fd in each().filter(|fd| without_token(*fd).is_some()) {
            if !libc::FD_ISSET(fd, self.sets[0]) {
                libc::FD_SET(fd, self.sets[0]);
                ready += 1;
            }
        }
        Some(ready)
    }

    /// Asks the kernel without waiting; the sets change only where something is ready.
    unsafe fn ask(self) -> Result<usize, c_int> {
        let mut copies: [fd_set; 3] = [core::mem::zeroed(); 3];
        let mut pointers = [0_usize; 3];
        for ((copy, pointer), set) in copies.iter_mut().zip(&mut pointers).zip(self.sets) {
            if !set.is_null() {
                *copy = set.read();
                *pointer = core::ptr::from_mut(copy) as usize;
            }
        }
        let mut zero = timespec { tv_sec: 0, tv_nsec: 0 };
        let words =
            [self.count as usize, pointers[0], pointers[1], pointers[2], &raw mut zero as usize, 0];
        let ready = crate::raw(libc::SYS_pselect6, words)?;
        if ready > 0 {
            for (copy, set) in copies.iter().zip(self.sets).filter(|(_copy, set)| !set.is_null()) {
                set.write(*copy);
            }
        }
        Ok(ready)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    if let Some(ready) = (Sets { count, sets: [read, write, except] }).rings() {
        return ready;
    }
    let zero = !timeout.is_null() && (*timeout).tv_sec == 0 && (*timeout).tv_usec == 0;
    // Other times are the kernel's to refuse, or to bring into shape.
    let plain = timeout.is_null()
        || ((*timeout).tv_sec >= 0 && (0..1_000_000).contains(&(*timeout).tv_usec));
    let Some(sets) =
        (Sets { count, sets: [read, write, except] }).looked_at().filter(|_sets| !zero && plain)
    else {
        return next::select(count, read, write, except, timeout);
    };
    let start = now_ns();
    let time = if timeout.is_null() {
        timespec { tv_sec: 0, tv_nsec: 0 }
    } else {
        timespec { tv_sec: (*timeout).tv_sec, tv_nsec: c_long::from((*timeout).tv_usec) * 1000 }
    };
    let time_at = if timeout.is_null() { core::ptr::null() } else { &raw const time };
    let result = wait(
        &MOOD,
        || sets.ours().any(|talk| talk.has_bytes()),
        || sets.ask(),
        |before| next::pselect(count, read, write, except, time_at, before),
    );
    if !timeout.is_null() {
        // Linux tells what is left.
        let all = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        let left = if result == 0 { 0 } else { all.saturating_sub(now_ns() - start) };
        (*timeout).tv_sec = (left / 1_000_000_000) as i64;
        (*timeout).tv_usec = (left % 1_000_000_000 / 1000) as i64;
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    select(count, read, write, except, timeout)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    if let Some(ready) = (Sets { count, sets: [read, write, except] }).rings() {
        return ready;
    }
    let Some(sets) =
        (Sets { count, sets: [read, write, except] }).looked_at().filter(|_sets| !is_zero(timeout))
    else {
        return next::pselect(count, read, write, except, timeout, mask);
    };
    wait(
        &MOOD,
        || sets.ours().any(|talk| talk.has_bytes()),
        || sets.ask(),
        |before| {
            next::pselect(
                count,
                read,
                write,
                except,
                timeout,
                if mask.is_null() { before } else { mask },
            )
        },
    )
}
