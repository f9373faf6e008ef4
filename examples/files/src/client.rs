//! The client: whole files under names.

use crate::peers::{Failure, ask, endpoint};
use crate::protocol::{
    BLOCK_BYTES, BlockAnswer, BlockRequest, ChangeId, Entry, NameAnswer, NameChange, NameRequest,
};
use m3ipc_calls::{Client, Config, Fault};
use std::sync::Arc;
use tokio::sync::{Mutex, MutexGuard};
use tokio::task::JoinSet;

/// How often a read begins again since the file was replaced under it.
const READS: u32 = 100;
/// Blocks that are written at the same time. They share a wait for the disk.
const WRITES: usize = 8;

/// The end of a change of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameEnd {
    /// It is made.
    Changed,
    /// There was no file to rename.
    Missing,
    /// The name has a file already.
    Taken,
}

/// A client of the file service. Clones are the same client. The errors of its calls are those of
/// the servers; after an error a change may have been made or not.
#[derive(Clone, Debug)]
pub struct Files {
    client: Client,
    /// The latest numbers: of changes of names, and of those of blocks that are written at the same
    /// time. A lock is held until the answer.
    numbers: Arc<[Mutex<ChangeId>]>,
}

impl Files {
    /// A new client in the VM of the service.
    pub async fn connect() -> Result<Self, Failure> {
        let client = Client::new(endpoint().await?, Config::default());
        Ok(Self::of(client))
    }

    /// A new client that shares an endpoint with others.
    #[must_use]
    pub fn of(client: Client) -> Self {
        // 0 is the name server's log.
        let first = |_| Mutex::new(ChangeId { client: fastrand::u64(1..), number: 0 });
        Self { client, numbers: (0..=WRITES).map(first).collect() }
    }

    async fn next(&self, at: usize) -> MutexGuard<'_, ChangeId> {
        let mut id = self.numbers[at].lock().await;
        id.number += 1;
        id
    }

    /// Puts a file under a name, in place of an earlier one. The file is on the disk after this.
    ///
    /// # Errors
    /// The file may be there or not; the earlier one is whole if it is not.
    pub async fn put(&self, name: &str, bytes: &[u8]) -> Result<Entry, Fault> {
        let file = *self.next(0).await;
        let mut writes = JoinSet::new();
        for (block, bytes) in (0..).zip(bytes.chunks(BLOCK_BYTES)) {
            if writes.len() == WRITES {
                writes.join_next().await.transpose().map_err(failed)?.transpose()?;
            }
            let (files, bytes) = (self.clone(), bytes.to_vec());
            let write = move |id| BlockRequest::Write { id, file, block, bytes };
            let at = 1 + block as usize % WRITES;
            writes.spawn(async move { files.change(at, write).await });
        }
        while let Some(end) = writes.join_next().await {
            end.map_err(failed)??;
        }
        let entry = Entry { file, bytes: bytes.len() as u64 };
        self.change_name(name, NameChange::Bind(Some(entry))).await?;
        Ok(entry)
    }

    /// Puts an empty file under a name that has none. `None`: the name has a file.
    ///
    /// # Errors
    /// The file may be there or not.
    pub async fn create(&self, name: &str) -> Result<Option<Entry>, Fault> {
        let entry = Entry { file: *self.next(0).await, bytes: 0 };
        match self.change_name(name, NameChange::Create(entry)).await? {
            NameEnd::Changed => Ok(Some(entry)),
            NameEnd::Taken => Ok(None),
            NameEnd::Missing => Err(wrong_answer()),
        }
    }

    /// Removes a name and its file.
    pub async fn remove(&self, name: &str) -> Result<(), Fault> {
        self.change_name(name, NameChange::Bind(None)).await.map(|_| ())
    }

    /// Gives a file another name, in place of an earlier file.
    pub async fn rename(&self, from: &str, to: &str) -> Result<NameEnd, Fault> {
        self.change_name(to, NameChange::Rename { from: from.to_owned() }).await
    }

    /// Gives a file another name that no file has.
    pub async fn rename_new(&self, from: &str, to: &str) -> Result<NameEnd, Fault> {
        self.change_name(to, NameChange::RenameNew { from: from.to_owned() }).await
    }

    /// Changes a name, and frees the file that it had. Blocks that cannot be freed stay: the change
    /// is made.
    async fn change_name(&self, name: &str, change: NameChange) -> Result<NameEnd, Fault> {
        let id = self.next(0).await;
        let request = NameRequest::Change { id: *id, name: name.to_owned(), change };
        let answer = ask(&self.client, "names", &request).await?;
        drop(id);
        match answer {
            NameAnswer::Changed { before: Some(Entry { file, .. }) } => {
                if let Err(fault) = self.change(0, |id| BlockRequest::Free { id, file }).await {
                    eprintln!("m3-files: the blocks of a file that has no name stay: {fault}");
                }
                Ok(NameEnd::Changed)
            }
            NameAnswer::Changed { before: None } => Ok(NameEnd::Changed),
            NameAnswer::Refused => Ok(NameEnd::Missing),
            NameAnswer::Taken => Ok(NameEnd::Taken),
            _ => Err(wrong_answer()),
        }
    }

    async fn change(
        &self,
        at: usize,
        request: impl FnOnce(ChangeId) -> BlockRequest,
    ) -> Result<(), Fault> {
        let id = self.next(at).await;
        match ask(&self.client, "cache", &request(*id)).await? {
            BlockAnswer::Done { .. } => Ok(()),
            _ => Err(wrong_answer()),
        }
    }

    /// What a name stands for.
    pub async fn find(&self, name: &str) -> Result<Option<Entry>, Fault> {
        match ask(&self.client, "names", &NameRequest::Find(name.to_owned())).await? {
            NameAnswer::Found(entry) => Ok(entry),
            _ => Err(wrong_answer()),
        }
    }

    /// The file under a name.
    pub async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, Fault> {
        for _ in 0..READS {
            let Some(entry) = self.find(name).await? else { return Ok(None) };
            if let Some(bytes) = self.read(entry).await? {
                return Ok(Some(bytes));
            }
        }
        Err(Fault::new("the file is replaced all the time"))
    }

    /// The content of a file; `None` if it was freed meanwhile.
    pub async fn read(
        &self,
        Entry { file, bytes: length }: Entry,
    ) -> Result<Option<Vec<u8>>, Fault> {
        let mut content = Vec::new();
        let mut block = 0;
        while (content.len() as u64) < length {
            match ask(&self.client, "cache", &BlockRequest::Read { file, block }).await? {
                BlockAnswer::Bytes(Some(bytes)) if !bytes.is_empty() => content.extend(bytes),
                BlockAnswer::Bytes(_) => return Ok(None),
                _ => return Err(wrong_answer()),
            }
            block += 1;
        }
        Ok(Some(content))
    }

    /// All names and what they stand for.
    pub async fn list(&self) -> Result<Vec<(String, Entry)>, Fault> {
        let mut all: Vec<(String, Entry)> = Vec::new();
        loop {
            let after = all.last().map_or(String::new(), |(name, _)| name.clone());
            match ask(&self.client, "names", &NameRequest::List { after }).await? {
                NameAnswer::Names(some) if some.is_empty() => return Ok(all),
                NameAnswer::Names(some) => all.extend(some),
                _ => return Err(wrong_answer()),
            }
        }
    }

    /// Bytes of the disk, and those that are free.
    pub async fn space(&self) -> Result<(u64, u64), Fault> {
        match ask(&self.client, "cache", &BlockRequest::Space).await? {
            BlockAnswer::Space { all, free } => Ok((all, free)),
            _ => Err(wrong_answer()),
        }
    }
}

fn failed(error: tokio::task::JoinError) -> Fault {
    Fault::new(error.to_string())
}

fn wrong_answer() -> Fault {
    Fault::new("an answer of another kind; are all programs of one version?")
}
