//! The journal: what a successor must know after a kill.
//!
//! Records of the tables, each with its length and a check sum, appended
//! before anybody is told of the change. It lives in the runtime directory,
//! so it outlives the daemon but not the boot; a torn end (the kill came in
//! the middle of a write) is cut off, since nobody was told of it.

use m3ipc_model::tables::Record;
use m3ipc_sys::Errno;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const HEAD_BYTES: usize = 8;
/// A record is never longer: privileges of a VM with all slots named one by one.
const RECORD_MAX_BYTES: usize = 1 << 20;
/// Grown by this much since it was last shortened, it is shortened again.
const SHORTEN_BYTES: u64 = 4 << 20;

/// Room that is kept for records of what cannot be refused.
const ROOM_BYTES: u64 = 4096;

/// The journal, open for appending.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    grown_bytes: u64,
    /// How long it is, and how long it may grow without asking for room.
    end_bytes: u64,
    reserved_bytes: u64,
    /// A record did not fit: what lies there is of before it.
    is_behind: bool,
}

impl Journal {
    /// The records that a predecessor left, if any.
    pub(crate) fn read(path: &Path) -> std::io::Result<Vec<Record>> {
        match std::fs::read(path) {
            Ok(bytes) => Ok(parse(&bytes)),
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(cause) => Err(cause),
        }
    }

    /// Begins a journal with these records, in place of what is there.
    pub(crate) fn begin(path: &Path, records: &[Record]) -> std::io::Result<Self> {
        let fresh = path.with_extension("new");
        let begun = Self::begin_at(&fresh, records).and_then(|file| {
            std::fs::rename(&fresh, path)?;
            Ok(file)
        });
        let file = begun.inspect_err(|_cause| drop(std::fs::remove_file(&fresh)))?;
        let end_bytes = file.metadata()?.len();
        Ok(Self {
            path: path.to_owned(),
            file,
            grown_bytes: 0,
            end_bytes,
            reserved_bytes: end_bytes,
            is_behind: false,
        })
    }

    fn begin_at(fresh: &Path, records: &[Record]) -> std::io::Result<File> {
        let _ = std::fs::remove_file(fresh);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(fresh)?;
        file.write_all(&format(records))?;
        Ok(file)
    }

    /// Makes sure that a few records will find room, before what they tell is done.
    pub(crate) fn reserve(&mut self) -> std::io::Result<()> {
        if self.is_behind {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        if self.end_bytes + ROOM_BYTES <= self.reserved_bytes {
            return Ok(());
        }
        let flags = FallocateFlags::KEEP_SIZE;
        match fallocate(&self.file, flags, self.end_bytes, 2 * ROOM_BYTES) {
            // A file system that cannot reserve: the write will tell.
            Ok(()) | Err(Errno::OPNOTSUPP) => {
                self.reserved_bytes = self.end_bytes + 2 * ROOM_BYTES;
                Ok(())
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// Appends records. Where that fails, nothing is appended any more until it is [begun anew](Self::shorten).
    pub(crate) fn append(&mut self, records: &[Record]) -> std::io::Result<()> {
        if self.is_behind {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        let bytes = format(records);
        self.grown_bytes += bytes.len() as u64;
        self.end_bytes += bytes.len() as u64;
        let written = self.file.write_all(&bytes);
        self.is_behind = written.is_err();
        written
    }

    /// Whether it is time to begin it anew from a snapshot.
    pub(crate) fn is_long(&self) -> bool {
        self.grown_bytes > SHORTEN_BYTES
    }

    /// Begins anew with a snapshot.
    pub(crate) fn shorten(&mut self, snapshot: &[Record]) -> std::io::Result<()> {
        // Until it is done: what has changed is not in the one that lies there.
        self.is_behind = true;
        *self = Self::begin(&self.path, snapshot)?;
        Ok(())
    }
}

fn format(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        let body = m3ipc_wire::encode(record);
        let length = u32::try_from(body.len()).expect("records are shorter than 4 GiB");
        bytes.extend(length.to_le_bytes());
        bytes.extend(check_sum(&body).to_le_bytes());
        bytes.extend(body);
    }
    bytes
}

fn parse(mut bytes: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    while let Some((record, rest)) = parse_one(bytes) {
        records.push(record);
        bytes = rest;
    }
    records
}

fn parse_one(bytes: &[u8]) -> Option<(Record, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
    let (length, sum) = head.split_at(4);
    let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
    if length > RECORD_MAX_BYTES {
        return None;
    }
    let (body, rest) = rest.split_at_checked(length)?;
    (check_sum(body).to_le_bytes() == sum).then_some(())?;
    Some((m3ipc_wire::decode(body).ok()?, rest))
}

/// FNV-1a: it only has to tell a torn write.
fn check_sum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_end_is_cut_off_and_nothing_else() {
        let records = vec![Record::VmEnding(1), Record::VmEnding(2), Record::VmEnd(3)];
        let bytes = format(&records);
        assert_eq!(parse(&bytes), records);
        for cut in 0..bytes.len() {
            let found = parse(&bytes[..cut]);
            assert_eq!(found, records[..found.len()]);
            assert!(found.len() < records.len());
        }
    }

    #[test]
    fn a_changed_byte_ends_the_journal_there() {
        let mut bytes = format(&[Record::VmEnding(1), Record::VmEnding(2)]);
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        assert_eq!(parse(&bytes), [Record::VmEnding(1)]);
    }
}
