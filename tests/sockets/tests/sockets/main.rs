//! Com-sockets between processes.

mod blocks;
mod connect;
mod datagram;
mod death;
mod fixture;
mod forks;
mod hostile;
mod names;
mod poller;
mod ready;
mod stream;
mod tasks;
