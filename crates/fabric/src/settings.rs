//! Times and limits of a proxy.

/// A millisecond in nanoseconds.
const MS: u64 = 1_000_000;

/// The longest payload in the packet of its message, in bytes.
pub const LONG_MAX_BYTES: usize = 60 * 1024;
/// The longest piece of a payload or of a copy, in bytes: as long as a chunk of a copy.
pub const PIECE_MAX_BYTES: usize = 64 * 1024;

/// Times and limits. [`Settings::default`] has the values of the failure table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A connected peer gets a heartbeat after this time without another packet.
    pub beat_ns: u64,
    /// A peer that is silent for this time is suspect: another incarnation may then replace it.
    pub suspect_ns: u64,
    /// The session with a connected peer ends after this time of silence.
    pub silence_ns: u64,
    /// A session without connection ends after this time.
    pub grace_ns: u64,
    /// Packets are sent again if the peer acknowledged none for this time.
    pub resend_ns: u64,
    /// An acknowledgement waits this long for a packet that carries it.
    pub ack_delay_ns: u64,
    /// The requester learns that its request was taken if no answer came within this time.
    pub took_delay_ns: u64,
    /// A call whose cancellation is not answered within this time ends with an unknown outcome.
    pub cancel_ns: u64,
    /// A longer payload travels in pieces, in bytes; at most [`LONG_MAX_BYTES`].
    pub inline_bytes: usize,
    /// The length of a piece, in bytes; at most [`PIECE_MAX_BYTES`].
    pub piece_bytes: usize,
    /// Bytes of a copy that may be under way.
    pub copy_window_bytes: u64,
    /// How much of the peer and of each VM this node admits, and keeps for the peer.
    pub limits: Limits,
}

/// Limits per peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Calls of a peer that may be open here.
    pub calls: u32,
    /// Calls of a peer in one VM that may be open here.
    pub calls_of_vm: u32,
    /// Calls for a peer that may wait here to be sent.
    pub waiting: u32,
    /// Calls for a peer in one VM that may wait here to be sent.
    pub waiting_of_vm: u32,
    /// Notifications for a peer that may wait here, one per pair of endpoints.
    pub notifications: u32,
    /// Bytes of payloads in pieces that may be under way from a peer, and that may wait here for
    /// it. One that is longer may be the only one.
    pub pieced_bytes: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            beat_ns: 250 * MS,
            suspect_ns: 1_000 * MS,
            silence_ns: 3_000 * MS,
            grace_ns: 2_000 * MS,
            resend_ns: 500 * MS,
            ack_delay_ns: 20 * MS,
            took_delay_ns: 5 * MS,
            cancel_ns: 1_000 * MS,
            inline_bytes: LONG_MAX_BYTES,
            piece_bytes: PIECE_MAX_BYTES,
            copy_window_bytes: 512 * 1024,
            limits: Limits::default(),
        }
    }
}

impl Limits {
    /// Answers in pieces that may wait here for a peer that fetches none, in bytes: with the
    /// default, two of the longest.
    pub(crate) const fn answers_bytes(&self) -> u64 {
        8 * self.pieced_bytes
    }

    /// The same for a peer that fetches them. It decides how fast, so these have an end, too.
    pub(crate) const fn answers_max_bytes(&self) -> u64 {
        4 * self.answers_bytes()
    }

    /// Whether there is room for a call of so many bytes in pieces, beside those of others.
    pub(crate) fn has_room_for_pieces(&self, others: u64, bytes: u64) -> bool {
        others == 0 || others.saturating_add(bytes) <= self.pieced_bytes
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            calls: 1024,
            calls_of_vm: 512,
            waiting: 1024,
            waiting_of_vm: 512,
            notifications: 4096,
            pieced_bytes: 64 << 20,
        }
    }
}
