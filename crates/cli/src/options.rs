//! Flags that several subcommands take.

use clap::Args;
use std::path::PathBuf;

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
