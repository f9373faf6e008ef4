//! The blocks of all files, and the latest change of each client.

use crate::journal::{Journal, Place};
use crate::protocol::{BlockAnswer, BlockRequest, ChangeId, FileId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;

/// A journal with more garbage than this, and than what it keeps, is written anew at the start.
const GARBAGE_BYTES: u64 = 16 << 20;

/// A record of the journal.
#[derive(Debug, Serialize, Deserialize)]
enum Record {
    Write {
        id: ChangeId,
        file: FileId,
        block: u32,
        // Copied as a whole. Byte by byte, a start of a debug build reads 10 MB in a second.
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    Free {
        id: ChangeId,
        file: FileId,
    },
    /// The latest change of a client whose record was not kept.
    Latest {
        id: ChangeId,
        block: u32,
    },
}

/// What the storage driver knows.
#[derive(Debug)]
pub struct Store {
    journal: Journal,
    index: Index,
}

#[derive(Debug, Default)]
struct Index {
    files: HashMap<FileId, BTreeMap<u32, Place>>,
    /// The number of the latest change of each client, and the block that it wrote.
    latest: HashMap<u64, (u64, u32)>,
}

impl Index {
    fn apply(&mut self, record: &Record, place: Place) {
        let (id, block) = match record {
            Record::Write { id, file, block, .. } => {
                self.files.entry(*file).or_default().insert(*block, place);
                (id, *block)
            }
            Record::Free { id, file } => {
                self.files.remove(file);
                (id, 0)
            }
            Record::Latest { id, block } => (id, *block),
        };
        let latest = self.latest.entry(id.client).or_default();
        if id.number >= latest.0 {
            *latest = (id.number, block);
        }
    }
}

impl Store {
    /// Opens the store in this folder.
    ///
    /// # Errors
    /// Those of the file system, and a record of another version.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let store = Self::read(folder)?;
        let kept: u64 = store.places().map(Place::bytes).sum();
        let garbage = store.journal.bytes().saturating_sub(kept);
        if garbage < GARBAGE_BYTES || garbage < kept {
            return Ok(store);
        }
        let Self { journal, index } = store;
        let latest = index.latest.iter().map(|(client, (number, block))| {
            let id = ChangeId { client: *client, number: *number };
            bytes_of(&Record::Latest { id, block: *block })
        });
        let places = index.files.values().flat_map(BTreeMap::values);
        let mut records = Vec::new();
        for place in places {
            records.push(journal.read(*place)?);
        }
        let records: Vec<_> = records.into_iter().map(Ok).chain(latest).collect();
        journal.replace(folder, records.into_iter())?;
        Self::read(folder)
    }

    fn read(folder: &Path) -> io::Result<Self> {
        let (mut index, mut wrong) = (Index::default(), None);
        let journal = Journal::open(folder, |place, bytes| match postcard::from_bytes(bytes) {
            Ok(record) => index.apply(&record, place),
            Err(error) => wrong = Some(io::Error::other(error.to_string())),
        })?;
        wrong.map_or(Ok(Self { journal, index }), Err)
    }

    fn places(&self) -> impl Iterator<Item = Place> {
        self.index.files.values().flat_map(BTreeMap::values).copied()
    }

    /// Makes a request. An answer to a change counts after the next [`sync`](Self::sync).
    ///
    /// # Errors
    /// Those of the journal: the process must end.
    pub fn make(&mut self, request: BlockRequest) -> io::Result<BlockAnswer> {
        match request {
            BlockRequest::Write { id, file, block, bytes } => {
                self.change(id, |_| Record::Write { id, file, block, bytes })
            }
            BlockRequest::Append { id, file, bytes } => self.change(id, |index| {
                let block = index.count(file);
                Record::Write { id, file, block, bytes }
            }),
            BlockRequest::Free { id, file } => self.change(id, |_| Record::Free { id, file }),
            BlockRequest::Count { file } => Ok(BlockAnswer::Count(self.index.count(file))),
            BlockRequest::Read { file, block } => {
                let place = self.index.files.get(&file).and_then(|blocks| blocks.get(&block));
                let Some(place) = place else { return Ok(BlockAnswer::Bytes(None)) };
                match postcard::from_bytes(&self.journal.read(*place)?) {
                    Ok(Record::Write { bytes, .. }) => Ok(BlockAnswer::Bytes(Some(bytes))),
                    _ => Err(io::Error::other("the index names a record of another kind")),
                }
            }
        }
    }

    /// Writes the record of a change, unless the change was made before.
    fn change(
        &mut self,
        id: ChangeId,
        record: impl FnOnce(&Index) -> Record,
    ) -> io::Result<BlockAnswer> {
        match self.index.latest.get(&id.client) {
            Some((number, block)) if *number == id.number => {
                return Ok(BlockAnswer::Done { block: *block });
            }
            Some((number, _)) if *number > id.number => return Ok(BlockAnswer::Late),
            _ => {}
        }
        let record = record(&self.index);
        let place = self.journal.append(&bytes_of(&record)?)?;
        self.index.apply(&record, place);
        let block = self.index.latest.get(&id.client).map_or(0, |(_, block)| *block);
        Ok(BlockAnswer::Done { block })
    }

    /// Waits until all changes are on the disk.
    ///
    /// # Errors
    /// Those of the journal: the process must end.
    pub fn sync(&self) -> io::Result<()> {
        self.journal.sync()
    }
}

impl Index {
    fn count(&self, file: FileId) -> u32 {
        let last = self.files.get(&file).and_then(|blocks| blocks.last_key_value());
        last.map_or(0, |(block, _)| block.saturating_add(1))
    }
}

fn bytes_of(record: &Record) -> io::Result<Vec<u8>> {
    postcard::to_allocvec(record).map_err(|error| io::Error::other(error.to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn id(client: u64, number: u64) -> ChangeId {
        ChangeId { client, number }
    }

    fn read(store: &mut Store, file: FileId, block: u32) -> Option<Vec<u8>> {
        match store.make(BlockRequest::Read { file, block }).unwrap() {
            BlockAnswer::Bytes(bytes) => bytes,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_repeated_change_counts_once_also_after_a_restart_and_a_late_one_never() {
        let folder = std::env::temp_dir().join(format!("m3-files-store-{}", std::process::id()));
        let file = id(0, 0);
        let append = |client, number| BlockRequest::Append {
            id: id(client, number),
            file,
            bytes: vec![u8::try_from(number).unwrap()],
        };
        let mut store = Store::open(&folder).unwrap();
        let mut wanted = 0;
        for round in 1..5 {
            for client in [7, 8] {
                let first = store.make(append(client, round)).unwrap();
                assert_eq!(first, BlockAnswer::Done { block: wanted });
                assert_eq!(store.make(append(client, round)).unwrap(), first);
                drop(store);
                store = Store::open(&folder).unwrap();
                assert_eq!(store.make(append(client, round)).unwrap(), first);
                assert_eq!(store.make(append(client, round - 1)).unwrap(), BlockAnswer::Late);
                wanted += 1;
            }
        }
        let counted = store.make(BlockRequest::Count { file }).unwrap();
        assert_eq!(counted, BlockAnswer::Count(wanted));
        drop(store);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_journal_of_garbage_is_written_anew_and_keeps_what_counts() {
        let folder = std::env::temp_dir().join(format!("m3-files-garbage-{}", std::process::id()));
        let mut store = Store::open(&folder).unwrap();
        let (kept, freed) = (id(1, 1), id(2, 1));
        let write =
            |id, file, byte| BlockRequest::Write { id, file, block: 0, bytes: vec![byte; 1 << 19] };
        store.make(write(id(1, 1), kept, 1)).unwrap();
        for number in 1..40 {
            store.make(write(id(2, number), freed, 2)).unwrap();
        }
        store.make(BlockRequest::Free { id: id(2, 40), file: freed }).unwrap();
        drop(store);
        let mut store = Store::open(&folder).unwrap();
        assert!(store.journal.bytes() < 1 << 20, "{} bytes", store.journal.bytes());
        assert_eq!(read(&mut store, kept, 0), Some(vec![1; 1 << 19]));
        assert_eq!(read(&mut store, freed, 0), None);
        let late = store.make(BlockRequest::Free { id: id(2, 39), file: kept }).unwrap();
        assert_eq!(late, BlockAnswer::Late);
        drop(store);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
