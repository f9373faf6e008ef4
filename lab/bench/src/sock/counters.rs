//! What the preload library counted in one measurement: a figure of rings counts only where bytes went through them.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use m3ipc_shim::counters::{Counter, Snapshot};
use m3ipc_shim::policy::COUNTERS_VARIABLE;

use super::Test;
use crate::error::Error;
use crate::measure::Round;

/// A file that both processes of a measurement count in; it goes when dropped.
pub struct Counters {
    path: PathBuf,
}

impl Counters {
    /// A new one.
    ///
    /// # Errors
    /// Where no file can be made for temporary ones.
    pub fn begin() -> Result<Self, Error> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("m3-bench-counters-{}-{number}", std::process::id()));
        let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let counters = Self { path };
        made.and_then(|mut file| file.write_all(&Snapshot::empty_page(0)))
            .map_err(|source| Error::File { path: counters.path.clone(), source })?;
        Ok(counters)
    }

    /// What tells the library of it.
    #[must_use]
    pub fn variable(&self) -> (OsString, OsString) {
        (COUNTERS_VARIABLE.into(), self.path.clone().into())
    }

    /// Adds what was counted to a round: the share of the rings, and tokens as bells.
    ///
    /// # Errors
    /// [`Error::NoRing`] where no byte went through a ring; where connections are measured, which end before they are
    /// moved, that is told by a share of 0 alone.
    pub fn add_to(&self, round: &mut Round, test: Test, trips: u64) -> Result<(), Error> {
        let bytes = std::fs::read(&self.path)
            .map_err(|source| Error::File { path: self.path.clone(), source })?;
        let read = |what| Snapshot::of(&bytes).map_or(0, |snapshot| snapshot.read(what));
        let (ring, kernel) = (read(Counter::RingBytes), read(Counter::KernelBytes));
        if ring == 0 && test != Test::Connect {
            return Err(Error::NoRing);
        }
        round.ring_share = Some(if ring == 0 { 0.0 } else { ring as f64 / (ring + kernel) as f64 });
        if test != Test::Connect {
            round.bells_per_op = Some(read(Counter::Wakeups) as f64 / trips.max(1) as f64);
        }
        Ok(())
    }
}

impl Drop for Counters {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_without_a_byte_in_a_ring_is_refused() {
        let counters = Counters::begin().unwrap();
        let mut round = Round::default();
        let refused = counters.add_to(&mut round, Test::Stream, 1);
        assert!(matches!(refused, Err(Error::NoRing)));
        assert!(counters.add_to(&mut round, Test::Connect, 1).is_ok());
        assert_eq!((round.ring_share, round.bells_per_op), (Some(0.0), None));

        let mut page = Snapshot::empty_page(0);
        let mut set = |what: Counter, value: u8| {
            let at = core::mem::offset_of!(m3ipc_shim::counters::Page, counts) + 8 * what as usize;
            page[at] = value;
        };
        set(Counter::RingBytes, 30);
        set(Counter::KernelBytes, 10);
        set(Counter::Wakeups, 5);
        std::fs::write(&counters.path, page).unwrap();
        assert!(counters.add_to(&mut round, Test::Stream, 10).is_ok());
        assert_eq!((round.ring_share, round.bells_per_op), (Some(0.75), Some(0.5)));
        let path = counters.path.clone();
        drop(counters);
        assert!(!path.exists());
    }
}
