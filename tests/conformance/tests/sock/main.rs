//! Com-sockets between processes.

mod blocks;
mod connect;
mod datagram;
mod death;
mod hostile;
mod names;
mod party;
mod ready;
mod stream;
mod tasks;
