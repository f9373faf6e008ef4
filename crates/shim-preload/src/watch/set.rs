//! An epoll set of this process: places, marks, its lookout, and who sleeps in it.

use super::family;
use super::mood::Mood;
use super::note::{
    PLACE_MASK, PLACE_SHIFT, SET_MASK, SHARED, TOKENS, WAS, add_note, note, noted, was_looked_for,
};
use crate::policy;
use crate::table::{self, Entry};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use libc::{c_int, epoll_event};
use m3ipc_shim::engine::{self, BIT_WORDS, Lookout, Talk};

const SETS: usize = 128;
/// Places of a set; what is beyond has tokens.
pub(super) const PLACES: usize = BIT_WORDS * 64;
/// Sockets without a lookout that are looked at before a wait sleeps: the look would cost more than it saves.
const LOOKED_AT: usize = 64;
/// In place of a socket's event: somebody sleeps in a set that has bytes without a token.
pub fn kick_data(set: &'static Set) -> u64 {
    core::ptr::from_ref(set) as u64
}

/// In place of events: they are being changed this moment.
const CHANGING: u32 = 1 << 27;

struct Place {
    /// Plus one; 0 is a free place.
    fd: AtomicI32,
    /// 0 where it is not watched at present: many take sockets out of a set and put them back all the time.
    events: AtomicU32,
    data: AtomicU64,
}

/// An epoll set of this process.
pub struct Set {
    /// Descriptors that refer to it; 0 is a free place.
    users: AtomicU32,
    /// Its [`Lookout`], or 0, and the process it belongs to.
    lookout: AtomicU64,
    owner: AtomicU32,
    /// Not 0: others wait for it, or for the same sockets, unseen: tokens always.
    spoiled: AtomicU32,
    /// Threads that sleep in it.
    sleepers: AtomicU32,
    /// Threads that wait in it, asleep or awake.
    waiting: AtomicU32,
    /// Not 0: another process may change it, by fork.
    shared: AtomicU32,
    /// A descriptor that wakes them; 0 is none.
    kick: AtomicI32,
    /// One more than the highest place in use.
    top: AtomicU32,
    /// The place that is reported first, so that none starves.
    pub first: AtomicU32,
    /// Whether the kernel comes first at the next wait.
    pub kernel_first: AtomicBool,
    pub mood: Mood,
    marks: [AtomicU64; BIT_WORDS],
    places: [Place; PLACES],
}

/// All of them.
pub(super) static ALL: [Set; SETS] = [const {
    Set {
        users: AtomicU32::new(0),
        lookout: AtomicU64::new(0),
        owner: AtomicU32::new(0),
        spoiled: AtomicU32::new(0),
        sleepers: AtomicU32::new(0),
        waiting: AtomicU32::new(0),
        shared: AtomicU32::new(0),
        kick: AtomicI32::new(0),
        top: AtomicU32::new(0),
        first: AtomicU32::new(0),
        kernel_first: AtomicBool::new(false),
        mood: Mood::new(),
        marks: [const { AtomicU64::new(0) }; BIT_WORDS],
        places: [const {
            Place { fd: AtomicI32::new(0), events: AtomicU32::new(0), data: AtomicU64::new(0) }
        }; PLACES],
    }
}; SETS];

/// A place for a new epoll set.
pub fn open() -> Entry {
    let free = ALL.iter().position(|set| {
        set.users.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    });
    free.map_or(Entry::Plain, |index| {
        ALL[index].clear();
        Entry::Set(index)
    })
}

/// One more descriptor refers to a set.
pub fn keep(index: usize) {
    if let Some(set) = ALL.get(index) {
        set.users.fetch_add(1, Ordering::AcqRel);
    }
}

/// One fewer.
pub fn close(index: usize) {
    let Some(set) = ALL.get(index) else { return };
    if set.users.load(Ordering::Acquire) == 1 {
        set.give_up();
        for place in 0..set.top() {
            set.leave(place);
        }
        set.end_kick();
    }
    let _ =
        set.users.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |users| users.checked_sub(1));
}

/// The set of a descriptor.
pub fn of(fd: c_int) -> Option<&'static Set> {
    if let Entry::Set(index) = table::get(fd) { ALL.get(index) } else { None }
}

impl Set {
    /// In a child by fork: the lookout is its parent's, which it gives.
    pub(super) fn give_back(&self) -> Option<Lookout> {
        Lookout::of(self.lookout.swap(0, Ordering::Relaxed))
    }

    fn clear(&self) {
        for place in &self.places[..self.top()] {
            place.fd.store(0, Ordering::Relaxed);
        }
        for word in
            [&self.top, &self.first, &self.spoiled, &self.sleepers, &self.waiting, &self.shared]
        {
            word.store(0, Ordering::Relaxed);
        }
        self.kick.store(0, Ordering::Relaxed);
        self.lookout.store(0, Ordering::Relaxed);
        self.marks.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    pub(super) fn top(&self) -> usize {
        (self.top.load(Ordering::Acquire) as usize).min(PLACES)
    }

    pub(super) fn index(&self) -> usize {
        ALL.iter().position(|set| core::ptr::eq(set, self)).unwrap_or(0)
    }

    /// Whether it watches sockets that may be ours.
    pub fn is_empty(&self) -> bool {
        self.top() == 0
    }

    /// The lookout, where it is this process's.
    pub fn lookout(&self) -> Option<Lookout> {
        Lookout::of(self.lookout.load(Ordering::Acquire))
            .filter(|_lookout| self.owner.load(Ordering::Relaxed) == engine::line())
    }

    /// Before a wait: opens a lookout at the first one that has sockets.
    pub fn look_out(&self) {
        if self.is_empty() || self.spoiled.load(Ordering::Relaxed) != 0 || policy::spin_ns() == 0 {
            return;
        }
        if family::are_gone(self.lookout()) {
            for set in ALL.iter().filter(|set| set.is_used()) {
                set.shared.store(0, Ordering::Relaxed);
                set.wish_all();
            }
        }
        if self.lookout.load(Ordering::Acquire) != 0 || self.sleepers.load(Ordering::Relaxed) > 0 {
            return;
        }
        let Some(new) = Lookout::open() else { return };
        self.owner.store(engine::line(), Ordering::Relaxed);
        if self
            .lookout
            .compare_exchange(0, new.word(), Ordering::SeqCst, Ordering::Relaxed)
            .is_err()
        {
            new.close();
            return;
        }
        // Those who sleep already are not counted in it: pairs with `lie_down`.
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.lookout.store(0, Ordering::SeqCst);
            new.close();
            return;
        }
        self.wish_all();
    }

    /// Looks for nothing any more.
    pub(super) fn give_up(&self) {
        self.uncover_all();
        let lookout = self.lookout();
        self.lookout.store(0, Ordering::Release);
        if let Some(lookout) = lookout {
            self.keep_marks(lookout);
            lookout.close();
        }
    }

    fn keep_marks(&self, lookout: Lookout) {
        for (word, marks) in self.marks.iter().enumerate() {
            marks.fetch_or(lookout.take(word), Ordering::SeqCst);
        }
    }

    pub(super) fn fd(&self, place: usize) -> c_int {
        self.places[place].fd.load(Ordering::Acquire) - 1
    }

    pub(super) fn place_of(&self, fd: c_int) -> Option<usize> {
        let note = noted(fd);
        let place = (note >> PLACE_SHIFT & PLACE_MASK) as usize;
        if note & SET_MASK == self.index() as u32 + 1 && place < PLACES && self.fd(place) == fd {
            return Some(place);
        }
        // Watched by more than one.
        (0..self.top()).find(|place| self.fd(*place) == fd)
    }

    pub(super) fn take_place(&self, fd: c_int) -> Option<usize> {
        let free = (0..PLACES).find(|place| {
            let cell = &self.places[*place].fd;
            cell.load(Ordering::Relaxed) == 0
                && cell.compare_exchange(0, fd + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })?;
        self.top.fetch_max(free as u32 + 1, Ordering::AcqRel);
        Some(free)
    }

    /// The place of a number that was closed is from now on another's, which stands for the same socket.
    pub(super) fn inherit(&self, place: usize, heir: c_int) {
        self.places[place].fd.store(heir + 1, Ordering::Release);
    }

    pub(super) fn leave(&self, place: usize) {
        let fd = self.fd(place);
        if fd < 0 {
            return;
        }
        self.uncover(place);
        self.places[place].events.store(0, Ordering::Release);
        self.places[place].fd.store(0, Ordering::Release);
        if let Some(note) = note(fd)
            && note.load(Ordering::Relaxed) & SET_MASK == self.index() as u32 + 1
        {
            note.fetch_and(!(SET_MASK | PLACE_MASK << PLACE_SHIFT), Ordering::Relaxed);
        }
    }

    /// None of its sockets is looked for.
    pub(super) fn uncover_all(&self) {
        for place in 0..self.top() {
            self.uncover(place);
        }
    }

    pub(super) fn uncover(&self, place: usize) {
        if let Some(talk) = crate::look::known(self.fd(place))
            && talk.uncover()
            && talk.has_untold() != Some(false)
        {
            self.mark(place);
        }
    }

    /// What epoll_ctl says of a place from now on.
    pub(super) fn change(&self, place: usize, event: epoll_event) {
        let cells = &self.places[place];
        cells.events.store(CHANGING, Ordering::SeqCst);
        cells.data.store(event.u64, Ordering::SeqCst);
        // Errors and ends are always told, so it is never 0.
        cells
            .events
            .store(event.events | (libc::EPOLLERR | libc::EPOLLHUP) as u32, Ordering::SeqCst);
    }

    /// It is not watched at present.
    pub(super) fn unwatch(&self, place: usize) {
        self.places[place].events.store(0, Ordering::SeqCst);
    }

    /// Whether it is.
    pub(super) fn is_watched(&self, place: usize) -> bool {
        self.places[place].events.load(Ordering::SeqCst) != 0
    }

    /// Whether anybody uses the set.
    pub(super) fn is_used(&self) -> bool {
        self.users.load(Ordering::Relaxed) > 0
    }

    /// Bytes came to a place otherwise than from a sender: who sleeps here is woken.
    pub(super) fn arrived(&'static self, fd: c_int, place: usize, talk: &Talk) {
        if talk.has_untold() != Some(false) {
            self.mark(place);
            if self.sleepers.load(Ordering::SeqCst) > 0 {
                self.wake(fd);
            }
        }
    }

    /// Others wait for the set itself, or in it at the same time: it looks for nothing any more.
    pub(super) fn spoil(&self) {
        if self.spoiled.swap(1, Ordering::SeqCst) == 0 {
            self.give_up();
        }
    }

    /// It is to be readable where it has bytes without a token.
    pub(super) fn show(&'static self, fd: c_int) {
        let has_some = |place: usize| {
            was_looked_for(self.fd(place)) && matches!(self.told(place), Told::Bytes { .. })
        };
        if self.kick.load(Ordering::SeqCst) == 0 && (0..self.top()).any(has_some) {
            self.wake(fd);
        }
    }

    /// A thread begins to wait. With two of them one arrival would be told to both: to one by its mark, to the other by a token.
    pub fn enter(&self) {
        if self.waiting.fetch_add(1, Ordering::SeqCst) > 0 {
            self.spoil();
        }
    }

    /// It waits no longer.
    pub fn exit(&self) {
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// From a fork on, what stands here may be wrong.
    pub(super) fn share(&self) {
        self.shared.store(1, Ordering::Relaxed);
    }

    /// Whether the kernel still has a place: asked where another process may have taken it out.
    pub fn is_still_there(&self, set: c_int, fd: c_int, events: u32, data: u64) -> bool {
        if self.shared.load(Ordering::Relaxed) == 0 || events & libc::EPOLLET as u32 != 0 {
            return true;
        }
        let mut event = epoll_event { events, u64: data };
        let event = core::ptr::from_mut(&mut event) as usize;
        let words = [set as usize, libc::EPOLL_CTL_MOD as usize, fd as usize, event, 0, 0];
        unsafe { crate::raw(libc::SYS_epoll_ctl, words) }.is_ok()
    }

    /// Looks for a socket from its place, where it may.
    pub(super) fn wish(&self, place: usize, talk: &'static Talk) {
        const ODD: u32 = (libc::EPOLLONESHOT | libc::EPOLLEXCLUSIVE) as u32;
        let fd = self.fd(place);
        let free = noted(fd) & (TOKENS | SHARED) == 0;
        match self.lookout() {
            Some(lookout)
                if free && self.places[place].events.load(Ordering::Relaxed) & ODD == 0 =>
            {
                if noted(fd) & WAS == 0 {
                    add_note(fd, WAS);
                }
                talk.look_out(lookout, place);
            }
            _ => self.uncover(place),
        }
    }

    fn wish_all(&self) {
        for place in 0..self.top() {
            if let Some(talk) = crate::look::known(self.fd(place)) {
                self.wish(place, talk);
            }
        }
    }

    /// This place is to be looked at.
    pub fn mark(&self, place: usize) {
        self.marks[place / 64].fetch_or(1 << (place % 64), Ordering::SeqCst);
    }

    /// These places of a word are to be looked at.
    pub fn mark_all(&self, word: usize, marks: u64) {
        if marks != 0 {
            self.marks[word].fetch_or(marks, Ordering::SeqCst);
        }
    }

    /// Marks of one word of places, which are taken.
    pub fn take_marks(&self, word: usize, lookout: Option<Lookout>) -> u64 {
        let own = &self.marks[word];
        let own = if own.load(Ordering::Relaxed) == 0 { 0 } else { own.swap(0, Ordering::SeqCst) };
        own | lookout.map_or(0, |lookout| lookout.take(word))
    }

    /// Whether any place is to be looked at.
    pub fn has_marks(&self, lookout: Option<Lookout>) -> bool {
        let words = self.words();
        self.marks[..words].iter().any(|word| word.load(Ordering::SeqCst) != 0)
            || lookout.is_some_and(|lookout| lookout.any(words))
    }

    /// Words of marks that may be set.
    pub fn words(&self) -> usize {
        self.top().div_ceil(64)
    }

    /// What a place with bytes is to be told as: its talk, events and data.
    pub fn told(&self, place: usize) -> Told {
        let Some(cells) = self.places.get(place) else { return Told::Nothing };
        let fd = cells.fd.load(Ordering::Acquire) - 1;
        let events = cells.events.load(Ordering::Acquire);
        let data = cells.data.load(Ordering::Acquire);
        if fd < 0 {
            return Told::Nothing;
        }
        if events == CHANGING || cells.events.load(Ordering::Acquire) != events {
            return Told::Changing;
        }
        if events & (libc::EPOLLIN | libc::EPOLLRDNORM) as u32 == 0 {
            return Told::Nothing;
        }
        let Some(talk) = crate::look::known(fd) else { return Told::Nothing };
        // Each arrival that a sender marked is an edge; else what has a token the kernel tells.
        let is_edge =
            events & libc::EPOLLET as u32 != 0 && self.spoiled.load(Ordering::SeqCst) == 0;
        match if is_edge { Some(talk.has_bytes()) } else { talk.has_untold() } {
            Some(true) => Told::Bytes { fd, talk, events, data },
            Some(false) => Told::Nothing,
            None => Told::Changing,
        }
    }

    /// Whether a socket that is not looked for has bytes: its token is on its way.
    pub fn sees_others(&self) -> bool {
        let top = self.top();
        top <= LOOKED_AT
            && (0..top).any(|place| {
                crate::look::known(self.fd(place))
                    .is_some_and(|talk| !talk.is_looked_for() && talk.has_bytes())
            })
    }

    /// Whether there are such sockets.
    pub fn has_others(&self) -> bool {
        let top = self.top();
        top <= LOOKED_AT
            && (0..top).any(|place| {
                crate::look::known(self.fd(place)).is_some_and(|talk| !talk.is_looked_for())
            })
    }

    /// Whether a look can find anything.
    pub fn can_look(&self) -> bool {
        (0..self.top()).any(|place| crate::look::known(self.fd(place)).is_some())
    }

    /// A thread is about to sleep; marks are to be read once more. Gives the lookout that counts it.
    pub fn lie_down(&self) -> Option<Lookout> {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        // Opened by another thread meanwhile, perhaps.
        let lookout = self.lookout();
        if let Some(lookout) = lookout {
            lookout.lie_down();
        }
        lookout
    }

    /// It is up again.
    pub fn get_up(&self, lookout: Option<Lookout>) {
        if let Some(lookout) = lookout {
            lookout.get_up();
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes those who sleep in it, or makes it readable for those who wait for it: there are bytes without a token.
    fn wake(&'static self, fd: c_int) {
        let flags = (libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) as usize;
        let Ok(bell) = (unsafe { crate::raw(libc::SYS_eventfd2, [1, flags, 0, 0, 0, 0]) }) else {
            return;
        };
        if self
            .kick
            .compare_exchange(0, bell as c_int, Ordering::SeqCst, Ordering::Relaxed)
            .is_err()
        {
            let _ = unsafe { crate::raw(libc::SYS_close, [bell, 0, 0, 0, 0, 0]) };
            return;
        }
        let mut event = epoll_event { events: libc::EPOLLIN as u32, u64: kick_data(self) };
        let words = [
            fd as usize,
            libc::EPOLL_CTL_ADD as usize,
            bell,
            core::ptr::from_mut(&mut event) as usize,
            0,
            0,
        ];
        let _ = unsafe { crate::raw(libc::SYS_epoll_ctl, words) };
    }

    /// Who was woken takes away what woke him: closing it takes it out of the set.
    pub fn end_kick(&self) {
        let bell = self.kick.swap(0, Ordering::SeqCst);
        if bell != 0 {
            let _ = unsafe { crate::raw(libc::SYS_close, [bell as usize, 0, 0, 0, 0, 0]) };
        }
    }
}

/// What there is to tell of a place.
pub enum Told {
    Nothing,
    /// It is being changed, or written to, this moment: later.
    Changing,
    Bytes {
        fd: c_int,
        talk: &'static Talk,
        events: u32,
        data: u64,
    },
}
