//! Why a command failed, and its exit code.

use crate::config::ConfigError;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    exit_code: u8,
    text: String,
}

impl Failure {
    /// An operation failed.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self { exit_code: 1, text: text.into() }
    }

    /// The exit code of the program.
    pub(crate) fn exit_code(&self) -> u8 {
        self.exit_code
    }

    /// What happened, and what to do.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The same as JSON, as `m3` writes it.
    pub(crate) fn json(&self) -> String {
        let error = serde_json::json!({ "what": self.text, "exit": self.exit_code });
        m3ipc_sys::json_escaped(&serde_json::json!({ "error": error }).to_string())
    }

    /// The arguments or the file are wrong.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self { exit_code: 2, text: text.into() }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::usage(error.to_string())
    }
}
