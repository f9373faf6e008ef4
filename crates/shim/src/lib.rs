//! Sockets of unmodified programs over shared memory: the engine of `libm3sock.so`.
//!
//! `m3 sock run -- program` loads the library in front of the C library. Its hooks (package
//! `m3ipc-shim-preload`) convert the program's pointers and call this crate, which exports no C
//! name. Where both ends of a stream are such programs of one user, bytes pass through shared
//! rings. In all else, and whenever in doubt, the kernel does its usual work. A descriptor stays
//! the kernel's own socket throughout.
//!
//! ```text
//!   lifecycle  readiness  options  send_file  splice  exec  stdio  sandbox  the hooks' families
//!        └─────────┴──────────┴───────┬───────┴──────┘
//!   epoll ──────────────────────── sockets                    from a descriptor to a socket
//!        └──────── process ───────────┘                       entries, notes, policy, vfork
//!                     │
//!   inspection ── connection ── protocol                      pairs, rings; the order of steps
//!                     │            │
//!                  memory       kernel, buffers               files, windows; system calls
//! ```
//!
//! Unsafe code lies in `kernel`, `memory::window`, `buffers`, `event_list` and `counters` alone.

pub mod buffers;
pub mod connection;
pub mod counters;
pub mod epoll;
pub mod event_list;
pub mod exec;
pub mod inspection;
pub mod kernel;
pub mod lifecycle;
pub mod memory;
pub mod options;
pub mod outcome;
pub mod pin;
pub mod policy;
mod pressure;
pub mod process;
pub mod protocol;
pub mod readiness;
pub mod sandbox;
pub mod send_file;
pub mod settings;
pub mod signals;
pub mod sockets;
mod spin;
pub mod splice;
pub mod stdio;

use settings::Settings;

/// Prepares this process. Once, before the first socket; without it nothing is upgraded.
pub fn prepare(settings: Settings) {
    memory::user_directory::set_directory();
    memory::lock::prepare();
    settings::store(settings);
}

/// Removes the memory that ended programs of this user left. `directory` is in place of
/// `M3_RUNTIME_DIR`.
pub fn remove_ended(directory: Option<&std::path::Path>) {
    memory::user_directory::set_directory_to(directory);
    connection::sweep::at_start();
}

/// Prepares the tables of the hooks. Once, in the constructor, before [`prepare`].
pub fn prepare_tables() {
    process::descriptors::prepare();
    process::notes::prepare();
    process::forks::prepare();
    process::library_files::prepare();
    signals::learn_all();
}

pub use m3ipc_sys::monotonic_ns;
