//! The end of a command.

use std::process::ExitCode;

/// The exit codes of a busy node, and of all that the system refuses.
const BUSY: u8 = 3;
pub const SYSTEM: u8 = 4;

/// A command that failed, with the remedy behind the last semicolon.
#[derive(Debug)]
pub struct Failed {
    /// What happened, why, and what to do next.
    pub text: String,
    /// The exit code.
    pub code: u8,
}

impl Failed {
    /// The system or the input is to blame.
    pub fn new(text: impl std::fmt::Display) -> Self {
        Self { text: text.to_string(), code: SYSTEM }
    }

    /// Something runs already.
    pub fn busy(text: impl std::fmt::Display) -> Self {
        Self { text: text.to_string(), code: BUSY }
    }
}

/// The end of a command.
pub type Done = Result<ExitCode, Failed>;
