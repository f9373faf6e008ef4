//! epoll: the kernel says who is ready, and rings say who has bytes without a token; before one sleeps, both are looked at.
//!
//! While one looks, signals are held back, and come in with the real wait, which takes them as it would have taken
//! them at once: so a handler never runs between the look and the sleep, unseen by the wait.

use super::ready::{TOKEN_NS, hold, is_zero, mask_of, release};
use crate::table::{self, Entry};
use crate::watch::{self, Set, Told, now_ns};
use crate::{errno, next, policy, set_errno};
use core::ffi::c_int;
use core::sync::atomic::Ordering;
use libc::{epoll_event, sigset_t, timespec};
use m3ipc_shim::engine;

/// Bytes of the kernel's signal sets.
const MASK_BYTES: usize = 8;
/// Looks that find marks and nothing to tell, before one sleeps all the same: with tokens then.
const LOOKS: u32 = 64;
const IN: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;
const OUT: u32 = (libc::EPOLLOUT | libc::EPOLLWRNORM) as u32;

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_create(size: c_int) -> c_int {
    set_born(next::epoll_create(size))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_create1(flags: c_int) -> c_int {
    set_born(next::epoll_create1(flags))
}

fn set_born(fd: c_int) -> c_int {
    if fd >= 0 {
        table::set(
            fd,
            if policy::on() && !super::in_vfork() { watch::open() } else { Entry::Plain },
        );
    }
    fd
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_ctl(
    set: c_int,
    what: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    let result = next::epoll_ctl(set, what, fd, event);
    if result != 0
        || event.is_null() && what != libc::EPOLL_CTL_DEL
        || !policy::on()
        || super::in_vfork()
    {
        return result;
    }
    let code = errno();
    let event = if what == libc::EPOLL_CTL_DEL { None } else { Some(*event) };
    if event.is_some_and(|event| event.events & libc::EPOLLET as u32 != 0) {
        match table::get(fd) {
            Entry::Talk(talk) => talk.edge_triggered(true),
            entry @ Entry::Born { how, .. } => {
                table::learn(fd, entry, Entry::Born { how, edges: true });
            }
            _ => {}
        }
    }
    watch::control(set, what, fd, event);
    set_errno(code);
    result
}

/// One wait: on which set, and where its events go.
#[derive(Clone, Copy)]
struct Wait {
    set: &'static Set,
    fd: c_int,
    events: *mut epoll_event,
    room: usize,
}

impl Wait {
    /// The wait on a set of ours, where there is anything that the kernel might not say.
    unsafe fn new(fd: c_int, events: *mut epoll_event, count: c_int) -> Option<Self> {
        let set = watch::waited_on(fd)?;
        let room = usize::try_from(count).ok().filter(|room| *room > 0 && !events.is_null())?;
        set.look_out();
        Some(Self { set, fd, events, room })
    }

    unsafe fn event(&self, at: usize) -> *mut epoll_event {
        self.events.add(at)
    }

    /// Whatever is ready now, in rings and in the kernel.
    unsafe fn gather(&self) -> Result<usize, c_int> {
        // Whoever had to stay behind comes first the next time.
        let kernel_first = self.set.kernel_first.load(Ordering::Relaxed);
        let first = if kernel_first { self.ask_kernel(0)? } else { self.look(0) };
        if first == self.room {
            self.set.kernel_first.store(!kernel_first, Ordering::Relaxed);
            return Ok(first);
        }
        let second = if kernel_first {
            self.look(first)
        } else {
            match self.ask_kernel(first) {
                Err(code) if first == 0 => return Err(code),
                asked => asked.unwrap_or(0),
            }
        };
        self.set.kernel_first.store(false, Ordering::Relaxed);
        Ok(self.merge(first, second))
    }

    /// What the kernel has, from this place of the list on.
    unsafe fn ask_kernel(&self, from: usize) -> Result<usize, c_int> {
        let words =
            [self.fd as usize, self.event(from) as usize, self.room - from, 0, 0, MASK_BYTES];
        let asked = crate::raw(libc::SYS_epoll_pwait, words)?;
        Ok(self.without_kick(from, asked))
    }

    /// Takes out what woke us, where it is among these.
    unsafe fn without_kick(&self, from: usize, count: usize) -> usize {
        for at in from..from + count {
            if (*self.event(at)).u64 == watch::kick_data(self.set) {
                self.set.end_kick();
                core::ptr::copy(self.event(at + 1), self.event(at), from + count - at - 1);
                return count - 1;
            }
        }
        count
    }

    /// What rings have, from this place of the list on.
    unsafe fn look(&self, from: usize) -> usize {
        let (set, words) = (self.set, self.set.words());
        if words == 0 {
            return 0;
        }
        let lookout = set.lookout();
        let first = set.first.load(Ordering::Relaxed) as usize;
        let (first_word, first_bit) = (first / 64 % words, first % 64);
        let mut at = from;
        // Once around, and the first word's lower places at the end.
        for step in 0..=words {
            let word = (first_word + step) % words;
            let mut marks = set.take_marks(word, lookout);
            let behind = u64::MAX << first_bit;
            let now = if step == 0 {
                marks & behind
            } else if step == words {
                marks & !behind
            } else {
                marks
            };
            // Those come later in the round.
            let mut kept = marks & !now;
            marks = now;
            while marks != 0 {
                let bit = marks.trailing_zeros();
                marks &= marks - 1;
                let place = word * 64 + bit as usize;
                if at == self.room {
                    kept |= 1 << bit;
                    continue;
                }
                match set.told(place) {
                    Told::Nothing => {}
                    Told::Changing => kept |= 1 << bit,
                    Told::Bytes { fd, events, data, .. }
                        if !set.is_still_there(self.fd, fd, events, data) => {}
                    Told::Bytes { fd, talk, events, data } => {
                        let told = events & IN
                            | if talk.sends_in_ring() {
                                events & OUT
                            } else {
                                can_send(fd, events)
                            };
                        self.event(at).write(epoll_event { events: told, u64: data });
                        at += 1;
                        if events & libc::EPOLLONESHOT as u32 != 0 {
                            self.disarm(fd, events, data);
                        } else if events & libc::EPOLLET as u32 == 0 {
                            kept |= 1 << bit;
                        }
                        set.first.store((place + 1) as u32, Ordering::Relaxed);
                    }
                }
            }
            set.mark_all(word, kept);
        }
        at - from
    }

    /// What the kernel does where it tells of one that is to be told once.
    unsafe fn disarm(&self, fd: c_int, events: u32, data: u64) {
        const PRIVATE: u32 = (libc::EPOLLONESHOT | libc::EPOLLET | libc::EPOLLWAKEUP) as u32;
        let mut event = epoll_event { events: events & PRIVATE, u64: data };
        let event = core::ptr::from_mut(&mut event) as usize;
        let words = [self.fd as usize, libc::EPOLL_CTL_MOD as usize, fd as usize, event, 0, 0];
        let _ = crate::raw(libc::SYS_epoll_ctl, words);
    }

    /// One event for each descriptor: the two parts of the list, of which each has it once at most.
    unsafe fn merge(&self, first: usize, second: usize) -> usize {
        if first == 0 || second == 0 {
            return first + second;
        }
        let mut end = first;
        for at in first..first + second {
            let event = self.event(at).read();
            match (0..first).find(|other| (*self.event(*other)).u64 == event.u64) {
                Some(same) => (*self.event(same)).events |= event.events,
                None => {
                    self.event(end).write(event);
                    end += 1;
                }
            }
        }
        end
    }

    /// Whether there is anything in rings: to look again and again.
    fn sees(&self, others: bool) -> bool {
        self.set.has_marks(self.set.lookout()) || others && self.set.sees_others()
    }

    /// Looks, and sleeps where there is nothing. `real` is the program's own wait.
    unsafe fn wait(
        &self,
        mask: *const sigset_t,
        limit_ns: Option<u64>,
        real: impl FnOnce(*const sigset_t) -> c_int,
    ) -> c_int {
        self.set.enter();
        let result = self.wait_inside(mask, limit_ns, real);
        self.set.exit();
        result
    }

    unsafe fn wait_inside(
        &self,
        mask: *const sigset_t,
        limit_ns: Option<u64>,
        real: impl FnOnce(*const sigset_t) -> c_int,
    ) -> c_int {
        if self.set.is_empty() || !engine::any_pairs() {
            return self.sleep(mask, limit_ns, real);
        }
        match self.gather() {
            Ok(0) if limit_ns != Some(0) => {}
            Ok(ready) => return ready as c_int,
            Err(code) => {
                set_errno(code);
                return -1;
            }
        }
        let before = hold();
        let ready = if policy::spin_ns() > 0 && self.set.can_look() && self.set.mood.wants() {
            self.look_for_a_while()
        } else {
            0
        };
        let result = if ready > 0 {
            ready as c_int
        } else {
            self.sleep(if mask.is_null() { mask_of(before.as_ref()) } else { mask }, limit_ns, real)
        };
        let code = errno();
        release(before.as_ref());
        set_errno(code);
        result
    }

    unsafe fn look_for_a_while(&self) -> usize {
        let others = self.set.has_others();
        if !watch::spin(&self.set.mood, || self.sees(others)) {
            return 0;
        }
        // Where it was one with tokens, its own is a moment away.
        let end = now_ns() + TOKEN_NS;
        loop {
            match self.gather() {
                Ok(0) if now_ns() < end && self.sees(others) => {}
                ready => return ready.unwrap_or(0),
            }
        }
    }

    unsafe fn sleep(
        &self,
        mask: *const sigset_t,
        limit_ns: Option<u64>,
        real: impl FnOnce(*const sigset_t) -> c_int,
    ) -> c_int {
        let mut real = Some(real);
        let start = limit_ns.map(|_limit| now_ns());
        let mut looks = 0;
        loop {
            let counted = self.set.lie_down();
            if looks < LOOKS && self.set.has_marks(counted) {
                self.set.get_up(counted);
                looks += 1;
                if let Ok(ready @ 1..) = self.gather() {
                    return ready as c_int;
                }
                continue;
            }
            let got = match real.take() {
                Some(real) => real(mask),
                None => {
                    let took = start.map_or(0, |start| now_ns().saturating_sub(start));
                    let left = limit_ns.map_or(-1, |limit| {
                        c_int::try_from(limit.saturating_sub(took).div_ceil(1_000_000))
                            .unwrap_or(c_int::MAX)
                    });
                    next::epoll_pwait(self.fd, self.events, self.room as c_int, left, mask)
                }
            };
            self.set.get_up(counted);
            if got <= 0 {
                return got;
            }
            let kept = self.without_kick(0, got as usize);
            let more = if kept < self.room { self.look(kept) } else { 0 };
            let all = self.merge(kept, more);
            if all > 0 {
                return all as c_int;
            }
        }
    }
}

/// What a descriptor that sends through the kernel can be told of writing, where that is asked for.
unsafe fn can_send(fd: c_int, events: u32) -> u32 {
    // Level-triggered, the kernel tells it by itself.
    if events & OUT == 0 || events & libc::EPOLLET as u32 == 0 {
        return 0;
    }
    let mut one = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    let mut zero = timespec { tv_sec: 0, tv_nsec: 0 };
    let words = [&raw mut one as usize, 1, &raw mut zero as usize, 0, MASK_BYTES, 0];
    let _ = crate::raw(libc::SYS_ppoll, words);
    if one.revents & libc::POLLOUT != 0 { events & OUT } else { 0 }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_wait(
    set: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: c_int,
) -> c_int {
    epoll_pwait(set, events, count, timeout, core::ptr::null())
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_pwait(
    set: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    let Some(wait) = Wait::new(set, events, count) else {
        return next::epoll_pwait(set, events, count, timeout, mask);
    };
    let limit_ns = u64::try_from(timeout).ok().map(|ms| ms * 1_000_000);
    wait.wait(mask, limit_ns, |mask| next::epoll_pwait(set, events, count, timeout, mask))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_pwait2(
    set: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let Some(wait) = Wait::new(set, events, count) else {
        return next::epoll_pwait2(set, events, count, timeout, mask);
    };
    let limit_ns = if timeout.is_null() {
        None
    } else if is_zero(timeout) {
        Some(0)
    } else {
        Some(
            ((*timeout).tv_sec as u64)
                .saturating_mul(1_000_000_000)
                .saturating_add((*timeout).tv_nsec as u64),
        )
    };
    wait.wait(mask, limit_ns, |mask| next::epoll_pwait2(set, events, count, timeout, mask))
}
