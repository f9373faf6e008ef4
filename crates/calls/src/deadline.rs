//! Points in time without an end.

use std::time::Duration;
use tokio::time::Instant;

/// A time that no program sees.
pub(crate) fn far_away() -> Instant {
    Instant::now() + Duration::from_secs(86_400 * 365 * 30)
}
