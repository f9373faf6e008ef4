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

/// What the storage driver knows. After an error of a change the process must end.
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
            BlockRequest::Space => {
                let (all, free) = self.journal.space()?;
                Ok(BlockAnswer::Space { all, free })
            }
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
