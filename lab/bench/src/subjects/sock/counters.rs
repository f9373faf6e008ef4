//! The counters of the preload library: a figure of rings counts only if bytes used rings.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use m3ipc_report::schema::Round;
use m3ipc_shim::counters::{Counter, Page, Snapshot};
use m3ipc_shim::policy::COUNTERS_VARIABLE;

use crate::error::Error;
use crate::job::Test;
use crate::unique;

/// The figure would be that of the kernel and is not given.
const NO_RING: &str = "the stream stays in the kernel: no byte went through a ring";
const NO_RING_NEXT: &str =
    "m3 sock stat shows pinned sockets, and M3SOCK_POLICY may exclude this program";

/// Begins the counters of this process's measurement anew: the trips before the window do not
/// count. Both processes are idle.
pub fn begin_window() -> Result<(), Error> {
    match std::env::var_os(COUNTERS_VARIABLE) {
        Some(path) => begin_anew(Path::new(&path)),
        None => Ok(()),
    }
}

/// Sets all counts of a page to zero: each CPU has a row of its own.
fn begin_anew(path: &Path) -> Result<(), Error> {
    let begin = core::mem::offset_of!(Page, counts);
    std::fs::OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|file| file.write_all_at(&vec![0; size_of::<Page>() - begin], begin as u64))
        .map_err(Error::os("begin the counters anew"))
}

/// A file in which both processes of a measurement count; the drop removes it.
pub struct Counters {
    path: PathBuf,
}

impl Counters {
    /// A new file.
    pub fn new() -> Result<Self, Error> {
        let counters = Self { path: unique::path("counters") };
        let mut options = std::fs::OpenOptions::new();
        let made = options.write(true).create_new(true).mode(0o600).open(&counters.path);
        made.and_then(|mut file| file.write_all(&Snapshot::empty_page(0)))
            .map_err(Error::os("make a file for counters"))?;
        Ok(counters)
    }

    /// The environment variable that names the file to the library.
    pub fn variable(&self) -> (OsString, OsString) {
        (COUNTERS_VARIABLE.into(), self.path.clone().into())
    }

    /// Adds the share of the rings and the wakeups to a round.
    pub fn add_to(&self, round: &mut Round, test: Test, trips: u64) -> Result<(), Error> {
        let bytes = std::fs::read(&self.path).map_err(Error::os("read the counters"))?;
        let read = |what| Snapshot::of(&bytes).map_or(0, |snapshot| snapshot.read(what));
        let (ring, kernel) = (read(Counter::RingBytes), read(Counter::KernelBytes));
        if ring == 0 && test != Test::SockConnect {
            return Err(Error::Unavailable { why: NO_RING.into(), next: NO_RING_NEXT });
        }
        round.ring_share = Some(if ring == 0 { 0.0 } else { ring as f64 / (ring + kernel) as f64 });
        if test != Test::SockConnect {
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
        let counters = Counters::new().expect("a file can be made");
        let mut round = Round::default();
        let refused = counters.add_to(&mut round, Test::SockStream, 1);
        assert!(matches!(refused, Err(Error::Unavailable { .. })));
        assert!(counters.add_to(&mut round, Test::SockConnect, 1).is_ok());
        assert_eq!((round.ring_share, round.bells_per_op), (Some(0.0), None));

        let mut page = Snapshot::empty_page(0);
        let mut set = |what: Counter, value: u8| {
            let at = core::mem::offset_of!(Page, counts) + 8 * what as usize;
            page[at] = value;
        };
        set(Counter::RingBytes, 30);
        set(Counter::KernelBytes, 10);
        set(Counter::Wakeups, 5);
        std::fs::write(&counters.path, page).expect("the file can be written");
        assert!(counters.add_to(&mut round, Test::SockStream, 10).is_ok());
        assert_eq!((round.ring_share, round.bells_per_op), (Some(0.75), Some(0.5)));
        let path = counters.path.clone();
        drop(counters);
        assert!(!path.exists());
    }

    #[test]
    fn the_counts_of_all_cpus_begin_anew() {
        let counters = Counters::new().expect("a file can be made");
        let mut page = Snapshot::empty_page(7);
        let first = core::mem::offset_of!(Page, counts);
        page[first..size_of::<Page>()].fill(1);
        std::fs::write(&counters.path, page).expect("the file can be written");
        begin_anew(&counters.path).expect("the counts are written");
        let bytes = std::fs::read(&counters.path).expect("the file can be read");
        let found = Snapshot::of(&bytes).expect("a page of counters");
        assert_eq!((found.processes, found.counts.iter().sum::<u64>()), (vec![7], 0));
        assert_eq!(found.pins.iter().sum::<u64>(), 0);
    }
}
