//! Flags that several subcommands take.

use clap::Args;
use m3ipc::Timeout;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Instant;

/// The format of results.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct OutputOptions {
    /// Print results as JSON, one value per line; errors too, on standard error.
    #[arg(long, global = true)]
    pub json: bool,
}

/// The node that a command uses.
#[derive(Args, Clone, Debug)]
pub struct NodeOptions {
    /// Runtime directory of the node [default: M3_RUNTIME_DIR; else /run/m3 if a daemon serves it;
    /// else $XDG_RUNTIME_DIR/m3 or /tmp/m3-UID].
    #[arg(long, value_name = "DIR")]
    pub runtime_dir: Option<PathBuf>,
}

static BEGIN: OnceLock<Instant> = OnceLock::new();

/// When this program began: a time limit of a whole command starts there. The first call decides.
pub fn begin() -> Instant {
    *BEGIN.get_or_init(Instant::now)
}

/// A time limit as written: milliseconds, 0 for no wait, -1 for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimit(Timeout);

impl TimeLimit {
    /// No limit.
    pub const NONE: Self = Self(Timeout::Never);

    /// The limit of a call that begins now.
    pub fn timeout(self) -> Timeout {
        self.0
    }

    /// The limit of a later part of an operation that began at this time.
    pub fn left_since(self, begin: Instant) -> Timeout {
        match self.0 {
            Timeout::After(limit) => Timeout::After(limit.saturating_sub(begin.elapsed())),
            other => other,
        }
    }
}

impl std::str::FromStr for TimeLimit {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        match written.parse() {
            Ok(ms @ -1..) => Ok(Self(Timeout::from_ms(ms))),
            _ => Err("write milliseconds, 0 for no wait, or -1 for no limit".to_owned()),
        }
    }
}

/// Reads a number that is not negative.
pub fn count<T: std::str::FromStr>(written: &str) -> Result<T, String> {
    written.parse().map_err(|_none| "write a whole number of 0 or more".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_time_limit_is_a_number_of_milliseconds_or_minus_one() {
        let read = |written: &str| written.parse().map(TimeLimit::timeout);
        assert_eq!(read("-1"), Ok(Timeout::Never));
        assert_eq!(read("0"), Ok(Timeout::NoWait));
        assert_eq!(read("1500"), Ok(Timeout::After(Duration::from_millis(1_500))));
        for wrong in ["-7", "1s", "", "1.5", "99999999999999999999"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
