//! The parts of the daemon's state. Each part keeps its own rules, and none knows the server.

pub(crate) mod areas;
pub(crate) mod connection;
pub(crate) mod frame_queue;
pub(crate) mod member_fd;
pub(crate) mod pending_notifications;
pub(crate) mod processes;
pub(crate) mod reserve_descriptor;
pub(crate) mod scheduling_round;
pub(crate) mod sockets;
pub(crate) mod timers;
pub(crate) mod traces;
