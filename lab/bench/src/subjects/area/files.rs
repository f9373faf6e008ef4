//! Mapped files, the ordinary form of shared memory. All their bytes are in memory.
//!
//! ```text
//! file-read     a file, each page read after mmap; a later write of a page costs that again
//! file-write    the same, each page written after mmap
//! file-populate the same with MAP_POPULATE, which reads
//! file-by-page  the same, one mmap per page: scattered pages of 4 KB
//! memfd-*       anonymous shared memory, as of areas: a page that was read can be written
//! ```

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::fd::OwnedFd;

use m3ipc_report::PAGE_BYTES;
use m3ipc_report::schema::{Family, Wait};
use rustix::fs::{MemfdFlags, memfd_create};

use super::attach::time_attaches;
use crate::error::Error;
use crate::job::{Load, Report, Test};
use crate::raw::mapping::{MapMethod, Mapping};
use crate::run::Run;
use crate::subject::{Inherited, Opened, Site, Subject};
use crate::unique;

/// Pages of a file, mapped by one method.
pub struct FilePages {
    name: &'static str,
    /// Whether the file is a memfd, and not a file in the page cache.
    is_memory: bool,
    method: MapMethod,
}

const fn disk(name: &'static str, method: MapMethod) -> FilePages {
    FilePages { name, is_memory: false, method }
}

const fn memory(name: &'static str, method: MapMethod) -> FilePages {
    FilePages { name, is_memory: true, method }
}

/// Files and methods.
pub const ALL: [FilePages; 7] = [
    disk("file-read", MapMethod::Read),
    disk("file-write", MapMethod::Write),
    disk("file-populate", MapMethod::Populate),
    disk("file-by-page", MapMethod::PageByPage),
    memory("memfd-read", MapMethod::Read),
    memory("memfd-write", MapMethod::Write),
    memory("memfd-populate", MapMethod::Populate),
];

impl Subject for FilePages {
    fn name(&self) -> &'static str {
        self.name
    }

    fn family(&self) -> Family {
        if self.is_memory { Family::Floor } else { Family::Kernel }
    }

    fn waits(&self, load: &Load) -> &'static [Wait] {
        if load.test == Test::Attach { &[Wait::Spin] } else { &[] }
    }

    fn open(&self, _: &Site, load: &Load) -> Result<Opened, Error> {
        let file = if self.is_memory {
            let file = memfd_create("m3-bench", MemfdFlags::CLOEXEC);
            file.map_err(Error::os("memfd_create"))?.into()
        } else {
            temporary()?
        };
        Ok(Opened::alone(Inherited::fds(vec![fill(file, load.bytes)?])))
    }

    fn run(&self, run: &Run, mut inherited: Inherited) -> Result<Report, Error> {
        let (mut file, bytes) = (inherited.take()?, run.load().bytes);
        let wanted = (bytes / PAGE_BYTES) as u64;
        let got = Mapping::new(&file, bytes, self.method)?.sum();
        if got != wanted {
            return Err(Error::Payload { trip: 0, word: 0, got, wanted });
        }
        let attach = |file: &mut OwnedFd| Mapping::new(file, bytes, self.method);
        time_attaches(run, &mut file, attach, |_, mapping| {
            drop(mapping);
            Ok(())
        })
    }
}

/// A file without a name.
fn temporary() -> Result<File, Error> {
    let path = unique::path("pages");
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
    let file = file.map_err(Error::os("make a temporary file"))?;
    std::fs::remove_file(&path).map_err(Error::os("remove the name of a temporary file"))?;
    Ok(file)
}

/// Writes a 1 at the begin of each page.
///
/// The kernel may keep one large write in larger pieces, and the comparison is with pages of 4 KB.
fn fill(mut file: File, bytes: usize) -> Result<OwnedFd, Error> {
    let mut page = [0; PAGE_BYTES];
    page[0] = 1;
    for _ in 0..bytes / PAGE_BYTES {
        file.write_all(&page).map_err(|source| match source.kind() {
            ErrorKind::StorageFull => Error::Unavailable {
                why: format!("no room for a file of {bytes} bytes"),
                next: "free some, or let TMPDIR name another directory",
            },
            _ => Error::Os { what: "fill a temporary file", source },
        })?;
    }
    Ok(file.into())
}
