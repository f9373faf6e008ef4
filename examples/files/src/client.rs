//! The client: whole files under names.

use crate::peers::{Failure, ask, endpoint};
use crate::protocol::{
    BLOCK_BYTES, BlockAnswer, BlockRequest, ChangeId, Entry, NameAnswer, NameRequest,
};
use m3ipc_calls::{Client, Config, Fault};

/// How often a read begins again since the file was replaced under it.
const READS: u32 = 100;

/// A client of the file service. It makes one change at a time.
#[derive(Debug)]
pub struct Files {
    client: Client,
    id: u64,
    number: u64,
}

impl Files {
    /// A new client in the VM of the service.
    ///
    /// # Errors
    /// Those of the node.
    pub async fn connect() -> Result<Self, Failure> {
        let client = Client::new(endpoint().await?, Config::default());
        Ok(Self::of(client))
    }

    /// A new client that shares an endpoint with others.
    #[must_use]
    pub fn of(client: Client) -> Self {
        // 0 is the name server's log.
        Self { client, id: fastrand::u64(1..), number: 0 }
    }

    fn next(&mut self) -> ChangeId {
        self.number += 1;
        ChangeId { client: self.id, number: self.number }
    }

    /// Puts a file under a name, in place of an earlier one. The file is on the disk after this.
    ///
    /// # Errors
    /// The file may be there or not; the earlier one is whole if it is not.
    pub async fn put(&mut self, name: &str, bytes: &[u8]) -> Result<(), Fault> {
        let file = self.next();
        for (block, bytes) in (0..).zip(bytes.chunks(BLOCK_BYTES)) {
            let id = self.next();
            self.change(BlockRequest::Write { id, file, block, bytes: bytes.to_vec() }).await?;
        }
        self.bind(name, Some(Entry { file, bytes: bytes.len() as u64 })).await
    }

    /// Removes a name and its file.
    ///
    /// # Errors
    /// The file may be there or not.
    pub async fn remove(&mut self, name: &str) -> Result<(), Fault> {
        self.bind(name, None).await
    }

    async fn bind(&mut self, name: &str, entry: Option<Entry>) -> Result<(), Fault> {
        let request = NameRequest::Bind { id: self.next(), name: name.to_owned(), entry };
        let NameAnswer::Bound { before } = ask(&self.client, "names", &request).await? else {
            return Err(wrong_answer());
        };
        if let Some(Entry { file, .. }) = before {
            let id = self.next();
            self.change(BlockRequest::Free { id, file }).await?;
        }
        Ok(())
    }

    async fn change(&self, request: BlockRequest) -> Result<(), Fault> {
        match ask(&self.client, "cache", &request).await? {
            BlockAnswer::Done { .. } => Ok(()),
            _ => Err(wrong_answer()),
        }
    }

    /// The file under a name.
    ///
    /// # Errors
    /// Those of the servers.
    pub async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, Fault> {
        for _ in 0..READS {
            let request = NameRequest::Find(name.to_owned());
            let entry = match ask(&self.client, "names", &request).await? {
                NameAnswer::Found(Some(entry)) => entry,
                NameAnswer::Found(None) => return Ok(None),
                _ => return Err(wrong_answer()),
            };
            if let Some(bytes) = self.read(entry).await? {
                return Ok(Some(bytes));
            }
        }
        Err(Fault::new("the file is replaced all the time"))
    }

    /// The content of a file; `None` if it was freed meanwhile.
    async fn read(&self, Entry { file, bytes: length }: Entry) -> Result<Option<Vec<u8>>, Fault> {
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

    /// All names and the lengths of their files.
    ///
    /// # Errors
    /// Those of the servers.
    pub async fn list(&self) -> Result<Vec<(String, u64)>, Fault> {
        let mut all: Vec<(String, u64)> = Vec::new();
        loop {
            let after = all.last().map_or(String::new(), |(name, _)| name.clone());
            let request = NameRequest::List { after };
            let NameAnswer::Names(some) = ask(&self.client, "names", &request).await? else {
                return Err(wrong_answer());
            };
            if some.is_empty() {
                return Ok(all);
            }
            all.extend(some.into_iter().map(|(name, entry)| (name, entry.bytes)));
        }
    }

    /// The number of changes of names, which the log of the name server has.
    ///
    /// # Errors
    /// Those of the servers.
    pub async fn name_changes(&self) -> Result<u32, Fault> {
        let request = BlockRequest::Count { file: crate::protocol::NAME_LOG };
        match ask(&self.client, "cache", &request).await? {
            BlockAnswer::Count(count) => Ok(count),
            _ => Err(wrong_answer()),
        }
    }
}

fn wrong_answer() -> Fault {
    Fault::new("an answer of another kind; are all programs of one version?")
}
