//! The outcome of a data call.

use crate::connection::socket_state::KernelCall;

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

impl Outcome {
    /// Makes the real call where the kernel must do it.
    ///
    /// # Errors
    /// The error number of the call.
    pub fn or_real(self, real: impl FnOnce() -> Result<usize, i32>) -> Result<usize, i32> {
        match self {
            Self::Done(bytes) => Ok(bytes),
            Self::Failed(errno) => Err(errno),
            Self::Kernel => real(),
            Self::Counted(call) => {
                let result = real();
                call.end(result.unwrap_or(0));
                result
            }
        }
    }
}
