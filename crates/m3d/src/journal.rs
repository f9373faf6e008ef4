//! The journal: what a successor must know after a kill.
//!
//! Records of the tables, each with its length and a check sum, appended
//! before anybody is told of the change. It lives in the runtime directory,
//! so it outlives the daemon but not the boot; a torn end (the kill came in
//! the middle of a write) is cut off, since nobody was told of it.

use m3_model::tables::Record;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const HEAD_BYTES: usize = 8;
/// A record is never longer: privileges of a VM with all slots named one by one.
const RECORD_MAX_BYTES: usize = 1 << 20;
/// Grown by this much since it was last shortened, it is shortened again.
const SHORTEN_BYTES: u64 = 4 << 20;

/// The journal, open for appending.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    grown_bytes: u64,
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
        let _ = std::fs::remove_file(&fresh);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
        file.write_all(&format(records))?;
        std::fs::rename(&fresh, path)?;
        Ok(Self { path: path.to_owned(), file, grown_bytes: 0 })
    }

    /// Appends records.
    pub(crate) fn append(&mut self, records: &[Record]) -> std::io::Result<()> {
        let bytes = format(records);
        self.grown_bytes += bytes.len() as u64;
        self.file.write_all(&bytes)
    }

    /// Whether it is time to begin it anew from a snapshot.
    pub(crate) fn is_long(&self) -> bool {
        self.grown_bytes > SHORTEN_BYTES
    }

    /// Begins anew with a snapshot.
    pub(crate) fn shorten(&mut self, snapshot: &[Record]) -> std::io::Result<()> {
        *self = Self::begin(&self.path, snapshot)?;
        Ok(())
    }
}

fn format(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        let body = m3_wire::encode(record);
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
    Some((m3_wire::decode(body).ok()?, rest))
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
