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

mod family;
mod mood;
mod note;
mod set;

use crate::table::{self, Entry};
use core::sync::atomic::Ordering;
pub use family::{after_fork, before_exec, before_fork};
use libc::{c_int, epoll_event};
pub use mood::{Mood, now_ns, spin};
use note::{PLACE_SHIFT, SET_MASK, TOKENS, add_note, note, noted, was_looked_for};
pub use note::{doubled, forget, found, need_tokens, settle, waited_for};
use set::{ALL, CHANGING};
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
            set.places[place].events.store(0, Ordering::SeqCst);
        }
        return;
    };
    let talk = crate::look::talk(fd);
    if matches!(table::get(fd), Entry::Plain | Entry::Pinned | Entry::Closing) {
        return;
    }
    // Put into another set after it was taken out of this one: it moves.
    let note_before = noted(fd);
    let old = (note_before & SET_MASK) as usize;
    if place.is_none()
        && let Some(old) = old.checked_sub(1).and_then(|index| ALL.get(index))
        && let Some(place) = old.place_of(fd)
        && old.places[place].events.load(Ordering::SeqCst) == 0
    {
        old.leave(place);
    }
    let note_before = noted(fd);
    let Some(place) = place.or_else(|| set.take_place(fd)) else {
        add_note(fd, TOKENS);
        return;
    };
    let cells = &set.places[place];
    cells.events.store(CHANGING, Ordering::SeqCst);
    cells.data.store(event.u64, Ordering::SeqCst);
    // Errors and ends are always told, so it is never 0.
    cells.events.store(event.events | (libc::EPOLLERR | libc::EPOLLHUP) as u32, Ordering::SeqCst);
    let other = note_before & SET_MASK;
    if other == 0 {
        if let Some(note) = note(fd) {
            note.fetch_or(set.index() as u32 + 1 | (place as u32) << PLACE_SHIFT, Ordering::Relaxed);
        }
    } else if other != set.index() as u32 + 1 {
        add_note(fd, TOKENS);
    }
    let Some(talk) = talk else { return };
    talk.meet(fd);
    set.wish(place, talk);
    set.mark(place);
    if set.sleepers.load(Ordering::SeqCst) > 0 && talk.has_bytes() {
        set.wake(set_fd);
    }
}

/// Somebody waits for a set itself: from then on all of its sockets have tokens, and what has none is told at once.
pub fn wait_for_set(index: usize, fd: c_int) {
    let Some(set) = ALL.get(index) else { return };
    if set.spoiled.swap(1, Ordering::SeqCst) == 0 {
        set.give_up();
    }
    let told = |place: usize| matches!(set.told(place), Told::Bytes { .. });
    if set.kick.load(Ordering::SeqCst) == 0
        && (0..set.top()).any(|place| was_looked_for(set.fd(place)) && told(place))
    {
        set.wake(fd);
    }
}

