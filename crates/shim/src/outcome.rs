//! The outcome of a data call.

/// The outcome of a data call on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The call moved so many bytes.
    Done(usize),
    /// The call failed with this error number.
    Failed(i32),
    /// The caller must make the real call with the same arguments.
    Kernel,
    /// The same, and must then say what came of it ([`KernelCall::end`]): the call counts.
    Counted(KernelCall),
}

/// A call that the program makes in the kernel, exactly as it was given.
///
/// Without an end (the thread was cancelled in the call) the direction stays in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelCall {
    /// The number of the socket's state.
    pub(crate) socket: u64,
    /// The use of the state: another socket may have it by the end of the call.
    pub(crate) generation: u32,
    /// Whether the call receives.
    pub(crate) receives: bool,
    /// Whether the bytes count in the pair: a send of a socket that has one.
    pub(crate) in_pair: bool,
}

/// The outcome of a program's own wait without time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The call wrote its memory.
    Some,
    /// Nothing is ready, or a signal came first.
    None,
    /// The call failed, as it would have without the library; `errno` says why.
    Failed,
}

/// The outcome of a wait without time that returned this, and set `errno` where it failed.
#[must_use]
pub fn found_now(result: i32) -> Found {
    let is_interrupted = || std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR);
    match result {
        1.. => Found::Some,
        ..=-1 if !is_interrupted() => Found::Failed,
        _ => Found::None,
    }
}
