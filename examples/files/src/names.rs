//! The name server. Its state is a log in the storage; this process has a copy of its end.
//!
//! A change is an append to the log under the number of its client. So a client may repeat it: the
//! storage answers with the same place in the log, and the record there says what the change did.

use crate::peers::{Failure, ask, endpoints};
use crate::protocol::{
    BlockAnswer, BlockRequest, ChangeId, Entry, NAME_LOG, NameAnswer, NameRequest,
};
use m3ipc_calls::{Client, Codec, Config, Fault, Postcard, Request, Server, typed};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::Mutex;

/// Names of one answer.
const NAMES: usize = 1_000;

/// Records of the log that a start asks for at once.
const IN_FLIGHT: u32 = 64;

/// A record of the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Change {
    name: String,
    entry: Option<Entry>,
    before: Option<Entry>,
}

struct Names {
    client: Client,
    entries: RwLock<BTreeMap<String, Entry>>,
    /// Records of the log that are in `entries`. One change at a time holds the lock.
    applied: Mutex<u32>,
}

/// Serves until the process ends.
///
/// # Errors
/// Those of the node and of the storage.
pub async fn serve() -> Result<(), Failure> {
    let (mut own, asking) = endpoints().await?;
    let client = Client::new(asking, Config::default());
    let names = Names { client, entries: RwLock::default(), applied: Mutex::new(0) };
    let count = BlockRequest::Count { file: NAME_LOG };
    match ask(&names.client, "cache", &count).await? {
        BlockAnswer::Count(count) => {
            names.catch_up(&mut *names.applied.lock().await, count).await?;
        }
        other => return Err(format!("no count: {other:?}").into()),
    }
    let names = Arc::new(names);
    let answer = typed(move |request: NameRequest, _: Request| {
        let names = Arc::clone(&names);
        async move { names.answer(request).await }
    });
    own.name_attach("names").await?;
    let _server = Server::new(own, Config::default(), answer);
    std::future::pending().await
}

impl Names {
    async fn answer(&self, request: NameRequest) -> Result<NameAnswer, Fault> {
        match request {
            NameRequest::Bind { id, name, entry } => {
                let before = self.bind(id, name, entry).await?;
                Ok(NameAnswer::Bound { before })
            }
            NameRequest::Find(name) => Ok(NameAnswer::Found(self.find(&name))),
            NameRequest::List { after } => {
                let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
                let from = (Bound::Excluded(after), Bound::Unbounded);
                let some = entries.range(from).take(NAMES);
                Ok(NameAnswer::Names(some.map(|(name, entry)| (name.clone(), *entry)).collect()))
            }
        }
    }

    fn find(&self, name: &str) -> Option<Entry> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).get(name).copied()
    }

    async fn bind(
        &self,
        id: ChangeId,
        name: String,
        entry: Option<Entry>,
    ) -> Result<Option<Entry>, Fault> {
        let mut applied = self.applied.lock().await;
        let before = self.find(&name);
        let bytes = Postcard::encode(&Change { name, entry, before }).map_err(Fault::new)?;
        let append = BlockRequest::Append { id, file: NAME_LOG, bytes };
        let at = match ask(&self.client, "cache", &append).await? {
            BlockAnswer::Done { block } => block,
            other => return Err(Fault::new(format!("not appended: {other:?}"))),
        };
        // A predecessor's change may have come before this one.
        self.catch_up(&mut applied, at.saturating_add(1)).await?;
        // The record of the first attempt counts, not that of a repeat.
        Ok(record(self.client.clone(), at).await?.before)
    }

    async fn catch_up(&self, applied: &mut u32, count: u32) -> Result<(), Fault> {
        while *applied < count {
            let some = *applied..count.min(applied.saturating_add(IN_FLIGHT));
            let asked = some.map(|block| tokio::spawn(record(self.client.clone(), block)));
            for record in asked.collect::<Vec<_>>() {
                let found = record.await.map_err(|error| Fault::new(error.to_string()))?;
                let Change { name, entry, .. } = found?;
                let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
                match entry {
                    Some(entry) => entries.insert(name, entry),
                    None => entries.remove(&name),
                };
                *applied += 1;
            }
        }
        Ok(())
    }
}

/// A record of the log.
async fn record(client: Client, block: u32) -> Result<Change, Fault> {
    match ask(&client, "cache", &BlockRequest::Read { file: NAME_LOG, block }).await? {
        BlockAnswer::Bytes(Some(bytes)) => Postcard::decode(&bytes).map_err(Fault::new),
        other => Err(Fault::new(format!("no record {block} in the log: {other:?}"))),
    }
}
