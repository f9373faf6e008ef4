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
}
