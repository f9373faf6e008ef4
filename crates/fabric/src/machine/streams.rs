//! Long payloads: they follow their call, or their answer, in pieces.
//!
//! ```text
//! sender's node                      receiver's node
//! Call, or End: so many bytes ---->  waits for room
//!             <----------------------  Fetch
//! Piece, Piece, ... (bulk lane) --->  offered, or answered, when complete
//! ```
//!
//! The receiver's node decides when the pieces come, so it bounds its memory by itself, and nothing
//! is sent to a receiver that is missing. The streams of a peer take turns. The bulk lane has a
//! small window, so that a message waits for few pieces.

use std::collections::{BTreeMap, VecDeque};

use crate::ids::CallId;
use crate::packet::{PIECED_MAX_BYTES, StreamKind};

/// A stream, by its call.
pub(super) type StreamKey = (CallId, StreamKind);

/// Bytes that leave.
#[derive(Debug)]
struct OutStream {
    bytes: Vec<u8>,
    sent: usize,
    is_fetched: bool,
}

/// Bytes that come.
#[derive(Debug)]
struct InStream {
    total: usize,
    bytes: Vec<u8>,
    is_fetched: bool,
}

/// Bytes came that nobody has asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unasked;

/// What a piece has made of its stream.
#[derive(Debug)]
pub(super) enum Added {
    /// More is to come.
    Part,
    /// It is complete.
    Whole(Vec<u8>),
    /// This process has no memory for it.
    NoMemory,
}

/// The streams of a peer.
#[derive(Debug, Default)]
pub(super) struct Streams {
    outgoing: BTreeMap<StreamKey, OutStream>,
    /// Fetched streams with bytes left: they take turns.
    ready: VecDeque<StreamKey>,
    incoming: BTreeMap<StreamKey, InStream>,
    /// Those of calls, and those of answers. An answer must not wait for the take of a call.
    budgets: [Budget; 2],
    /// The bytes of calls, and of answers, that have not left.
    outgoing_bytes: [u64; 2],
    /// When an answer left in part, or the first of those that wait here came.
    answers_moved_ns: u64,
}

/// What may come of one kind.
#[derive(Debug, Default)]
struct Budget {
    /// Streams to be fetched when there is room.
    wanted: VecDeque<StreamKey>,
    /// What the fetched ones add up to.
    fetched_bytes: u64,
}

impl Streams {
    pub fn is_empty(&self) -> bool {
        self.outgoing.is_empty() && self.incoming.is_empty()
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> u64 {
        let outgoing = self.outgoing.values().map(|it| it.bytes.len() as u64);
        let incoming = self.incoming.values().map(|it| it.bytes.len() as u64);
        outgoing.chain(incoming).sum()
    }

    /// Bytes of calls, or of answers, that have not left.
    pub fn outgoing_bytes(&self, of: StreamKind) -> u64 {
        self.outgoing_bytes[of as usize]
    }

    /// Whether answers wait here of which the peer has let none leave for so long.
    pub fn answers_stall(&self, now_ns: u64, stall_ns: u64) -> bool {
        let has_answers = self.outgoing_bytes(StreamKind::Answer) > 0;
        has_answers && now_ns.saturating_sub(self.answers_moved_ns) >= stall_ns
    }

    /// Whether a stream has bytes that were never sent: its receiver surely cannot complete it.
    pub fn is_unfinished(&self, key: StreamKey) -> bool {
        self.outgoing.contains_key(&key)
    }

    pub fn begin(&mut self, now_ns: u64, key: StreamKey, bytes: Vec<u8>) {
        if key.1 == StreamKind::Answer && self.outgoing_bytes(key.1) == 0 {
            self.answers_moved_ns = now_ns;
        }
        self.drop_outgoing(key);
        self.outgoing_bytes[key.1 as usize] += bytes.len() as u64;
        self.outgoing.insert(key, OutStream { bytes, sent: 0, is_fetched: false });
    }

    /// The call of an outgoing stream has ended.
    pub fn drop_outgoing(&mut self, key: StreamKey) {
        if let Some(stream) = self.outgoing.remove(&key) {
            self.outgoing_bytes[key.1 as usize] -= stream.bytes.len() as u64;
            self.ready.retain(|other| *other != key);
        }
    }

    /// The peer has announced a stream. `false` if it may not.
    #[must_use]
    pub fn expect(&mut self, key: StreamKey, total: u32) -> bool {
        let total = total as usize;
        if total == 0 || total > PIECED_MAX_BYTES || self.incoming.contains_key(&key) {
            return false;
        }
        self.incoming.insert(key, InStream { total, bytes: Vec::new(), is_fetched: false });
        self.budgets[key.1 as usize].wanted.push_back(key);
        true
    }

    /// The receiver has the bytes, or never gets them.
    pub fn release(&mut self, key: StreamKey) {
        let Some(stream) = self.incoming.remove(&key) else { return };
        let budget = &mut self.budgets[key.1 as usize];
        if stream.is_fetched {
            budget.fetched_bytes = budget.fetched_bytes.saturating_sub(stream.total as u64);
        } else {
            budget.wanted.retain(|other| *other != key);
        }
    }

    /// The next stream to fetch, if there is room.
    pub fn next_fetch(&mut self, limit: u64) -> Option<StreamKey> {
        self.budgets.iter_mut().find_map(|budget| {
            let key = *budget.wanted.front()?;
            let stream = self.incoming.get_mut(&key)?;
            let bytes = budget.fetched_bytes.saturating_add(stream.total as u64);
            if budget.fetched_bytes > 0 && bytes > limit {
                return None;
            }
            budget.wanted.pop_front();
            stream.is_fetched = true;
            budget.fetched_bytes = bytes;
            Some(key)
        })
    }

    /// The next piece of the next stream.
    pub fn next_piece(&mut self, now_ns: u64, bytes: usize) -> Option<(StreamKey, Vec<u8>)> {
        let key = self.ready.pop_front()?;
        if key.1 == StreamKind::Answer {
            self.answers_moved_ns = now_ns;
        }
        let stream = self.outgoing.get_mut(&key)?;
        let end = stream.bytes.len().min(stream.sent + bytes);
        let piece = stream.bytes.get(stream.sent..end)?.to_vec();
        stream.sent = end;
        if end == stream.bytes.len() {
            self.drop_outgoing(key);
        } else {
            self.ready.push_back(key);
        }
        Some((key, piece))
    }

    /// The peer asks for a stream. `false` if it has asked before.
    #[must_use]
    pub fn fetched(&mut self, key: StreamKey) -> bool {
        // The call may have ended meanwhile.
        let Some(stream) = self.outgoing.get_mut(&key) else { return true };
        if std::mem::replace(&mut stream.is_fetched, true) {
            return false;
        }
        self.ready.push_back(key);
        true
    }

    /// The first stream that was asked for.
    pub fn first_asked(&self) -> Option<StreamKey> {
        self.incoming.iter().find(|(_, it)| it.is_fetched).map(|(key, _)| *key)
    }

    /// Adds a piece.
    ///
    /// # Errors
    /// [`Unasked`].
    pub fn add(&mut self, key: StreamKey, piece: &[u8]) -> Result<Added, Unasked> {
        // The call may have ended while the piece was under way.
        let Some(stream) = self.incoming.get_mut(&key) else { return Ok(Added::Part) };
        if !stream.is_fetched || piece.len() > stream.total - stream.bytes.len() {
            return Err(Unasked);
        }
        let more = stream.total.min(stream.bytes.capacity().max(1 << 20)).max(piece.len());
        if stream.bytes.try_reserve(more).is_err() {
            return Ok(Added::NoMemory);
        }
        stream.bytes.extend_from_slice(piece);
        Ok(match stream.bytes.len() == stream.total {
            true => Added::Whole(std::mem::take(&mut stream.bytes)),
            false => Added::Part,
        })
    }
}
