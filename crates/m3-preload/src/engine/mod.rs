//! The engine: what becomes of the bytes of one connection. The hooks call this module and nothing below it.

use libc::iovec;
use std::os::fd::RawFd;

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done; so many bytes.
    Done(usize),
    /// It failed with this `errno`.
    Failed(i32),
    /// The caller is to make the real call with the same arguments.
    Kernel,
}

/// How a descriptor came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Birth {
    /// `connect` (also one that is still in progress).
    Connected,
    /// `accept`, `accept4`.
    Accepted,
    /// `socketpair`.
    Paired,
    /// It was there: after `exec`, or received in a message.
    Found,
}

/// Why a socket stays in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Pin {
    /// The policy says so.
    Policy = 1,
    /// A socket option that shared memory cannot mirror.
    Option,
    /// A flag of a call, such as `MSG_OOB`.
    Flag,
    /// Ancillary data on a Unix socket.
    Ancillary,
    /// The C library's buffered files.
    Stdio,
    /// The descriptor was given to another process.
    Passed,
    /// A program comes that does not have this library.
    Exec,
    /// `splice`, `tee`, `vmsplice`.
    Splice,
    /// Asynchronous I/O, io_uring.
    Asynchronous,
    /// The kernel refuses what the library needs.
    Refused,
    /// No memory, or no room in a table.
    Room,
}

/// What tests and the policy may change; set once, before the first socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Size of each ring in bytes: a power of two, from 64 to 4 MiB.
    pub ring_bytes: u32,
    /// Data calls on a socket before it looks for its peer; 0 is at once.
    pub upgrade_after_calls: u32,
    /// Whether a token is sent for each publish.
    pub always_token: bool,
    /// The longest look for bytes before a call sleeps, in nanoseconds; 0 is none.
    pub spin_ns: u32,
    /// Whether both ends may lie in one process (for tests).
    pub same_process: bool,
    /// Whether anything is upgraded at all.
    pub on: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ring_bytes: 256 * 1024,
            upgrade_after_calls: 2,
            always_token: false,
            spin_ns: 50_000,
            same_process: false,
            on: true,
        }
    }
}

/// Settles how the engine works in this process. Before the first [`candidate`].
pub fn settle(settings: Settings) {
    let _ = settings;
}

/// One open socket that may become ours. It is this process's; what forks share lies in shared memory.
#[derive(Debug)]
pub struct Talk {
    _private: (),
}

/// The talk of a stream socket; `None` where it can never be ours.
pub fn candidate(fd: RawFd, how: Birth) -> Option<&'static Talk> {
    let _ = (fd, how);
    None
}

impl Talk {
    /// `send`, `write`, `writev`, `sendmsg` without ancillary data.
    pub fn send(&self, fd: RawFd, parts: &[iovec], flags: i32) -> Outcome {
        let _ = (fd, parts, flags);
        Outcome::Kernel
    }

    /// `recv`, `read`, `readv`, `recvmsg`.
    pub fn receive(&self, fd: RawFd, parts: &[iovec], flags: i32) -> Outcome {
        let _ = (fd, parts, flags);
        Outcome::Kernel
    }

    /// Whether bytes lie in the ring now: to look before sleeping, never instead of the kernel's answer.
    #[must_use]
    pub fn has_bytes(&self) -> bool {
        false
    }

    /// Bytes that can be received, for `FIONREAD`; `None` where the kernel's answer is right.
    pub fn waiting(&self, fd: RawFd) -> Option<usize> {
        let _ = fd;
        None
    }

    /// Stays in, or returns to, the kernel. `false` where bytes could not be brought back.
    pub fn pin(&self, fd: RawFd, reason: Pin) -> bool {
        let _ = (fd, reason);
        true
    }

    /// An epoll set has it edge-triggered: each publish is to be an edge.
    pub fn edge_triggered(&self, on: bool) {
        let _ = on;
    }

    /// This process is about to close its last descriptor of it: called before the real `close`.
    pub fn forget(&self, fd: RawFd) {
        let _ = fd;
    }

    /// `TCP_NODELAY` and `TCP_CORK` of a socket whose bytes pass through a ring: set it where `set` is given; what `getsockopt` is
    /// to say. `None` where the kernel is to be asked.
    pub fn latency_option(&self, fd: RawFd, option: i32, set: Option<i32>) -> Option<i32> {
        let _ = (fd, option, set);
        None
    }
}
