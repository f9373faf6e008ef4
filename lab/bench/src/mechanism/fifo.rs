//! Two named pipes, whose names are gone again before they are used.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_setfl, mknodat, open, unlink};

use super::bytes::Bytes;
use super::{Inherited, Mechanism, Site, Transport};
use crate::error::Error;
use crate::job::Report;
use crate::peer::Run;

/// mkfifo(3), one per direction.
pub struct Fifo;

impl Mechanism for Fifo {
    fn name(&self) -> &'static str {
        "fifo"
    }

    fn tells_death(&self) -> bool {
        true
    }

    fn open(&self, _: &Site) -> Result<Transport, Error> {
        let (request_out, request_in) = create()?;
        let (answer_out, answer_in) = create()?;
        Ok(Transport {
            client: vec![answer_out, request_in],
            server: vec![request_out, answer_in],
            ..Transport::default()
        })
    }

    fn client(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        run.drive(Bytes::pair(inherited, run)?)
    }

    fn server(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        run.serve(Bytes::pair(inherited, run)?)
    }
}

/// Both ends of a new FIFO.
fn create() -> Result<(OwnedFd, OwnedFd), Error> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path: PathBuf =
        std::env::temp_dir().join(format!("m3-bench-{}-{number}.fifo", std::process::id()));
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).map_err(Error::os("mkfifo"))?;
    let ends = open_both(&path);
    unlink(&path).map_err(Error::os("unlink of a FIFO"))?;
    ends
}

/// A reader may open at once if it does not wait for a writer; then the writer finds it.
fn open_both(path: &Path) -> Result<(OwnedFd, OwnedFd), Error> {
    let cloexec = OFlags::CLOEXEC;
    let reader = open(path, OFlags::RDONLY | OFlags::NONBLOCK | cloexec, Mode::empty())
        .map_err(Error::os("open of a FIFO for reading"))?;
    let writer = open(path, OFlags::WRONLY | cloexec, Mode::empty())
        .map_err(Error::os("open of a FIFO for writing"))?;
    fcntl_setfl(&reader, OFlags::empty()).map_err(Error::os("make a FIFO block"))?;
    Ok((reader, writer))
}
