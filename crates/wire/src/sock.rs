//! Frames about com-sockets, and the layout of the memory of a pair.
//!
//! A *party* is one process in one domain, with one control connection. Two parties that have met
//! share a *pair*: a control region that both write, and one pool of blocks per direction. A
//! control region has a slot for each connection. One party writes a pool; the other party reads
//! it.

use serde::{Deserialize, Serialize};

/// Connections of one pair. Further connections make another pair.
pub const SOCK_SLOTS: usize = 64;
/// Size of a block of a pool, in bytes.
pub const SOCK_BLOCK_BYTES: usize = 8192;
/// Blocks of a pool.
pub const SOCK_POOL_BLOCKS: usize = 256;
/// Size of a pool, in bytes.
pub const SOCK_POOL_BYTES: usize = SOCK_POOL_BLOCKS * SOCK_BLOCK_BYTES;
/// Blocks that one direction of a connection may hold.
pub const SOCK_CREDITS: usize = 32;
/// Offset of the first bitmap of a poller in a control region, in bytes.
pub const SOCK_BITMAPS: usize = 4096;
/// Bitmaps of a side of a pair: so many pollers of one process await connections of the peer.
pub const SOCK_BITMAPS_OF_SIDE: usize = 4;
/// Size of a bitmap, in bytes.
pub const SOCK_BITMAP_BYTES: usize = 2048;
/// Offset of the first slot in a control region, in bytes.
pub const SOCK_HEAD_BYTES: usize = SOCK_BITMAPS + 2 * SOCK_BITMAPS_OF_SIDE * SOCK_BITMAP_BYTES;
/// Size of a slot, in bytes: one [`half`] for each direction.
pub const SOCK_SLOT_BYTES: usize = 1024;
/// Size of a control region, in bytes.
pub const SOCK_CONTROL_BYTES: usize = SOCK_HEAD_BYTES + SOCK_SLOTS * SOCK_SLOT_BYTES;
/// Prepared connections beside a requested connection, at most. One packet carries no more
/// descriptors.
pub const SOCK_PREPARED_MAX: usize = 7;
/// Offset of a word in the head of a control region. The daemon sets it when the parties are no
/// longer in one VM.
pub const SOCK_SEPARATED: usize = 128;
/// The highest number of a domain in the default network.
pub const SOCK_DOMAIN_MAX: u32 = 65_532;

/// Offsets in a bitmap of a poller. The poller's side writes the state, the peer sets bits.
///
/// ```text
///   0 line of the state            whether the poller is awake
/// 128 line that the poller reads   rows 0 to 3, one bit for each slot; one bit for each other row
/// 256 the other rows
/// ```
pub mod bitmap {
    /// Whether the poller is awake.
    pub const STATE: usize = 0;
    /// The line that the poller reads.
    pub const FIRST_LINE: usize = 128;
    /// Rows that the first line sums up.
    pub const ROWS: usize = 256;
}

/// Offsets in one half of a slot, which serves one direction of a connection.
///
/// ```text
///   0 line of the sender        tail, bytes given to the kernel, cpu; suppression (both write it);
///                               suppressed wakeups
///  64 line of the receiver      head, bytes taken from the kernel, cpu, position of its polling
/// 128 counters of the sender    wakeups, overflows
/// 192 the blocks of the bytes from head to tail, in a ring
/// ```
pub mod half {
    /// Bytes that the sender has published.
    pub const TAIL: usize = 0;
    /// Bytes that the sender has put into records of the kernel's socket.
    pub const GIVEN: usize = 8;
    /// The word of notification suppression.
    pub const SUPPRESSION: usize = 16;
    /// One more than the CPU of the sender; 0 while it is unknown.
    pub const SENDER_CPU: usize = 24;
    /// Whether the receiver has ended, or is about to: senders then ask the kernel at each call.
    pub const RECEIVER_ENDED: usize = 40;
    /// Bytes that the receiver has taken out of blocks.
    pub const HEAD: usize = 64;
    /// Bytes that the receiver has taken out of records.
    pub const TAKEN: usize = 72;
    /// One more than the CPU of the receiver; 0 while it is unknown.
    pub const RECEIVER_CPU: usize = 80;
    /// The receiver polls and takes all bytes below this position.
    pub const POLLING: usize = 88;
    /// Wakeup records that the sender sent.
    pub const WAKEUPS: usize = 128;
    /// Wakeup records that the sender did not need.
    pub const WAKEUPS_SUPPRESSED: usize = 32;
    /// Records that carried bytes.
    pub const OVERFLOWS: usize = 144;
    /// Whether a prepared connection is open. Only the half of side 0 uses it.
    pub const OPENED: usize = 152;
    /// Numbers of the blocks, 32 bits each.
    pub const BLOCKS: usize = 192;
    /// Size of a half, in bytes.
    pub const BYTES: usize = 512;
}

/// The kind of a com-socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SockKind {
    /// Connections of bytes.
    Stream,
    /// Messages with boundaries.
    Datagram,
}

/// One side of a connection, as the daemon describes it to its party.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SockConnection {
    /// The pair, by its number at this daemon.
    pub pair: u64,
    /// The party's side of the pair: 0 or 1.
    pub side: u8,
    /// The connection's slot in the pair.
    pub slot: u16,
    /// The party's own address.
    pub own: (u32, u16),
    /// The peer's address.
    pub peer: (u32, u16),
    /// The peer's process and user.
    pub by: (i32, u32),
    /// Whether descriptors of the pair came along: the control region, and the pool that the party
    /// writes.
    pub with_pair: bool,
}

/// A request about com-sockets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SockRequest {
    /// Joins a domain. Reply: `Joined`.
    Join {
        /// The VM.
        vm: i32,
        /// The domain; `None` for the first free domain.
        domain: Option<u32>,
    },
    /// Binds a port of the party's domain. Reply: `Port`; for datagrams with the socket.
    Bind {
        /// Streams or datagrams.
        kind: SockKind,
        /// The port; 0 for any free port.
        port: u16,
    },
    /// Accepts connections at a bound port. Reply: `Done`, with the descriptor that delivers them.
    Listen {
        /// The port.
        port: u16,
        /// Connections that may wait there.
        backlog: u32,
    },
    /// Gives a port back. No reply.
    Release {
        /// Streams or datagrams.
        kind: SockKind,
        /// The port.
        port: u16,
    },
    /// Makes a connection, and prepared connections. Reply: `Connected`, with the socket, the pair
    /// if it is new, and the sockets of the prepared connections.
    Connect {
        /// The destination's address.
        address: u32,
        /// The destination's port.
        port: u16,
        /// The source's port; 0 for any free port.
        from: u16,
        /// Wanted prepared connections. The daemon gives at most [`SOCK_PREPARED_MAX`], perhaps
        /// none.
        prepared: u8,
    },
    /// The pair is mapped. No reply.
    Mapped {
        /// The pair.
        pair: u64,
        /// The party's side.
        side: u8,
    },
    /// Asks for the pool that the peer writes, after the peer has mapped it. Reply: `Done`, with
    /// the pool.
    PeerPool {
        /// The pair.
        pair: u64,
        /// The party's side.
        side: u8,
    },
    /// The party's side of a connection is closed. No reply.
    Closed {
        /// The pair.
        pair: u64,
        /// The party's side.
        side: u8,
        /// The slot.
        slot: u16,
    },
    /// The party uses no connection of a pair any more. Reply: `Done`; refused while a connection
    /// is in use.
    Forget {
        /// The pair.
        pair: u64,
        /// The party's side.
        side: u8,
    },
    /// A route to a datagram socket. Reply: `Done`, with a socket that sends there.
    Route {
        /// The party's own port.
        from: u16,
        /// The destination's address.
        address: u32,
        /// The destination's port.
        port: u16,
    },
    /// The addresses that have a datagram socket at this port. Reply: `Addresses`.
    DatagramAddresses {
        /// The port.
        port: u16,
    },
    /// After a takeover: a datagram socket that still has its port. Reply: `Done`.
    Keep {
        /// The port.
        port: u16,
    },
    /// The sockets of a VM. Reply: `Sockets`.
    List {
        /// The VM.
        vm: i32,
        /// Position in the list of the first socket to return.
        from: u32,
    },
}

/// A reply about com-sockets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SockReply {
    /// The caller is a party.
    Joined {
        /// Its domain.
        domain: u32,
        /// The network of the VM's domains.
        network: u32,
        /// Number of leading bits of an address that name the network.
        bits: u8,
    },
    /// A port.
    Port(u16),
    /// A connection, and the prepared connections beside it.
    Connected(SockConnection, Vec<SockConnection>),
    /// Addresses.
    Addresses(Vec<u32>),
    /// Sockets of a VM.
    Sockets {
        /// The sockets.
        list: Vec<SockInfo>,
        /// The `from` of the next request; `None` at the end.
        next: Option<u32>,
    },
    /// Not done, for a reason that sockets have a number for.
    Failed {
        /// The number, as in errno(3).
        errno: i32,
        /// The cause, for people.
        why: String,
    },
}

/// A socket, as `m3 sock stat` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SockInfo {
    /// Streams or datagrams.
    pub kind: SockKind,
    /// The process.
    pub pid: i32,
    /// Its user.
    pub uid: u32,
    /// Its address.
    pub own: (u32, u16),
    /// The peer's address; `None` for a bound or listening socket.
    pub peer: Option<(u32, u16)>,
    /// Bytes sent through blocks.
    pub ring_bytes: u64,
    /// Bytes sent through the kernel.
    pub kernel_bytes: u64,
    /// Wakeup records sent.
    pub wakeups: u64,
    /// Wakeup records not needed.
    pub wakeups_suppressed: u64,
    /// Times that bytes went through the kernel, because blocks were short or not shared yet.
    pub overflows: u64,
}

/// A message to a listener: one connection, with its socket and, unless the party said that it
/// mapped the pair, with the pair. The prepared connections and their sockets follow. A prepared
/// connection opens when a wakeup record comes through it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SockArrival(pub SockConnection, pub Vec<SockConnection>);
