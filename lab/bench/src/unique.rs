//! Names that no other object of this process has.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A number that was not used before.
pub fn number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A path in the directory of temporary files that was not used before.
pub fn path(ending: &str) -> PathBuf {
    std::env::temp_dir().join(format!("m3-bench-{}-{}.{ending}", std::process::id(), number()))
}
