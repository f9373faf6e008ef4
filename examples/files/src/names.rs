//! The name server. Its state is a log in the storage; this process has a copy of its end.
//!
//! A change is an append to the log under the number of its client. So a client may repeat it: the
//! storage answers with the same place in the log, and the records up to that one say what the
//! change did.

use crate::peers::{Failure, ask, endpoints};
use crate::protocol::{
    BlockAnswer, BlockRequest, ChangeId, Entry, NAME_LOG, NameAnswer, NameChange, NameRequest,
};
use m3ipc_calls::{Client, Codec, Config, Fault, Postcard, Request, Server, typed};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use tokio::sync::Mutex;

/// Names of one answer.
const NAMES: usize = 1_000;

/// Records of the log that a start asks for at once.
const IN_FLIGHT: u32 = 64;

/// A record of the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Change {
    name: String,
    change: NameChange,
}

/// What follows from the records alone, so each process comes to the same.
#[derive(Default)]
struct State {
    entries: BTreeMap<String, Entry>,
    /// The answer to each record.
    answers: Vec<NameAnswer>,
}

impl State {
    /// Applies the next record.
    fn apply(&mut self, Change { name, change }: Change) {
        let entry = match change {
            NameChange::Bind(entry) => entry,
            NameChange::Rename { from } => match self.entries.remove(&from) {
                Some(entry) => Some(entry),
                None => return self.answers.push(NameAnswer::Refused),
            },
        };
        let before = match entry {
            Some(entry) => self.entries.insert(name, entry),
            None => self.entries.remove(&name),
        };
        self.answers.push(NameAnswer::Changed { before });
    }
}

struct Names {
    client: Client,
    state: RwLock<State>,
    /// Records of the log that are in `state`. One change at a time holds the lock.
    applied: Mutex<u32>,
}

/// Serves until the process ends. Without a node that is an error.
pub async fn serve() -> Result<(), Failure> {
    let (mut own, asking) = endpoints().await?;
    let client = Client::new(asking, Config::default());
    let names = Names { client, state: RwLock::default(), applied: Mutex::new(0) };
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
            NameRequest::Change { id, name, change } => self.change(id, name, change).await,
            NameRequest::Find(name) => Ok(NameAnswer::Found(self.find(&name))),
            NameRequest::List { after } => {
                let from = (Bound::Excluded(after), Bound::Unbounded);
                let state = self.state();
                let some = state.entries.range(from).take(NAMES);
                Ok(NameAnswer::Names(some.map(|(name, entry)| (name.clone(), *entry)).collect()))
            }
        }
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, name: &str) -> Option<Entry> {
        self.state().entries.get(name).copied()
    }

    async fn change(
        &self,
        id: ChangeId,
        name: String,
        change: NameChange,
    ) -> Result<NameAnswer, Fault> {
        let mut applied = self.applied.lock().await;
        let bytes = Postcard::encode(&Change { name, change }).map_err(Fault::new)?;
        let append = BlockRequest::Append { id, file: NAME_LOG, bytes };
        let at = match ask(&self.client, "cache", &append).await? {
            BlockAnswer::Done { block } => block,
            other => return Err(Fault::new(format!("not appended: {other:?}"))),
        };
        // A predecessor's change may have come before this one.
        self.catch_up(&mut applied, at.saturating_add(1)).await?;
        // The record of the first attempt counts, not that of a repeat.
        let answer = self.state().answers.get(at as usize).cloned();
        answer.ok_or_else(|| Fault::new("no such record"))
    }

    async fn catch_up(&self, applied: &mut u32, count: u32) -> Result<(), Fault> {
        while *applied < count {
            let some = *applied..count.min(applied.saturating_add(IN_FLIGHT));
            let asked = some.map(|block| tokio::spawn(record(self.client.clone(), block)));
            for record in asked.collect::<Vec<_>>() {
                let found = record.await.map_err(|error| Fault::new(error.to_string()))?;
                let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
                state.apply(found?);
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
