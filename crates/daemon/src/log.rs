//! The daemon's log on standard error: lines for people, or JSON.

use crate::settings::{LogFormat, Settings};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{fmt, registry};

/// Starts the log. `M3_LOG` wins over the setting: a level, or `TARGET=LEVEL` items between commas.
pub(crate) fn begin(settings: &Settings) {
    let named =
        m3ipc_sys::text_variable("M3_LOG").and_then(|filter| filter.parse::<Targets>().ok());
    let filter = named.or_else(|| settings.log_level.parse().ok()).unwrap_or_default();
    // A full disk or a closed pipe loses a line. A report of that on standard error would fail as
    // well, and end the daemon.
    let lines = fmt::layer().with_writer(std::io::stderr).log_internal_errors(false);
    // A second daemon in one process (tests) keeps the log of the first one.
    let _ = match settings.log_format {
        LogFormat::Human => {
            registry().with(lines.with_target(false).with_filter(filter)).try_init()
        }
        LogFormat::Json => registry().with(lines.json().with_filter(filter)).try_init(),
    };
}
