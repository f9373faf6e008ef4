//! What is known of each descriptor: one word each, in memory that a fork copies and that nothing locks.
//!
//! ```text
//!   63        60                                   0
//!   | kind     | pointer (Talk), index (Set)        |
//! ```
//!
//! | kind | means |
//! |---|---|
//! | Unknown | never seen: the first use looks (`look.rs`) |
//! | Plain | no stream socket; all calls go to the kernel |
//! | Pinned | a socket that stays in the kernel, whatever becomes of it |
//! | Closing | being closed by another thread just now |
//! | Born | a stream socket whose first data call decides; how it came to be |
//! | Talk | a socket that is, or may become, ours |
//! | Set | an epoll set, and where it is watched |
//!
//! The kernel gives numbers; a descriptor that is closed where we do not see it (a bare system call) and made anew where we
//! do not see it either keeps its old word. So every function that makes descriptors writes what it made.
//!
//! In the child of a vfork, which has its parent's memory, nothing is written here.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use libc::c_int;
use m3ipc_shim::engine::{Birth, Talk};

/// Descriptors that have a word; those above go to the kernel.
pub const LIMIT: usize = 1 << 20;

static WORDS: AtomicPtr<AtomicU64> = AtomicPtr::new(core::ptr::null_mut());
/// One more than the highest descriptor that has a word other than Unknown.
static TOP: AtomicUsize = AtomicUsize::new(0);
/// Whether any Talk was ever given to two descriptors.
static ANY_SHARED: AtomicBool = AtomicBool::new(false);

/// What is known of a descriptor.
#[derive(Clone, Copy)]
pub enum Entry {
    Unknown,
    Plain,
    Pinned,
    Closing,
    Born { how: Birth, edges: bool },
    Talk(&'static Talk),
    Set(usize),
}

const SHIFT: u32 = 60;
const BODY: u64 = (1 << SHIFT) - 1;
const EDGES: u64 = 0x100;

impl Entry {
    fn word(self) -> u64 {
        match self {
            Self::Unknown => 0,
            Self::Plain => 1 << SHIFT,
            Self::Pinned => 2 << SHIFT,
            Self::Closing => 3 << SHIFT,
            Self::Born { how, edges } => 4 << SHIFT | how as u64 | if edges { EDGES } else { 0 },
            Self::Talk(talk) => 5 << SHIFT | core::ptr::from_ref(talk) as u64,
            Self::Set(index) => 6 << SHIFT | index as u64,
        }
    }

    fn of(word: u64) -> Self {
        let body = word & BODY;
        match word >> SHIFT {
            0 => Self::Unknown,
            2 => Self::Pinned,
            3 => Self::Closing,
            4 => {
                let how = [Birth::Connected, Birth::Accepted, Birth::Paired, Birth::Found]
                    .into_iter()
                    .find(|how| *how as u64 == body & 0xff)
                    .unwrap_or(Birth::Found);
                Self::Born { how, edges: body & EDGES != 0 }
            }
            5 => Self::Talk(unsafe { &*(body as *const Talk) }),
            6 => Self::Set(body as usize),
            _ => Self::Plain,
        }
    }
}

/// Makes room. Without it every descriptor is Plain, and the library does nothing.
pub fn open() {
    let bytes = LIMIT * size_of::<AtomicU64>();
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
    );
    let words = [0, bytes, protection as usize, flags as usize, usize::MAX, 0];
    if let Ok(at) = unsafe { crate::raw(libc::SYS_mmap, words) } {
        WORDS.store(at as *mut AtomicU64, Ordering::Release);
    }
}

fn cell(fd: c_int) -> Option<&'static AtomicU64> {
    let words = WORDS.load(Ordering::Relaxed);
    let index = usize::try_from(fd).ok()?;
    if words.is_null() || index >= LIMIT {
        return None;
    }
    Some(unsafe { &*words.add(index) })
}

/// What is known of a descriptor.
#[inline]
pub fn get(fd: c_int) -> Entry {
    cell(fd).map_or(Entry::Plain, |cell| Entry::of(cell.load(Ordering::Acquire)))
}

/// Says what a descriptor is; who finds out first wins over who only looked.
pub fn learn(fd: c_int, from: Entry, to: Entry) -> bool {
    let Some(cell) = cell(fd).filter(|_cell| !crate::hook::in_vfork()) else { return false };
    reach(fd);
    cell.compare_exchange(from.word(), to.word(), Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// Says what a new descriptor is; what its number was before is forgotten.
pub fn set(fd: c_int, entry: Entry) {
    let Some(cell) = cell(fd).filter(|_cell| !crate::hook::in_vfork()) else { return };
    let word = entry.word();
    // Most files are made, used and closed without anybody asking.
    if cell.load(Ordering::Relaxed) == word {
        return;
    }
    reach(fd);
    let before = Entry::of(cell.swap(word, Ordering::AcqRel));
    // What its number stood for is gone already.
    let heir = drop_entry(fd, -1, before);
    crate::watch::forget(fd, heir);
}

/// Says what an open descriptor is to be from now on; the engine keeps what it had of it.
pub fn set_without_forgetting(fd: c_int, entry: Entry) {
    if let Some(cell) = cell(fd).filter(|_cell| !crate::hook::in_vfork()) {
        cell.store(entry.word(), Ordering::Release);
    }
}

fn reach(fd: c_int) {
    TOP.fetch_max(fd as usize + 1, Ordering::Relaxed);
}

/// One more than the highest descriptor that is known.
pub fn top() -> c_int {
    TOP.load(Ordering::Relaxed) as c_int
}

/// The descriptor is about to be closed; whether [`closed`] is to be called after that.
pub fn closing(fd: c_int) -> bool {
    let Some(cell) = cell(fd).filter(|_cell| !crate::hook::in_vfork()) else { return false };
    // One load for all those files.
    if matches!(Entry::of(cell.load(Ordering::Relaxed)), Entry::Unknown) {
        return false;
    }
    let heir = drop_entry(fd, fd, Entry::of(cell.swap(Entry::Closing.word(), Ordering::AcqRel)));
    crate::watch::forget(fd, heir);
    true
}

/// It has been closed; another thread may have got its number meanwhile, and said what it is.
pub fn closed(fd: c_int) {
    if let Some(cell) = cell(fd) {
        let _ =
            cell.compare_exchange(Entry::Closing.word(), 0, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// `to` is now another number for what `fd` is.
pub fn copy(fd: c_int, to: c_int) {
    let mut entry = get(fd);
    // Two numbers must not decide on their own.
    if matches!(entry, Entry::Born { .. } | Entry::Unknown) && crate::look::talk(fd).is_some() {
        entry = get(fd);
    }
    if let Entry::Talk(_) = entry {
        ANY_SHARED.store(true, Ordering::Relaxed);
        crate::watch::need_tokens(fd);
    }
    if let Entry::Set(index) = entry {
        crate::watch::keep(index);
    }
    // What is being closed under our hands is nobody's knowledge.
    set(to, if let Entry::Closing = entry { Entry::Unknown } else { entry });
    if let Entry::Talk(_) = entry {
        crate::watch::doubled(to);
    }
}

/// Forgets a range of descriptors that is closed at once.
pub fn close_all(first: usize, last: usize) {
    let last = last.min(TOP.load(Ordering::Relaxed).saturating_sub(1));
    for fd in first..=last {
        if first <= last && !matches!(get(fd as c_int), Entry::Unknown) {
            set(fd as c_int, Entry::Unknown);
        }
    }
}

/// Every descriptor that has a talk.
pub fn talks() -> impl Iterator<Item = (c_int, &'static Talk)> {
    (0..top())
        .filter_map(|fd| if let Entry::Talk(talk) = get(fd) { Some((fd, talk)) } else { None })
}

/// `fd` no longer stands for this; `open` is the descriptor where it is still open. Another one that stands for the same.
fn drop_entry(fd: c_int, open: c_int, before: Entry) -> Option<c_int> {
    match before {
        Entry::Talk(talk) => {
            let same = |(other, one): &(c_int, &Talk)| *other != fd && core::ptr::eq(*one, talk);
            if ANY_SHARED.load(Ordering::Relaxed)
                && let Some((heir, _talk)) = talks().find(same)
            {
                return Some(heir);
            }
            talk.forget(open);
        }
        Entry::Set(index) => crate::watch::close(index),
        _ => {}
    }
    None
}

/// Whether a descriptor is closed on exec; not where there is none.
pub fn is_cloexec(fd: c_int) -> Option<bool> {
    unsafe { crate::raw(libc::SYS_fcntl, [fd as usize, libc::F_GETFD as usize, 0, 0, 0, 0]) }
        .ok()
        .map(|flags| flags & libc::FD_CLOEXEC as usize != 0)
}
