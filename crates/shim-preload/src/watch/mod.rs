//! Which sockets an epoll set watches, and with which events and data: so that a wait can tell of bytes that have no token.
//!
//! ```text
//!   places of a set     descriptor, events, data: as epoll_ctl gave them
//!   marks               places to look at: here what this process found, in the lookout what senders published
//!   note of a fd        its place, and why senders must go on sending tokens for it
//! ```
//!
//! What the kernel says is right in any case; what stands here adds bytes of rings to it. Where it is missing (a set that was
//! passed on, registered unseen, too large) tokens are sent as ever.

mod adopt;
mod family;
mod mood;
mod note;
mod set;

use crate::policy;
use crate::table::{self, Entry};
use core::sync::atomic::Ordering;
use libc::{c_int, epoll_event};
use m3ipc_shim::engine::Talk;
pub use mood::{Mood, now_ns, spin};
pub use note::settle;
use note::{PLACE_MASK, PLACE_SHIFT, SET_MASK, SHARED, TOKENS, WAS, add_note, note, noted};
use set::ALL;
pub use set::{Set, Told, close, keep, kick_data, of, open};

/// What epoll_ctl did to a set.
pub fn control(set_fd: c_int, what: c_int, fd: c_int, event: Option<epoll_event>) {
    let Some(set) = of(set_fd) else { return };
    if let Entry::Set(inner) = table::get(fd) {
        if what == libc::EPOLL_CTL_ADD {
            wait_for_set(inner, fd);
        }
        return;
    }
    let place = set.place_of(fd);
    let Some(event) = event else {
        // Its place is kept, and senders go on setting its bit: whoever waits for it otherwise comes through here, too.
        if let Some(place) = place {
            set.unwatch(place);
        }
        return;
    };
    let talk = crate::look::talk(fd);
    if matches!(table::get(fd), Entry::Plain | Entry::Pinned | Entry::Closing) {
        return;
    }
    if let Some(place) = place.or_else(|| settle_in(set, fd)) {
        set.change(place, event);
        if let Some(talk) = talk {
            talk.meet(fd);
            set.wish(place, talk);
            set.arrived(set_fd, place, talk);
        }
    } else {
        need_tokens(fd);
    }
}

/// The set that a wait is on, also where nothing is known of it yet.
pub fn waited_on(fd: c_int) -> Option<&'static Set> {
    if let Entry::Unknown = table::get(fd) {
        return if policy::on() && !crate::hook::in_vfork() { adopt::adopt(fd) } else { None };
    }
    of(fd)
}

/// What a set watches that was there before.
fn inherited(set: &'static Set, set_fd: c_int, fd: c_int, event: epoll_event) {
    let Some(talk) = crate::look::talk(fd) else { return };
    add_note(fd, TOKENS | WAS);
    if let Some(place) = settle_in(set, fd) {
        set.change(place, event);
        talk.meet(fd);
        set.arrived(set_fd, place, talk);
    }
}

/// A place for a descriptor that has none in this set.
fn settle_in(set: &Set, fd: c_int) -> Option<usize> {
    if let Some((old, place)) = seat(fd) {
        if old.is_watched(place) {
            // Two sets watch it.
            need_tokens(fd);
        } else {
            old.leave(place);
        }
    }
    let place = set.take_place(fd)?;
    if noted(fd) & SET_MASK == 0
        && let Some(note) = note(fd)
    {
        note.fetch_or(
            (set.index() as u32 + 1) | ((place as u32) << PLACE_SHIFT),
            Ordering::Relaxed,
        );
    }
    Some(place)
}

/// The set and the place that are noted of a descriptor.
fn seat(fd: c_int) -> Option<(&'static Set, usize)> {
    let note = noted(fd);
    let set = ALL.get(((note & SET_MASK) as usize).checked_sub(1)?)?;
    let place = (note >> PLACE_SHIFT & PLACE_MASK) as usize;
    (place < set::PLACES && set.fd(place) == fd).then_some((set, place))
}

/// Somebody waits for a set itself: from then on all of its sockets have tokens, and what has none is told at once.
pub fn wait_for_set(index: usize, fd: c_int) {
    if let Some(set) = ALL.get(index) {
        set.spoil();
        set.show(fd);
    }
}

/// A descriptor was found to have a talk.
pub fn found(fd: c_int, talk: &'static Talk, is_new: bool) {
    if !is_new {
        add_note(fd, TOKENS | WAS);
    }
    if let Some((set, place)) = seat(fd) {
        set.wish(place, talk);
    }
}

/// A descriptor is closed, or stands for something else from now on.
///
/// What an epoll set watches is the socket, not its number: where another one stands for it, the set goes on telling of it.
pub fn forget(fd: c_int, heir: Option<c_int>) {
    let Some(cell) = note(fd) else { return };
    let before = cell.load(Ordering::Relaxed);
    if before == 0 {
        return;
    }
    let many = before & TOKENS != 0;
    for (index, set) in ALL.iter().enumerate() {
        if set.is_used()
            && (many || before & SET_MASK == index as u32 + 1)
            && let Some(place) = set.place_of(fd)
        {
            match heir {
                Some(heir) if set.is_watched(place) => set.inherit(place, heir),
                _ => set.leave(place),
            }
        }
    }
    cell.store(0, Ordering::Relaxed);
}

/// A new number for a socket that has one: whoever has two may wait with either.
pub fn doubled(to: c_int) {
    add_note(to, TOKENS | WAS);
}

/// Somebody waits for a socket, or has it, in a way that needs tokens: from now on it has them.
pub fn need_tokens(fd: c_int) {
    let Some(cell) = note(fd) else { return };
    if cell.fetch_or(TOKENS, Ordering::Relaxed) & WAS == 0 {
        return;
    }
    match seat(fd) {
        Some((set, place)) => set.uncover(place),
        None => {
            let _ = crate::look::known(fd).map(Talk::uncover);
        }
    }
}

/// The talk of a descriptor whose ring may hold bytes that have no token; from now on its bytes have them.
pub fn waited_for(fd: c_int) -> Option<&'static Talk> {
    if let Entry::Unknown = table::get(fd) {
        // Of a program before this one, or of a message.
        let talk = crate::look::talk(fd)?;
        talk.meet(fd);
    }
    let talk = crate::look::known(fd)?;
    let note = noted(fd);
    if note & WAS == 0 {
        return None;
    }
    if talk.is_looked_for() {
        need_tokens(fd);
    }
    Some(talk)
}

/// Before a fork: what both processes have from then on has tokens.
pub fn before_fork() {
    family::hand_on();
    for set in ALL.iter().filter(|set| set.is_used()) {
        set.uncover_all();
    }
}

/// After it: in the child for ever, in the parent until the child is gone.
pub fn after_fork(child: libc::pid_t) {
    if child < 0 || !policy::on() {
        return;
    }
    let flags = if child == 0 { TOKENS } else { SHARED };
    for fd in 0..table::top() {
        if matches!(table::get(fd), Entry::Talk(_) | Entry::Born { .. } | Entry::Unknown) {
            add_note(fd, flags);
        }
    }
    let used = || ALL.iter().filter(|set| set.is_used());
    used().for_each(Set::share);
    if child > 0 {
        // What another thread looked for meanwhile.
        used().for_each(Set::uncover_all);
        family::remember(child);
    } else {
        family::begin(used().filter_map(Set::give_back));
    }
}

/// Before another program: what it inherits has tokens.
pub fn before_exec() {
    family::hand_on();
    for (fd, talk) in table::talks() {
        if talk.is_looked_for() && table::is_cloexec(fd) == Some(false) {
            need_tokens(fd);
        }
    }
}
