//! One connection: the pair that both ends share, and the bytes of its two directions.
//!
//! ```text
//!   socket ── upgrade ── pairs ── sock_diag   a socket; its pair; the kernel's answer
//!     │  │                └── sweep            what ended connections left
//!     │  │    trial ── pairs                  whether connections can get memory
//!     │  ├── mark                              sockets that must never get a pair
//!     │  └── socket_state
//!     ├── send ────┐
//!     │   │ unannounced                        bytes without a wakeup byte, in order
//!     │   │ ring_extent ── reservation         the memory of a ring, by its traffic
//!     │   │ idle_rings                         memory of idle rings goes back
//!     │   │ bulk                               streams that overflow again and again
//!     │   │ wakeup_share ── rest               receivers that mostly sleep
//!     │   │      └── past_gains                what earlier connections gained
//!     │   │ route                              the switch to the ring, under both locks
//!     │   │ seen_ends                          ends that poll and epoll have reported
//!     ├── past_ring_thread                   a receive that its thread may leave
//!     ├── ended                              the memory of a connection after its end
//!     └── receive ─┴── ring_half               bytes through a ring; the rest through the kernel
//!   armed_poller                               event loops that poll by themselves
//! ```

pub mod address;
pub mod armed_poller;
mod blocked;
mod bulk;
pub mod ended;
pub mod idle_rings;
mod mark;
pub mod pairs;
mod past_gains;
mod past_ring_thread;
mod receive;
mod reservation;
mod rest;
pub mod ring_extent;
mod ring_half;
mod route;
pub mod seen_ends;
mod send;
pub mod sock_diag;
pub mod socket;
pub mod socket_state;
pub mod sweep;
pub mod trial;
pub mod unannounced;
mod upgrade;
mod used_states;
mod wakeup_share;
