//! What is noted of each descriptor: its place in a set, and why its sender must go on sending tokens.

use super::set::{ALL, PLACES};
use crate::table::{self, Entry};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use libc::c_int;
use m3_preload::engine::Talk;

/// What is noted of a descriptor: its set plus one, its place, and these.
const SET_MASK: u32 = 0xff;
const PLACE_SHIFT: u32 = 8;
const PLACE_MASK: u32 = 0xfff;
/// It was looked for once: its ring may hold bytes without a token.
const WAS: u32 = 1 << 28;
/// A child of this process has it, too.
const SHARED: u32 = 1 << 29;
/// Others may wait for it in another way: never without tokens.
const TOKENS: u32 = 1 << 30;

static NOTES: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());
/// Makes room for the notes. Without it nothing is looked for.
pub fn settle() {
    let bytes = table::LIMIT * size_of::<AtomicU32>();
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    let words = [0, bytes, protection as usize, flags as usize, usize::MAX, 0];
    if let Ok(at) = unsafe { crate::raw(libc::SYS_mmap, words) } {
        NOTES.store(at as *mut AtomicU32, Ordering::Release);
    }
}

fn note(fd: c_int) -> Option<&'static AtomicU32> {
    let notes = NOTES.load(Ordering::Relaxed);
    let index = usize::try_from(fd).ok()?;
    if notes.is_null() || index >= table::LIMIT {
        return None;
    }
    Some(unsafe { &*notes.add(index) })
}

fn noted(fd: c_int) -> u32 {
    note(fd).map_or(TOKENS, |note| note.load(Ordering::Relaxed))
}

fn add_note(fd: c_int, flags: u32) {
    if let Some(note) = note(fd) {
        note.fetch_or(flags, Ordering::Relaxed);
    }
}

fn was_looked_for(fd: c_int) -> bool {
    noted(fd) & WAS != 0
}

/// A descriptor was found to have a talk.
pub fn found(fd: c_int, talk: &'static Talk, is_new: bool) {
    if !is_new {
        add_note(fd, TOKENS | WAS);
    }
    let note = noted(fd);
    let (set, place) = ((note & SET_MASK) as usize, (note >> PLACE_SHIFT & PLACE_MASK) as usize);
    if let Some(set) = set.checked_sub(1).and_then(|index| ALL.get(index))
        && place < PLACES
        && set.fd(place) == fd
    {
        set.wish(place, talk);
    }
}

/// A descriptor is closed, or stands for something else from now on.
pub fn forget(fd: c_int) {
    let Some(cell) = note(fd) else { return };
    let before = cell.load(Ordering::Relaxed);
    if before == 0 {
        return;
    }
    let many = before & TOKENS != 0;
    for (index, set) in ALL.iter().enumerate() {
        if set.users.load(Ordering::Relaxed) > 0
            && (many || before & SET_MASK == index as u32 + 1)
            && let Some(place) = set.place_of(fd)
        {
            set.leave(place);
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
    let before = cell.fetch_or(TOKENS, Ordering::Relaxed);
    let (set, place) = ((before & SET_MASK) as usize, (before >> PLACE_SHIFT & PLACE_MASK) as usize);
    if before & WAS == 0 {
        return;
    }
    match set.checked_sub(1).and_then(|index| ALL.get(index)) {
        Some(set) if place < PLACES && set.fd(place) == fd => set.uncover(place),
        _ => {
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

