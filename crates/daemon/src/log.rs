//! The daemon's log: for people or as JSON, on standard error.

use crate::settings::{LogFormat, Settings};
use tracing_subscriber::EnvFilter;

/// Begins logging; `M3_LOG` (as of tracing's filters) wins over the setting.
pub(crate) fn begin(settings: &Settings) {
    let filter = EnvFilter::try_from_env("M3_LOG")
        .unwrap_or_else(|_unset| EnvFilter::new(settings.log_level.as_str()));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A line that cannot be written (a full disk, a closed pipe) is lost. To complain of
    // that on standard error as well would fail there too, and end the daemon.
    let builder = builder.log_internal_errors(false);
    // A second daemon in one process (tests) keeps the first one's log.
    let _ = match settings.log_format {
        LogFormat::Human => builder.with_target(false).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
}
