//! The ward: watches the pulses of the members, to know of a death before the kernel tells everybody.
//!
//! The kernel marks a pulse when its thread begins to end; descriptors of the process become readable
//! only when its memory has been given back. A stopped pulse is no more than a hint (a thread may end
//! while its process goes on, and the word is the member's to write), so the process is looked at:
//! it counts as dead when none of its threads will ever run a program's code again.

use m3ipc_link::ControlPageView;
use m3ipc_sys::{LIVENESS_OWNER_DIED, LIVENESS_OWNER_MASK, LIVENESS_WAITERS, WAIT_WORDS_MAX};
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many pulses one sleep can wait for beside the word that ends it.
const BEDS_PER_ROOM: usize = WAIT_WORDS_MAX - 1;
/// Threads of the ward: beyond their beds, deaths are told by the kernel's descriptors alone.
const ROOMS_MAX: usize = 16;
/// How often a process is looked at whose other threads have still to notice that they end.
const LOOKS: u32 = 64;
/// The pause between two looks.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_micros(20);
const SLEEP_NS: u64 = 3_600_000_000_000;
/// Size of a word of the pipe, in bytes: the connection of an endpoint.
const WORD: usize = size_of::<u64>();

/// A pulse that is watched.
#[derive(Debug)]
struct Bed {
    token: u64,
    pid: i32,
    /// Where the endpoint is a thread's.
    tid: Option<i32>,
    desk: Arc<ControlPageView>,
    /// What the word was when it was looked at last, and must still be: a change of any other kind is the member's, and ends the watch.
    word: u32,
}

#[derive(Debug, Default)]
struct Room {
    beds: Mutex<Vec<Bed>>,
    changed: AtomicU32,
    /// Its thread has ended: the room is empty, or the kernel cannot wait for several words, or not for these.
    closed: AtomicBool,
}

/// The daemon's side.
#[derive(Debug)]
pub(crate) struct Ward {
    rooms: Vec<Arc<Room>>,
    endings: PipeReader,
    writer: Arc<PipeWriter>,
}

impl Room {
    fn beds(&self) -> MutexGuard<'_, Vec<Bed>> {
        self.beds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_changed(&self) {
        self.changed.fetch_add(1, Ordering::Release);
        m3ipc_sys::wake(&self.changed);
    }
}

impl Ward {
    /// An empty ward, with one thread.
    pub(crate) fn new() -> std::io::Result<Self> {
        let (endings, writer) = std::io::pipe()?;
        let mut ward = Self { rooms: Vec::new(), endings, writer: Arc::new(writer) };
        ward.open(true);
        Ok(ward)
    }

    /// What becomes readable when somebody has begun to end.
    pub(crate) fn endings(&self) -> &PipeReader {
        &self.endings
    }

    /// Watches the pulse in this desk, where its owner has taken it.
    pub(crate) fn watch(
        &mut self,
        token: u64,
        pid: i32,
        tid: Option<i32>,
        desk: &Arc<ControlPageView>,
    ) {
        let word =
            desk.liveness_lock().fetch_or(LIVENESS_WAITERS, Ordering::AcqRel) | LIVENESS_WAITERS;
        if word & LIVENESS_OWNER_MASK == 0 {
            return;
        }
        let Some(room) = self.room() else { return };
        let mut beds = room.beds();
        // One that has just closed keeps nobody: rare, and the descriptor tells.
        if !room.closed.load(Ordering::Acquire) {
            beds.push(Bed { token, pid, tid, desk: Arc::clone(desk), word });
            drop(beds);
            room.has_changed();
        }
    }

    /// Watches the pulse of this connection's desk no more.
    pub(crate) fn forget(&mut self, token: u64) {
        for room in &self.rooms {
            let mut beds = room.beds();
            if let Some(at) = beds.iter().position(|bed| bed.token == token) {
                beds.swap_remove(at);
                drop(beds);
                return room.has_changed();
            }
        }
    }

    /// A room with a free bed; a new one where there is none.
    fn room(&mut self) -> Option<Arc<Room>> {
        let has_room = |room: &&Arc<Room>| {
            room.beds().len() < BEDS_PER_ROOM && !room.closed.load(Ordering::Relaxed)
        };
        if let Some(room) = self.rooms.iter().find(has_room) {
            return Some(Arc::clone(room));
        }
        self.rooms.retain(|room| !room.closed.load(Ordering::Acquire));
        if self.rooms.len() < ROOMS_MAX { self.open(false) } else { None }
    }

    fn open(&mut self, is_kept: bool) -> Option<Arc<Room>> {
        let room = Arc::new(Room::default());
        let (kept, writer) = (Arc::clone(&room), Arc::clone(&self.writer));
        let thread = std::thread::Builder::new().name("ward".into()).stack_size(128 * 1024);
        thread.spawn(move || keep(&kept, &writer, is_kept)).ok()?;
        self.rooms.push(Arc::clone(&room));
        Some(room)
    }

    /// The connections whose endpoints have begun to end; called when there is something to read.
    pub(crate) fn take(&mut self) -> Vec<u64> {
        let mut buffer = [0; 64 * WORD];
        // Words are written whole.
        let bytes = self.endings.read(&mut buffer).unwrap_or(0);
        let words = buffer[..bytes].chunks_exact(WORD);
        words.filter_map(|word| Some(u64::from_ne_bytes(word.try_into().ok()?))).collect()
    }
}

/// One thread: sleeps until a pulse stops, and tells of it. Ends with its last bed, unless it is to be kept.
fn keep(room: &Room, mut writer: &PipeWriter, is_kept: bool) {
    loop {
        let changed = room.changed.load(Ordering::Acquire);
        let stopped = take_changed(&mut room.beds());
        for bed in stopped {
            if has_ended(&bed) && writer.write_all(&bed.token.to_ne_bytes()).is_err() {
                return;
            }
        }
        let beds = room.beds();
        if beds.is_empty() && changed > 0 && !is_kept {
            return room.closed.store(true, Ordering::Release);
        }
        let watched: Vec<(Arc<ControlPageView>, u32)> =
            beds.iter().map(|bed| (Arc::clone(&bed.desk), bed.word)).collect();
        drop(beds);
        let mut words = vec![(&room.changed, changed)];
        words.extend(watched.iter().map(|(desk, word)| (desk.liveness_lock(), *word)));
        let until_ns = m3ipc_sys::monotonic_ns().saturating_add(SLEEP_NS);
        if let Err(errno) = m3ipc_sys::wait_any(&words, until_ns) {
            tracing::info!(%errno, "deaths are told by descriptors alone");
            room.closed.store(true, Ordering::Relaxed);
            return room.beds().clear();
        }
    }
}

/// Takes out all beds whose word is not what it was; gives back those whose pulse has stopped.
fn take_changed(beds: &mut Vec<Bed>) -> Vec<Bed> {
    let changed = beds.extract_if(.., |bed| {
        let found = bed.desk.liveness_lock().load(Ordering::Acquire);
        found != std::mem::replace(&mut bed.word, found)
    });
    changed.filter(|bed| bed.word & LIVENESS_OWNER_DIED != 0).collect()
}

/// Whether it ends for good. The threads of a killed process come to know of it one by one.
fn has_ended(bed: &Bed) -> bool {
    for _ in 0..LOOKS {
        match m3ipc_sys::is_ending(bed.pid, bed.tid) {
            Ok(true) => return true,
            Ok(false) => std::thread::sleep(LOOK_AGAIN),
            // Gone, or hidden: its descriptor tells.
            Err(_) => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests;
