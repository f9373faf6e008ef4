//! Com-sockets in frames, and the layout of what two parties share.
//!
//! A *party* is one process in one domain: one control connection. Two parties that have met share a
//! *pair*: a control region that both write, with a slot for each connection, and a pool of blocks each way,
//! which one writes and the other reads.

use serde::{Deserialize, Serialize};

/// Connections that one pair has room for; further ones make another pair.
pub const SOCK_SLOTS: usize = 64;
/// Size of a block of a pool, in bytes.
pub const SOCK_BLOCK_BYTES: usize = 8192;
/// Blocks of a pool.
pub const SOCK_POOL_BLOCKS: usize = 256;
/// Size of a pool, in bytes.
pub const SOCK_POOL_BYTES: usize = SOCK_POOL_BLOCKS * SOCK_BLOCK_BYTES;
/// Blocks that one way of a connection may hold.
pub const SOCK_CREDITS: usize = 32;
/// Where the slots of a control region begin, in bytes.
pub const SOCK_HEAD_BYTES: usize = 4096;
/// Size of a slot, in bytes: one half for each way.
pub const SOCK_SLOT_BYTES: usize = 1024;
/// Size of a control region, in bytes.
pub const SOCK_CONTROL_BYTES: usize = SOCK_HEAD_BYTES + SOCK_SLOTS * SOCK_SLOT_BYTES;
/// Connections that are prepared beside one that is asked for, at most: as many descriptors go with one packet.
pub const SOCK_PREPARED_MAX: usize = 7;
/// Where the daemon says, in the head of a control region, that its parties are no longer in one VM.
pub const SOCK_OVER: usize = 128;
/// The highest number of a domain in the default network.
pub const SOCK_DOMAIN_MAX: u32 = 65_532;

/// Where, in its half of a slot, each word of a way lies.
///
/// ```text
///   0 line of the sender        tail, bytes given to the kernel, cpu; the door (both write it)
///  64 line of the receiver      head, bytes taken from the kernel, cpu
/// 128 counters of the sender    bells, bells not needed, overflows
/// 192 the blocks of the bytes from head to tail, in a ring
/// ```
pub mod way {
    /// Bytes that the sender has published.
    pub const TAIL: usize = 0;
    /// Bytes that the sender has put into records of the kernel's socket.
    pub const GIVEN: usize = 8;
    /// The door: whether the receiver must be called.
    pub const SUPPRESSION: usize = 16;
    /// The CPU of the sender.
    pub const SENDER_CPU: usize = 24;
    /// Bytes that the receiver has taken out of blocks.
    pub const HEAD: usize = 64;
    /// Bytes that the receiver has taken out of records.
    pub const TAKEN: usize = 72;
    /// The CPU of the receiver.
    pub const RECEIVER_CPU: usize = 80;
    /// Bells that were rung.
    pub const WAKEUPS: usize = 128;
    /// Bells that were not needed.
    pub const WAKEUPS_SUPPRESSED: usize = 136;
    /// Records that carried bytes.
    pub const OVERFLOWS: usize = 144;
    /// Of side 0: a connection that was prepared is open.
    pub const OPENED: usize = 152;
    /// Numbers of the blocks, 32 bits each.
    pub const BLOCKS: usize = 192;
    /// Size of a way, in bytes.
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

/// One side of a connection, as its party is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SockConnection {
    /// The pair, by its number at this daemon.
    pub pair: u64,
    /// Which side of it the party is: 0 or 1.
    pub side: u8,
    /// The connection's slot in the pair.
    pub slot: u16,
    /// The party's own address.
    pub own: (u32, u16),
    /// The other's address.
    pub peer: (u32, u16),
    /// The other's process and user.
    pub by: (i32, u32),
    /// Descriptors of the pair came along: control region, and the pool that the party writes.
    pub with_pair: bool,
}

/// What parties ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SockRequest {
    /// To be a party of a domain; the first free one where no number is given. Answer: `Joined`.
    Join {
        /// The VM.
        vm: i32,
        /// The domain.
        domain: Option<u32>,
    },
    /// A port of the party's domain, or any free one for 0. Answer: `Port`; of datagrams with the socket.
    Bind {
        /// Of streams or of datagrams.
        kind: SockKind,
        /// The port.
        port: u16,
    },
    /// The party takes connections at a port it has. Answer: `Done`, with the descriptor they come through.
    Listen {
        /// The port.
        port: u16,
        /// Connections that may wait there.
        backlog: u32,
    },
    /// Gives a port back. No answer.
    Release {
        /// Of streams or of datagrams.
        kind: SockKind,
        /// The port.
        port: u16,
    },
    /// A connection, and as many that are prepared. Answer: `Connected`, with the socket, the pair where it is new, and the sockets of
    /// those that were prepared.
    Connect {
        /// To this address.
        address: u32,
        /// And this port.
        port: u16,
        /// From this port; any free one for 0.
        from: u16,
        /// Further ones, to be opened without asking; at most [`SOCK_SPARES_MAX`] are given, perhaps none.
        spares: u8,
    },
    /// The pair is mapped. No answer.
    Mapped {
        /// The pair.
        pair: u64,
        /// The party's side.
        side: u8,
    },
    /// The pool that the other side writes, once it has mapped it. Answer: `Done`, with the pool.
    PeerPool {
        /// The pair.
        pair: u64,
        /// The party's side.
        side: u8,
    },
    /// The party's side of a connection is closed. No answer.
    Closed {
        /// The pair.
        pair: u64,
        /// The party's side.
        side: u8,
        /// The slot.
        slot: u16,
    },
    /// A pair of which the party uses no connection any more. Answer: `Done`; refused where one is in use.
    Forget {
        /// The pair.
        pair: u64,
        /// The party's side.
        side: u8,
    },
    /// A way to a datagram socket. Answer: `Done`, with a socket that sends there.
    Route {
        /// From this port of the party's.
        from: u16,
        /// To this address.
        address: u32,
        /// And this port.
        port: u16,
    },
    /// Who has a datagram socket at this port. Answer: `Addresses`.
    Everybody {
        /// The port.
        port: u16,
    },
    /// After a takeover: a datagram socket that lives on at its port. Answer: `Done`.
    Keep {
        /// The port.
        port: u16,
    },
    /// The sockets of a VM. Answer: `Sockets`.
    List {
        /// The VM.
        vm: i32,
        /// Those from this place in the list on.
        from: u32,
    },
}

/// What the daemon answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SockReply {
    /// The caller is a party.
    Joined {
        /// Of this domain.
        domain: u32,
        /// The network of the VM's domains.
        network: u32,
        /// How many leading bits of an address are the network's.
        bits: u8,
    },
    /// A port.
    Port(u16),
    /// A connection, and those that were prepared beside it.
    Connected(SockConnection, Vec<SockConnection>),
    /// Addresses.
    Addresses(Vec<u32>),
    /// Sockets, and where to ask on from.
    Sockets {
        /// The sockets.
        list: Vec<SockInfo>,
        /// The next place, or none.
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

/// A socket as `m3 sock stat` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SockInfo {
    /// Of streams or of datagrams.
    pub kind: SockKind,
    /// The process.
    pub pid: i32,
    /// Its user.
    pub uid: u32,
    /// Its address.
    pub own: (u32, u16),
    /// The other's address; none of a socket that is bound or listens.
    pub peer: Option<(u32, u16)>,
    /// Bytes sent through blocks.
    pub ring_bytes: u64,
    /// Bytes sent through the kernel.
    pub kernel_bytes: u64,
    /// Bells rung.
    pub rung: u64,
    /// Bells not needed.
    pub spared: u64,
    /// Times that bytes went through the kernel because blocks were short, or not shared yet.
    pub overflows: u64,
}

/// What comes through a listener: one connection, with the socket, and the pair where the party has not
/// said yet that it mapped it. Then those that were prepared, with their sockets: each is one once a bell comes through it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SockArrival(pub SockConnection, pub Vec<SockConnection>);
