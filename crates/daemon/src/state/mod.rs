//! The parts of the daemon's state. Each part keeps its own rules, and none knows the server.

pub(crate) mod areas;
pub(crate) mod connection;
pub(crate) mod connections;
pub(crate) mod death_watches;
pub(crate) mod end_marks;
pub(crate) mod event_sources;
pub(crate) mod frame_queue;
pub(crate) mod held_links;
pub(crate) mod lifecycle;
pub(crate) mod member_fd;
pub(crate) mod nodes;
pub(crate) mod pending_notifications;
pub(crate) mod reserve_descriptor;
pub(crate) mod scheduling_round;
pub(crate) mod sockets;
pub(crate) mod timers;
pub(crate) mod traces;
