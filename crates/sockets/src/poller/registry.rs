//! What a poller awaits: its entries, its bitmaps, and what was found and not reported yet.

use crate::pair::{Pair, Place};
use crate::polled::{PollEvent, PolledConnection};
use crate::record::low_half;
use crate::stream::Connection;
use m3ipc_link::armed::{self, ROWS};
use m3ipc_link::{AdaptiveSpin, SpinWait, WaitStrategy};
use m3ipc_sys::{Interest, Mode, Ready};
use m3ipc_wire::sock::SOCK_SLOTS;
use std::collections::{HashMap, VecDeque};
use std::os::fd::RawFd;
use std::sync::Arc;

/// The most bitmaps that are awake at once. Each costs a poll the look at a line.
const AWAKE_MAX: usize = 256;
/// The most events of one wait.
const EVENTS_MAX: usize = 1024;
/// No entry.
const NONE: u32 = u32::MAX;

/// A stream or a descriptor.
#[derive(Debug)]
struct Entry {
    token: u64,
    interest: Interest,
    mode: Mode,
    stream: Option<PolledStream>,
    descriptor: Option<RawFd>,
    /// It is among the found ones.
    is_found: bool,
    /// The number of the wait that has reported it, and the position of the event.
    reported: (u64, usize),
}

#[derive(Debug)]
struct PolledStream {
    connection: Arc<PolledConnection>,
    /// The bitmap, and the row in it; `None` where no bitmap was free.
    at: Option<(usize, usize)>,
}

/// The connections of one region of memory: a row of a bitmap.
#[derive(Debug)]
struct Row {
    pair: Arc<Pair>,
    /// The entries by the slots of their connections.
    entries: [u32; SOCK_SLOTS],
    used: usize,
}

/// A bitmap: the memory that one peer writes for this poller.
#[derive(Debug)]
struct OwnBitmap {
    pair: Arc<Pair>,
    number: usize,
    rows: Vec<Option<Box<Row>>>,
    is_awake: bool,
}

/// What a poller awaits.
#[derive(Debug)]
pub(super) struct Registry {
    entries: Vec<Option<Entry>>,
    /// How often each place in `entries` was used.
    generations: Vec<u32>,
    free: Vec<u32>,
    descriptors: HashMap<RawFd, u64>,
    bitmaps: Vec<Option<OwnBitmap>>,
    awake: Vec<usize>,
    /// Entries that may have bytes.
    found: VecDeque<u32>,
    /// Level-triggered entries that the last wait has reported.
    again: Vec<u32>,
    wait: u64,
    asked_ticks: u64,
    /// A thread sleeps in the kernel, or may do so by other means.
    is_asleep: bool,
    is_notified: bool,
    /// Entries that wait for room: only the kernel knows of it.
    writers: usize,
    /// The stream that was reported last.
    latest: u32,
    spin: AdaptiveSpin,
}

/// Whether each wait must ask the kernel for this entry. An edge of room may come later.
fn has_writer(interest: Interest, mode: Mode) -> usize {
    let writes = matches!(interest, Interest::Write | Interest::ReadOrWrite);
    usize::from(writes && mode == Mode::Level)
}

/// The place of an entry in the list; the rest of its number counts the uses of that place.
fn place_of(entry: u64) -> usize {
    low_half(entry) as usize
}

impl Registry {
    pub(super) fn new() -> Self {
        Self {
            entries: vec![],
            generations: vec![],
            free: vec![],
            descriptors: HashMap::new(),
            bitmaps: vec![],
            awake: vec![],
            found: VecDeque::new(),
            again: vec![],
            wait: 0,
            asked_ticks: 0,
            is_asleep: false,
            is_notified: false,
            writers: 0,
            latest: NONE,
            spin: AdaptiveSpin::new(WaitStrategy::Adaptive),
        }
    }

    /// Adds an entry; returns its number.
    pub(super) fn add(
        &mut self,
        token: u64,
        interest: Interest,
        mode: Mode,
        connection: Option<&Connection>,
    ) -> u64 {
        let at = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.generations.push(0);
            low_half(self.entries.len() as u64 - 1)
        });
        let place = at as usize;
        self.generations[place] = self.generations[place].wrapping_add(1) & (u32::MAX >> 1);
        let stream = connection.map(|connection| PolledStream {
            connection: Arc::clone(connection.polled()),
            at: self.take_row(connection, at),
        });
        self.writers += has_writer(interest, mode);
        self.entries[place] = Some(Entry {
            token,
            interest,
            mode,
            stream,
            descriptor: None,
            is_found: false,
            reported: (0, 0),
        });
        u64::from(self.generations[place]) << 32 | u64::from(at)
    }

    /// A bit in a row for this connection.
    fn take_row(&mut self, connection: &Connection, entry: u32) -> Option<(usize, usize)> {
        let (pair, slot) = (&connection.pair, connection.polled().out.slot);
        let (number, row) = match self.find_row(pair) {
            Some(found) => found,
            None => (self.take_bitmap(pair)?, 0),
        };
        let bitmap = self.bitmaps[number].as_mut()?;
        if row >= bitmap.rows.len() {
            bitmap.rows.resize_with(row + 1, || None);
        }
        let row_of = bitmap.rows[row].get_or_insert_with(|| {
            Box::new(Row { pair: Arc::clone(pair), entries: [NONE; SOCK_SLOTS], used: 0 })
        });
        row_of.used += usize::from(row_of.entries[slot] == NONE);
        row_of.entries[slot] = entry;
        Some((number, row))
    }

    /// The row of this pair, else a free row in a bitmap of the same peer.
    fn find_row(&self, pair: &Arc<Pair>) -> Option<(usize, usize)> {
        let mut free = None;
        for (number, bitmap) in self.bitmaps.iter().enumerate() {
            let Some(bitmap) = bitmap else { continue };
            if (bitmap.pair.peer, bitmap.pair.side) != (pair.peer, pair.side) {
                continue;
            }
            let holds = |row: &Option<Box<Row>>| {
                row.as_ref().is_some_and(|row| Arc::ptr_eq(&row.pair, pair))
            };
            if let Some(row) = bitmap.rows.iter().position(holds) {
                return Some((number, row));
            }
            let row = bitmap.rows.iter().position(Option::is_none).unwrap_or(bitmap.rows.len());
            if row < ROWS {
                free = free.or(Some((number, row)));
            }
        }
        free
    }

    fn take_bitmap(&mut self, pair: &Arc<Pair>) -> Option<usize> {
        let number = pair.take_bitmap()?;
        let bitmap = OwnBitmap { pair: Arc::clone(pair), number, rows: vec![], is_awake: false };
        let free = self.bitmaps.iter().position(Option::is_none).unwrap_or(self.bitmaps.len());
        if free == self.bitmaps.len() {
            self.bitmaps.push(None);
        }
        self.bitmaps[free] = Some(bitmap);
        Some(free)
    }

    fn entry(&self, entry: u64) -> Option<&Entry> {
        let place = place_of(entry);
        let generation = self.generations.get(place).copied().map(u64::from);
        self.entries.get(place)?.as_ref().filter(|_| generation == Some(entry >> 32))
    }

    /// The number of the place at which the connection is armed.
    pub(super) fn place(&self, entry: u64) -> Option<u64> {
        let (bitmap, row) = self.entry(entry)?.stream.as_ref()?.at?;
        let bitmap = self.bitmaps[bitmap].as_ref()?;
        Place { pair: bitmap.pair.id, bitmap: bitmap.number, row }.encode()
    }

    pub(super) fn name_descriptor(&mut self, entry: u64, fd: RawFd) {
        if let Some(Some(of)) = self.entries.get_mut(place_of(entry)) {
            of.descriptor = Some(fd);
            // A descriptor that was closed in the poller left its name.
            self.descriptors.insert(fd, entry);
        }
    }

    pub(super) fn descriptor(&self, fd: RawFd) -> Option<u64> {
        self.descriptors.get(&fd).copied()
    }

    /// Changes an entry.
    pub(super) fn change(&mut self, entry: u64, token: u64, interest: Interest, mode: Mode) {
        if let Some(Some(of)) = self.entries.get_mut(place_of(entry)) {
            self.writers += has_writer(interest, mode);
            self.writers -= has_writer(of.interest, of.mode);
            (of.token, of.interest, of.mode) = (token, interest, mode);
        }
    }

    /// Removes an entry.
    pub(super) fn remove(&mut self, entry: u64) {
        let place = place_of(entry);
        let Some(of) = self.entries.get_mut(place).and_then(Option::take) else { return };
        self.free.push(low_half(place as u64));
        self.writers -= has_writer(of.interest, of.mode);
        if let Some(fd) = of.descriptor
            && self.descriptor(fd) == Some(entry)
        {
            self.descriptors.remove(&fd);
        }
        let Some(stream) = of.stream else { return };
        let Some((number, row)) = stream.at else { return };
        let Some(bitmap) = self.bitmaps[number].as_mut() else { return };
        if let Some(of) = &mut bitmap.rows[row] {
            of.entries[stream.connection.out.slot] = NONE;
            of.used -= 1;
            if of.used == 0 {
                bitmap.rows[row] = None;
            }
        }
        if bitmap.rows.iter().all(Option::is_none) {
            self.give_bitmap_back(number);
        }
    }

    fn give_bitmap_back(&mut self, number: usize) {
        self.awake.retain(|at| *at != number);
        if let Some(bitmap) = self.bitmaps[number].take() {
            armed::fall_asleep(&bitmap.pair.bitmap(false, bitmap.number));
            bitmap.pair.give_bitmap_back(bitmap.number);
        }
    }

    /// Ends all of it.
    pub(super) fn end(&mut self) {
        for of in self.entries.drain(..).flatten() {
            if let Some(stream) = of.stream {
                stream.connection.disarm();
            }
        }
        (0..self.bitmaps.len()).for_each(|number| self.give_bitmap_back(number));
    }

    /// Begins a wait.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.wait += 1;
        self.is_notified = false;
        self.find_again();
    }

    #[inline]
    fn find_again(&mut self) {
        while let Some(at) = self.again.pop() {
            self.find(at);
        }
    }

    /// Notes that an entry may have bytes.
    #[inline]
    fn find(&mut self, at: u32) {
        if let Some(Some(of)) = self.entries.get_mut(at as usize)
            && !of.is_found
        {
            of.is_found = true;
            self.found.push_back(at);
        }
    }

    /// Notes that the entry with this number may have bytes.
    pub(super) fn look_at(&mut self, entry: u64) {
        self.find(low_half(entry));
    }

    /// Takes the bits of all bitmaps that are awake; `true` where there was one.
    #[inline]
    pub(super) fn take_marks(&mut self) -> bool {
        let mut any = false;
        for at in 0..self.awake.len() {
            any |= self.take_marks_of(self.awake[at]);
        }
        any
    }

    #[inline]
    fn take_marks_of(&mut self, number: usize) -> bool {
        let Self { bitmaps, entries, found, .. } = self;
        let Some(Some(bitmap)) = bitmaps.get(number) else { return false };
        armed::take_marks(&bitmap.pair.bitmap(false, bitmap.number), |row, bit| {
            let Some(Some(row)) = bitmap.rows.get(row) else { return };
            row.pair.prefetch_slot(bit);
            let at = row.entries[bit];
            if let Some(Some(of)) = entries.get_mut(at as usize)
                && !of.is_found
            {
                of.is_found = true;
                found.push_back(at);
            }
        })
    }

    /// Whether an entry was found and has bytes.
    pub(super) fn has_ready(&self) -> bool {
        self.found.iter().any(|at| {
            let of = self.entries.get(*at as usize).and_then(Option::as_ref);
            of.and_then(|of| of.stream.as_ref()).is_some_and(|it| it.connection.has_bytes())
        })
    }

    /// Reports the found entries that have bytes; `true` where the wait is over.
    #[inline]
    pub(super) fn report(&mut self, events: &mut Vec<PollEvent>) -> bool {
        while events.len() < EVENTS_MAX
            && let Some(at) = self.found.pop_front()
        {
            let Some(Some(of)) = self.entries.get_mut(at as usize) else { continue };
            of.is_found = false;
            let Some(stream) = &of.stream else { continue };
            let wants = matches!(of.interest, Interest::Read | Interest::ReadOrWrite);
            stream.connection.prefetch();
            if wants && stream.connection.has_bytes() {
                let event = event(of.token, true);
                self.note(at, event, events);
            }
        }
        let is_over = !events.is_empty() || self.is_notified;
        self.is_asleep &= !is_over;
        is_over
    }

    /// Adds an event, or joins it with the entry's event of this wait.
    #[inline]
    fn note(&mut self, at: u32, event: PollEvent, events: &mut Vec<PollEvent>) {
        let Some(Some(of)) = self.entries.get_mut(at as usize) else { return };
        if of.reported.0 == self.wait
            && let Some(former) = events.get_mut(of.reported.1)
        {
            former.readable |= event.readable;
            former.writable |= event.writable;
            former.hung_up |= event.hung_up;
            return;
        }
        of.reported = (self.wait, events.len());
        events.push(event);
        let Some(stream) = &of.stream else { return };
        if of.mode == Mode::Level {
            self.again.push(at);
        }
        let bitmap = stream.at;
        self.latest = at;
        if let Some((number, _)) = bitmap {
            self.wake_bitmap(number);
        }
    }

    /// The peer of this bitmap is active: from now on it sets bits.
    #[inline]
    fn wake_bitmap(&mut self, number: usize) {
        if self.bitmaps[number].as_ref().is_none_or(|bitmap| bitmap.is_awake) {
            return;
        }
        if self.awake.len() >= AWAKE_MAX {
            self.let_bitmaps_sleep();
        }
        if let Some(bitmap) = self.bitmaps[number].as_mut() {
            bitmap.is_awake = true;
            armed::wake(&bitmap.pair.bitmap(false, bitmap.number));
            self.awake.push(number);
        }
    }

    /// Tells all peers that the loop sleeps, and takes their last bits.
    fn let_bitmaps_sleep(&mut self) {
        while let Some(number) = self.awake.pop() {
            if let Some(Some(bitmap)) = self.bitmaps.get_mut(number) {
                bitmap.is_awake = false;
                armed::fall_asleep(&bitmap.pair.bitmap(false, bitmap.number));
            }
            self.take_marks_of(number);
        }
    }

    /// The loop will sleep.
    pub(super) fn fall_asleep(&mut self) {
        self.is_asleep = true;
        self.find_again();
        self.let_bitmaps_sleep();
    }

    /// Whether a thread may sleep that did not look at the entries since.
    pub(super) fn is_asleep(&self) -> bool {
        self.is_asleep
    }

    /// Another thread wants the wait to end.
    pub(super) fn note_notification(&mut self) {
        self.is_notified = true;
    }

    /// Reports what the kernel says of an entry.
    pub(super) fn report_ready(&mut self, ready: &Ready, events: &mut Vec<PollEvent>) {
        let Some(of) = self.entry(ready.token) else { return };
        if let Some(stream) = &of.stream {
            stream.connection.ask_kernel();
        }
        let event = PollEvent {
            writable: ready.writable,
            hung_up: ready.gone,
            ..event(of.token, ready.readable)
        };
        self.note(low_half(ready.token), event, events);
    }

    /// Whether it is time to ask the kernel.
    #[inline]
    pub(super) fn kernel_is_due(&self, ticks: u64) -> bool {
        self.writers > 0 || m3ipc_sys::ticks().wrapping_sub(self.asked_ticks) > ticks
    }

    pub(super) fn kernel_was_asked(&mut self) {
        self.asked_ticks = m3ipc_sys::ticks();
    }

    /// The connection that was active last, where a peer is awake. A poller without one sleeps at
    /// once.
    pub(super) fn begin_spin(&mut self) -> Option<(Arc<PolledConnection>, SpinWait)> {
        if self.awake.is_empty() {
            return None;
        }
        let latest = self.entries.get(self.latest as usize)?.as_ref()?.stream.as_ref()?;
        Some((Arc::clone(&latest.connection), self.spin.begin()))
    }

    pub(super) fn learn(&mut self, wait: &SpinWait) {
        self.spin.learn(wait);
    }
}

fn event(token: u64, readable: bool) -> PollEvent {
    PollEvent { token, readable, writable: false, hung_up: false }
}
