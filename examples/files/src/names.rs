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
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use tokio::sync::Mutex;

/// Names of one answer.
const NAMES: usize = 1_000;

/// Records of the log that a start asks for at once.
const IN_FLIGHT: u32 = 64;

/// Answers of the latest records that the server keeps. A client repeats its latest change alone,
/// within a minute; an older answer costs a replay of the log.
const ANSWERS: usize = 4_096;

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
    /// The number of records.
    records: u32,
    /// The answers to the latest records.
    answers: VecDeque<NameAnswer>,
}

impl State {
    /// Applies the next record.
    fn apply(&mut self, record: Change) {
        let answer = self.change(record);
        self.records += 1;
        if self.answers.len() == ANSWERS {
            self.answers.pop_front();
        }
        self.answers.push_back(answer);
    }

    fn change(&mut self, Change { name, change }: Change) -> NameAnswer {
        let is_taken = self.entries.contains_key(&name);
        let entry = match change {
            NameChange::Bind(entry) => entry,
            NameChange::RenameNew { from } if is_taken && self.entries.contains_key(&from) => {
                return NameAnswer::Taken;
            }
            NameChange::Rename { from } | NameChange::RenameNew { from } => {
                match self.entries.remove(&from) {
                    Some(entry) => Some(entry),
                    None => return NameAnswer::Refused,
                }
            }
            NameChange::Create(_) if is_taken => return NameAnswer::Taken,
            NameChange::Create(entry) => Some(entry),
        };
        let before = match entry {
            Some(entry) => self.entries.insert(name, entry),
            None => self.entries.remove(&name),
        };
        NameAnswer::Changed { before }
    }

    /// The answer to a record, if it is kept.
    fn answer(&self, at: u32) -> Option<NameAnswer> {
        let from_end = usize::try_from(self.records.checked_sub(at)?).ok()?;
        self.answers.get(self.answers.len().checked_sub(from_end)?).cloned()
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
        drop(applied);
        // The record of the first attempt counts, not that of a repeat.
        let answer = self.state().answer(at);
        match answer {
            Some(answer) => Ok(answer),
            None => self.replay(at).await,
        }
    }

    /// The answer to a record, by all records up to that one.
    async fn replay(&self, at: u32) -> Result<NameAnswer, Fault> {
        let mut state = State::default();
        for block in 0..=at {
            state.apply(record(self.client.clone(), block).await?);
        }
        state.answer(at).ok_or_else(|| Fault::new("no such record"))
    }

    async fn catch_up(&self, applied: &mut u32, count: u32) -> Result<(), Fault> {
        while *applied < count {
            let some = *applied..count.min(applied.saturating_add(IN_FLIGHT));
            let asked = some.map(|block| tokio::spawn(record(self.client.clone(), block)));
            for record in asked.collect::<Vec<_>>() {
                let found = record.await.map_err(|error| Fault::new(error.to_string()))?;
                let found = found?;
                let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
                state.apply(found);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u64) -> Entry {
        Entry { file: ChangeId { client: 1, number }, bytes: number }
    }

    fn apply(state: &mut State, name: &str, change: NameChange) -> Option<NameAnswer> {
        state.apply(Change { name: name.to_owned(), change });
        state.answer(state.records - 1)
    }

    #[test]
    fn the_latest_answers_are_kept_and_no_others() {
        let mut state = State::default();
        let records = u32::try_from(ANSWERS).expect("few") * 3 + 7;
        for number in 0..u64::from(records) {
            apply(&mut state, "one", NameChange::Bind(Some(entry(number))));
        }
        assert_eq!((state.answers.len(), state.records), (ANSWERS, records));
        let first = records - u32::try_from(ANSWERS).expect("few");
        for at in first..records {
            let before = Some(entry(u64::from(at) - 1));
            assert_eq!(state.answer(at), Some(NameAnswer::Changed { before }), "{at}");
        }
        assert_eq!([0, first - 1, records].map(|at| state.answer(at)), [None, None, None]);
    }

    #[test]
    fn a_file_is_created_and_renamed_anew_only_where_the_name_has_none() {
        let mut state = State::default();
        let changed = Some(NameAnswer::Changed { before: None });
        let (taken, refused) = (Some(NameAnswer::Taken), Some(NameAnswer::Refused));
        assert_eq!(apply(&mut state, "one", NameChange::Create(entry(1))), changed);
        assert_eq!(apply(&mut state, "one", NameChange::Create(entry(2))), taken);
        assert_eq!(apply(&mut state, "two", NameChange::Create(entry(3))), changed);
        let rename = |from: &str| NameChange::RenameNew { from: from.to_owned() };
        assert_eq!(apply(&mut state, "two", rename("one")), taken);
        assert_eq!(apply(&mut state, "two", rename("none")), refused);
        assert_eq!(apply(&mut state, "three", rename("one")), changed);
        let names: Vec<(&str, Entry)> =
            state.entries.iter().map(|(name, entry)| (name.as_str(), *entry)).collect();
        assert_eq!(names, [("three", entry(1)), ("two", entry(3))]);
    }
}
