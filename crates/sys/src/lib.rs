//! The only system calls of m3ipc: mechanism, no policy, errors as [`Errno`].
//!
//! Unsafe code is lifted in the files that need it and nowhere else; each of
//! them states its obligations in a `# Safety` section.

mod area;
mod bell;
mod clock;
mod copy;
mod cpu;
mod fork;
mod futex;
mod identity;
mod interrupt;
mod mapping;
mod memfd;
mod packet;
mod pause;
mod poll;
mod process;
mod pulse;
mod ranges;
mod stream;

pub use area::{
    Access, FixedMapping, create_sparse, give_back, grow, is_sealed_against_writing, memory_id,
    seal_against_writing, seal_seals,
};
pub use bell::{Bell, Clapper};
pub use clock::{StampScale, monotonic_ns, stamp, stamp_soon, ticks};
pub use copy::{
    Bytes, OwnCopy, Room, copy_from_process, copy_to_process, has_memory, lent_bytes, lent_room,
};
pub use cpu::{ask_for_short_turns, current_cpu, pin_to, relax, yield_cpu};
pub use fork::{ForkGuard, NotForChildren};
pub use futex::{WAIT_WORDS_MAX, Waiting, wait, wait_any, wake};
pub use identity::{Identity, peer_groups, peer_identity, peer_pidfd};
pub use interrupt::interrupts;
pub use mapping::Mapping;
pub use memfd::{create_memory, memory_bytes, seal_against_new_writers, seal_size};
pub use packet::{
    PACKET_FDS_MAX, Packet, accept, connect, inherited_listener, listen, receive_packet,
    send_packet,
};
pub use pause::{HAS_PAUSE_POINTS, pause_point};
pub use poll::{Poll, Ready, wait_readable};
pub use process::{
    Signal, die_with_parent, is_ending, no_core, open_process, open_thread, process_id,
    process_of_thread, process_start_ticks, raise_fd_limit, signal, thread_id, thread_sleeps,
    user_id,
};
pub use pulse::{PULSE_BYTES, PULSE_HOLDER, PULSE_STOPPED, PULSE_WATCHED, Pulse};
pub use ranges::{Range, ranges_of};
pub use rustix::io::Errno;
pub use stream::{
    Datagram, Taking, Way, bound_path, datagrams_at, datagrams_to, end_way, has_hung_up,
    packet_pair, receive_bytes, receive_datagram, send_bytes, set_nonblocking, stream_pair,
};
