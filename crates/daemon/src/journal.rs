//! The journal: the records from which a successor rebuilds the tables after a kill.
//!
//! The file begins with a title, the version of the format, and the namespaces of the daemon, in
//! which the process numbers, start times and users of the records have their meaning. A journal of
//! another version is refused: its records could mean something else. A file without the title is
//! no journal, and has no record.
//!
//! Each record of the tables has its length and a checksum before it. The daemon appends a record
//! before any member learns of the change. The journal lies in the runtime directory, so it
//! outlives the daemon, but not a boot. A kill in the middle of a write leaves a torn end. The
//! replay cuts it off, because no member learned of that change.

use crate::tables::Record;
use m3ipc_sys::{Errno, Namespaces};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The begin of each journal.
const TITLE: &[u8; 14] = b"m3ipc journal ";
/// Version of the format, behind the title: a change of [`Record`], or of a type in it, increments
/// it.
const VERSION: u16 = 7;
/// The numbers of the namespaces, behind the version.
const NAMESPACES_BYTES: usize = 24;
/// The extension of a damaged journal that is kept.
const DAMAGED: &str = "damaged";
/// Length and checksum before a record.
const HEAD_BYTES: usize = 8;
/// The longest record: privileges that name all slots of a VM one by one.
const RECORD_MAX_BYTES: usize = 1 << 20;
/// A journal that grew by this much is rewritten from a snapshot, or by its first length if that is
/// more. So each appended byte costs at most one rewritten byte.
const REWRITE_BYTES: u64 = 4 << 20;

/// Room for records of changes that the daemon cannot refuse.
const RESERVE_BYTES: u64 = 4096;

/// Why a journal cannot be read.
#[derive(Debug)]
pub(crate) enum JournalError {
    /// The system refuses.
    System(std::io::Error),
    /// The journal has this version.
    Version(u16),
}

/// What a predecessor left.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Found {
    /// The whole records, up to the first that is none.
    pub(crate) records: Vec<Record>,
    /// The namespaces of the predecessor.
    pub(crate) namespaces: Namespaces,
    /// Whether the file has bytes that no daemon leaves, not even one that was killed in a write.
    pub(crate) is_damaged: bool,
}

/// The journal, open for appending.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    grown_bytes: u64,
    /// The length at its beginning.
    begun_bytes: u64,
    /// The length, and the length up to which the file has reserved room.
    end_bytes: u64,
    reserved_bytes: u64,
    /// Whether a record did not fit, so that the file lacks changes.
    is_behind: bool,
}

impl Journal {
    /// What a predecessor left; nothing if there is no journal.
    pub(crate) fn read(path: &Path) -> Result<Found, JournalError> {
        match std::fs::read(path) {
            Ok(bytes) => read_bytes(&bytes),
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(Found::default()),
            Err(cause) => Err(JournalError::System(cause)),
        }
    }

    /// Keeps a damaged journal under a second name, which it returns. [`begin`](Self::begin) then
    /// replaces the first name alone.
    pub(crate) fn keep_damaged(path: &Path) -> std::io::Result<PathBuf> {
        let kept = path.with_extension(DAMAGED);
        match std::fs::remove_file(&kept) {
            Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => return Err(cause),
            _ => std::fs::hard_link(path, &kept)?,
        }
        Ok(kept)
    }

    /// The version of the journals of this daemon.
    pub(crate) const fn version() -> u16 {
        VERSION
    }

    /// Begins a journal with these records. It replaces an old journal in one step.
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
            begun_bytes: end_bytes,
            end_bytes,
            reserved_bytes: end_bytes,
            is_behind: false,
        })
    }

    /// Goes on with the journal of a predecessor, without its torn end. For a directory without
    /// room for a new journal.
    pub(crate) fn resume(path: &Path) -> std::io::Result<Self> {
        let bytes = std::fs::read(path)?;
        let begin = title().len();
        let records = bytes.get(begin..).ok_or(std::io::ErrorKind::InvalidData)?;
        let end_bytes = (begin + parse(records).1) as u64;
        let file = OpenOptions::new().append(true).open(path)?;
        file.set_len(end_bytes)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            // A long one is rewritten as soon as there is room.
            grown_bytes: end_bytes,
            begun_bytes: 0,
            end_bytes,
            reserved_bytes: end_bytes,
            is_behind: false,
        })
    }

    fn begin_at(fresh: &Path, records: &[Record]) -> std::io::Result<File> {
        let _ = std::fs::remove_file(fresh);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(fresh)?;
        file.write_all(&[&title()[..], &format(records)].concat())?;
        Ok(file)
    }

    /// Reserves room for a few records and these bytes, before the daemon makes their changes.
    pub(crate) fn reserve(&mut self, bytes: u64) -> std::io::Result<()> {
        if self.is_behind {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        if self.end_bytes + bytes + RESERVE_BYTES <= self.reserved_bytes {
            return Ok(());
        }
        let flags = FallocateFlags::KEEP_SIZE;
        match fallocate(&self.file, flags, self.end_bytes, bytes + 2 * RESERVE_BYTES) {
            // The file system cannot reserve room: a failed write will report the lack.
            Ok(()) | Err(Errno::OPNOTSUPP) => {
                self.reserved_bytes = self.end_bytes + bytes + 2 * RESERVE_BYTES;
                Ok(())
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// Appends records. After a failure, every append fails until [`Self::rewrite`] succeeds.
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

    /// Whether the journal is long enough for a rewrite.
    pub(crate) fn is_long(&self) -> bool {
        self.grown_bytes > REWRITE_BYTES.max(self.begun_bytes)
    }

    /// Replaces the journal by a snapshot.
    pub(crate) fn rewrite(&mut self, snapshot: &[Record]) -> std::io::Result<()> {
        // The old file lacks changes until the new one is in place.
        self.is_behind = true;
        *self = Self::begin(&self.path, snapshot)?;
        Ok(())
    }
}

/// Whether a file begins as a journal of any version does, is empty, or has gone.
pub(crate) fn has_title(path: &Path) -> bool {
    let mut begin = Vec::new();
    let opened = File::open(path);
    match opened.and_then(|file| file.take(TITLE.len() as u64).read_to_end(&mut begin)) {
        Ok(_bytes) => TITLE.starts_with(&begin),
        Err(cause) => cause.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Title, version and namespaces of a new journal.
fn title() -> Vec<u8> {
    let namespaces = Namespaces::own().0.map(u64::to_le_bytes);
    [&TITLE[..], &VERSION.to_le_bytes(), namespaces.as_flattened()].concat()
}

/// The namespaces behind the version, and the records.
fn split_namespaces(bytes: &[u8]) -> Option<(Namespaces, &[u8])> {
    let (numbers, records) = bytes.split_first_chunk::<NAMESPACES_BYTES>()?;
    let (numbers, _) = numbers.as_chunks::<8>();
    let mut namespaces = Namespaces::default();
    for (namespace, number) in namespaces.0.iter_mut().zip(numbers) {
        *namespace = u64::from_le_bytes(*number);
    }
    Some((namespaces, records))
}

/// The records of a whole file.
fn read_bytes(bytes: &[u8]) -> Result<Found, JournalError> {
    let version = bytes.strip_prefix(TITLE).and_then(|rest| rest.split_first_chunk());
    match version.map(|(version, records)| (u16::from_le_bytes(*version), records)) {
        Some((VERSION, bytes)) => match split_namespaces(bytes) {
            Some((namespaces, bytes)) => {
                let (records, whole) = parse(bytes);
                Ok(Found { records, namespaces, is_damaged: !is_torn(&bytes[whole..]) })
            }
            None => Ok(Found { is_damaged: true, ..Found::default() }),
        },
        Some((version, _)) => Err(JournalError::Version(version)),
        // A journal gets its name with its first records, so no kill leaves half a title.
        None => Ok(Found { is_damaged: !bytes.is_empty(), ..Found::default() }),
    }
}

/// Whether these bytes are less than a record, as a kill within a write leaves them.
fn is_torn(bytes: &[u8]) -> bool {
    match bytes.split_first_chunk::<4>() {
        Some((length, _)) => {
            let length = u32::from_le_bytes(*length) as usize;
            length <= RECORD_MAX_BYTES && bytes.len() < HEAD_BYTES + length
        }
        None => true,
    }
}

fn format(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        let body = m3ipc_wire::encode(record);
        let length = u32::try_from(body.len()).expect("records are shorter than 4 GiB");
        bytes.extend(length.to_le_bytes());
        bytes.extend(checksum(&body).to_le_bytes());
        bytes.extend(body);
    }
    bytes
}

/// The records up to a torn end, and how many bytes they take.
fn parse(bytes: &[u8]) -> (Vec<Record>, usize) {
    let (mut records, mut left) = (Vec::new(), bytes);
    while let Some((record, rest)) = parse_one(left) {
        records.push(record);
        left = rest;
    }
    (records, bytes.len() - left.len())
}

fn parse_one(bytes: &[u8]) -> Option<(Record, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
    let (length, sum) = head.split_at(4);
    let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
    if length > RECORD_MAX_BYTES {
        return None;
    }
    let (body, rest) = rest.split_at_checked(length)?;
    (checksum(body).to_le_bytes() == sum).then_some(())?;
    Some((m3ipc_wire::decode(body).ok()?, rest))
}

/// FNV-1a. The checksum only has to detect a torn write.
fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_end_is_cut_off_and_nothing_else() {
        let records = vec![Record::VmEnding(1), Record::VmEnding(2), Record::VmEnd(3)];
        let bytes = format(&records);
        assert_eq!(parse(&bytes), (records.clone(), bytes.len()));
        for cut in 0..bytes.len() {
            let (found, whole) = parse(&bytes[..cut]);
            assert_eq!(format(&found).len(), whole);
            assert_eq!(found, records[..found.len()]);
            assert!(found.len() < records.len());
        }
    }

    #[test]
    fn a_journal_of_another_version_is_refused_and_another_file_has_no_records() {
        let records = vec![Record::VmEnding(1)];
        let whole = [title(), format(&records)].concat();
        assert_eq!(
            read_bytes(&whole).unwrap(),
            Found { records: records.clone(), namespaces: Namespaces::own(), is_damaged: false }
        );
        for version in [0, VERSION + 1, u16::MAX] {
            let mut other = whole.clone();
            other[TITLE.len()..][..2].copy_from_slice(&version.to_le_bytes());
            let refused = read_bytes(&other);
            assert!(matches!(refused, Err(JournalError::Version(found)) if found == version));
        }
        let damaged = Found { is_damaged: true, ..Found::default() };
        assert_eq!(read_bytes(&format(&records)).unwrap(), damaged, "no title");
        assert_eq!(read_bytes(&whole[..TITLE.len() + 1]).unwrap(), damaged, "a torn title");
        assert_eq!(read_bytes(&[]).unwrap(), Found::default());
    }

    #[test]
    fn a_torn_end_is_no_damage_and_a_changed_byte_is() {
        let first = [title(), format(&[Record::VmEnding(1)])].concat();
        let whole = [first.clone(), format(&[Record::VmEnding(2)])].concat();
        for cut in first.len()..=whole.len() {
            assert!(!read_bytes(&whole[..cut]).unwrap().is_damaged, "cut at {cut}");
        }
        // A changed length may look like a torn record.
        for at in first.len() + 4..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            let found = read_bytes(&changed).unwrap();
            let records = vec![Record::VmEnding(1)];
            let namespaces = Namespaces::own();
            let damaged = Found { records, namespaces, is_damaged: true };
            assert_eq!(found, damaged, "changed at {at}");
        }
    }

    #[test]
    fn a_new_journal_is_read_back() {
        let path = std::env::temp_dir().join(format!("m3-test-{}-journal", std::process::id()));
        let begun = vec![Record::VmEnding(1)];
        let mut journal = Journal::begin(&path, &begun).unwrap();
        journal.append(&[Record::VmEnd(1)]).unwrap();
        let read = Journal::read(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read.unwrap().records, [Record::VmEnding(1), Record::VmEnd(1)]);
        assert_eq!(Journal::read(&path).unwrap(), Found::default());
    }

    #[test]
    fn a_resumed_journal_goes_on_behind_its_last_whole_record() {
        let path = std::env::temp_dir().join(format!("m3-test-{}-resumed", std::process::id()));
        drop(Journal::begin(&path, &[Record::VmEnding(1), Record::VmEnding(2)]).unwrap());
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(file.metadata().unwrap().len() - 1).unwrap();
        Journal::resume(&path).unwrap().append(&[Record::VmEnd(1)]).unwrap();
        let read = Journal::read(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read.unwrap().records, [Record::VmEnding(1), Record::VmEnd(1)]);
        assert!(Journal::resume(&path).is_err());
    }

    #[test]
    fn a_journal_is_rewritten_after_it_has_doubled() {
        let path = std::env::temp_dir().join(format!("m3-test-{}-doubled", std::process::id()));
        let id = crate::tables::MemberId::new(0, m3ipc_abi::Address(1));
        let name = |bytes| [Record::Name { id, name: "x".repeat(bytes) }];
        let mib = 1 << 20;
        let small = Journal::begin(&path, &name(mib)).unwrap();
        let large = Journal::begin(&path, &name(8 * mib)).unwrap();
        let mut lengths = Vec::new();
        for mut journal in [small, large] {
            let appended = (1..).find(|_| {
                journal.append(&name(mib)).unwrap();
                journal.is_long()
            });
            lengths.push(appended.unwrap());
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(lengths, [4, 8]);
    }

    /// The version says what the bytes mean, so they change together.
    #[test]
    fn the_bytes_of_this_version_are_these() {
        let first = crate::tables::Node::new(
            3,
            m3ipc_abi::NodeLimits::DEFAULT,
            crate::tables::Quota::default(),
        );
        let mut records = first.snapshot();
        let cred = crate::tables::Credentials::new(1000, 100, 7);
        let limits = m3ipc_abi::VmLimits { procs: 40, tasks: 4 };
        records.push(Record::VmInit(crate::tables::VmSpec::new("shop", limits, &cred)));
        records.extend([Record::VmEnding(1), Record::VmEnd(2)]);
        let sums: Vec<u32> =
            records.iter().map(|record| checksum(&m3ipc_wire::encode(record))).collect();
        assert_eq!(
            (VERSION, sums),
            (7, vec![586_171_025, 2_543_892_678, 4_090_184_026, 1_601_933_253, 997_791_874]),
            "increment VERSION where a record changes"
        );
    }

    #[test]
    fn a_changed_byte_ends_the_journal_there() {
        let mut bytes = format(&[Record::VmEnding(1), Record::VmEnding(2)]);
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        assert_eq!(parse(&bytes).0, [Record::VmEnding(1)]);
    }
}
