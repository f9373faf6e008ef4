//! Files mapped into a process, the ordinary way to share memory: each byte of theirs is in memory already.
//!
//! ```text
//! file-read     an ordinary file, each page read after mmap; those that are written later cost that again
//! file-write    the same, each page written after mmap
//! file-populate the same with MAP_POPULATE, which reads
//! file-by-page  the same, one mmap for each page: 4 KB pages that lie anywhere
//! memfd-*       anonymous shared memory, of which any area is made: a page that was read can be written then
//! ```

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{MemfdFlags, memfd_create};

use super::Way;
use crate::area::{Shape, Test, time_attaches};
use crate::copy::way::Opened;
use crate::error::Error;
use crate::job::{Report, Side};
use crate::mechanism::{Family, Inherited, Site};
use crate::peer::Run;
use crate::raw::mapping::{Manner, Mapping, PAGE_BYTES};

/// Where the pages are.
#[derive(Clone, Copy)]
enum Store {
    /// A file in the folder for temporary ones, and so in the page cache.
    Disk,
    /// A memfd.
    Memory,
}

/// One way to map one kind of file.
pub struct FilePages {
    name: &'static str,
    store: Store,
    manner: Manner,
    family: Family,
}

const fn disk(name: &'static str, manner: Manner) -> FilePages {
    FilePages { name, store: Store::Disk, manner, family: Family::Kernel }
}

const fn memory(name: &'static str, manner: Manner) -> FilePages {
    FilePages { name, store: Store::Memory, manner, family: Family::Floor }
}

/// Those that are measured.
pub const ALL: [FilePages; 7] = [
    disk("file-read", Manner::Read),
    disk("file-write", Manner::Write),
    disk("file-populate", Manner::Populate),
    disk("file-by-page", Manner::PageByPage),
    memory("memfd-read", Manner::Read),
    memory("memfd-write", Manner::Write),
    memory("memfd-populate", Manner::Populate),
];

impl Way for FilePages {
    fn name(&self) -> &'static str {
        self.name
    }

    fn family(&self) -> Family {
        self.family
    }

    fn test(&self) -> Test {
        Test::Attach
    }

    fn open(&self, _: &Site, shape: &Shape) -> Result<Opened, Error> {
        let file = match self.store {
            Store::Disk => temporary()?,
            Store::Memory => memfd_create("m3-bench", MemfdFlags::CLOEXEC)
                .map_err(Error::os("memfd_create"))?
                .into(),
        };
        let file = fill(file, shape.bytes)?;
        let sides = vec![(Side::Client, Inherited { fds: vec![file], names: vec![] })];
        Ok(Opened { sides, ..Opened::default() })
    }

    fn client(&self, mut inherited: Inherited, run: &Run, shape: &Shape) -> Result<Report, Error> {
        let mut file = inherited.take()?;
        let pages = (shape.bytes / PAGE_BYTES) as u64;
        let seen = Mapping::new(&file, shape.bytes, self.manner)?.sum();
        if seen != pages {
            return Err(Error::Payload { trip: 0, word: 0, got: seen, wanted: pages });
        }
        let attach = |file: &mut OwnedFd| Mapping::new(file, shape.bytes, self.manner);
        time_attaches(run, shape, &mut file, attach, |_, mapping| {
            drop(mapping);
            Ok(())
        })
    }
}

/// A file that has no name any more.
fn temporary() -> Result<File, Error> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("m3-bench-{}-{number}.pages", std::process::id()));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .map_err(Error::os("make a temporary file"))?;
    std::fs::remove_file(&path).map_err(Error::os("take the name of a temporary file"))?;
    Ok(file)
}

/// Writes a one at the beginning of each page. Each page by itself: what is written at once the kernel may keep
/// in larger pieces, and the comparison is with pages of 4 KB.
fn fill(mut file: File, bytes: usize) -> Result<OwnedFd, Error> {
    let mut page = [0; PAGE_BYTES];
    page[0] = 1;
    for _ in 0..bytes / PAGE_BYTES {
        file.write_all(&page).map_err(|source| match source.kind() {
            std::io::ErrorKind::StorageFull => Error::Unavailable {
                why: format!("no room for a file of {bytes} bytes"),
                next: "free some, or point TMPDIR elsewhere",
            },
            _ => Error::Os { what: "fill a temporary file", source },
        })?;
    }
    Ok(file.into())
}
