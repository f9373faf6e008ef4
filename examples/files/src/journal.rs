//! A file of records. The end of a kill or of a power failure is at most an incomplete tail.
//!
//! ```text
//! | length: u32 | checksum: u32 | record | length | checksum | record | ...
//! ```

use rustix::fs::{FlockOperation, flock, fstatvfs};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const HEAD_BYTES: usize = 8;
/// No record is longer. A longer length is garbage.
const RECORD_MAX_BYTES: usize = 1 << 20;

/// Where a record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    at: u64,
    bytes: u32,
}

impl Place {
    /// The bytes of the record, with its head.
    #[must_use]
    pub fn bytes(self) -> u64 {
        HEAD_BYTES as u64 + u64::from(self.bytes)
    }
}

/// An open journal, which one process has. Errors are those of the file system. After one of a
/// write or a sync, what is on the disk is unknown: the process must end.
#[derive(Debug)]
pub struct Journal {
    file: File,
    end: u64,
}

impl Journal {
    /// Opens the journal in this folder, and gives each of its records to `replay`. Waits until a
    /// killed predecessor has ended. Cuts an incomplete tail off.
    pub fn open(folder: &Path, mut replay: impl FnMut(Place, &[u8])) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let path = path(folder);
        let options = OpenOptions::new().read(true).append(true).create(true).open(&path);
        let mut file = options?;
        flock(&file, FlockOperation::LockExclusive)?;
        sync_folder(folder)?;
        let mut content = Vec::new();
        file.read_to_end(&mut content)?;
        let mut at = 0;
        while let Some(record) = record_at(&content, at) {
            replay(place(at, record.len()), record);
            at += HEAD_BYTES + record.len();
        }
        if at < content.len() {
            eprintln!("m3-files: an incomplete tail of {} bytes is cut off", content.len() - at);
            file.set_len(at as u64)?;
            file.sync_data()?;
        }
        Ok(Self { file, end: at as u64 })
    }

    /// Writes a record. It is safe after the next [`sync`](Self::sync).
    pub fn append(&mut self, record: &[u8]) -> io::Result<Place> {
        let bytes = u32::try_from(record.len()).map_err(io::Error::other)?;
        let mut all = Vec::with_capacity(HEAD_BYTES + record.len());
        all.extend(bytes.to_le_bytes());
        all.extend(crc32fast::hash(record).to_le_bytes());
        all.extend(record);
        self.file.write_all(&all)?;
        let place = Place { at: self.end, bytes };
        self.end += all.len() as u64;
        Ok(place)
    }

    /// Waits until all records are on the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Reads a record again, and checks it.
    pub fn read(&self, place: Place) -> io::Result<Vec<u8>> {
        let mut all = vec![0; HEAD_BYTES + place.bytes as usize];
        self.file.read_exact_at(&mut all, place.at)?;
        match record_at(&all, 0) {
            Some(record) => Ok(record.to_vec()),
            None => Err(io::Error::other(format!("the record at {} is damaged", place.at))),
        }
    }

    /// The bytes of the journal.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.end
    }

    /// Bytes of the disk below the journal, and those that are free.
    pub fn space(&self) -> io::Result<(u64, u64)> {
        let disk = fstatvfs(&self.file)?;
        Ok((disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize))
    }

    /// Puts a new journal of these records in the place of this one, at once or not at all.
    pub fn replace(
        self,
        folder: &Path,
        records: impl Iterator<Item = io::Result<Vec<u8>>>,
    ) -> io::Result<()> {
        let new = folder.join("journal.new");
        let file = File::create(&new)?;
        let mut copy = Self { file, end: 0 };
        for record in records {
            copy.append(&record?)?;
        }
        copy.file.sync_all()?;
        std::fs::rename(&new, path(folder))?;
        sync_folder(folder)
    }
}

fn path(folder: &Path) -> PathBuf {
    folder.join("journal")
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn place(at: usize, bytes: usize) -> Place {
    Place { at: at as u64, bytes: u32::try_from(bytes).unwrap_or(u32::MAX) }
}

/// The whole record at a byte; `None` if there is none.
fn record_at(content: &[u8], at: usize) -> Option<&[u8]> {
    let word = |at: usize| {
        let bytes = content.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let (bytes, checksum) = (word(at)? as usize, word(at + 4)?);
    if bytes > RECORD_MAX_BYTES {
        return None;
    }
    let record = content.get(at + HEAD_BYTES..at + HEAD_BYTES + bytes)?;
    (bytes > 0 && crc32fast::hash(record) == checksum).then_some(record)
}
