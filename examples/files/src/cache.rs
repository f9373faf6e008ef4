//! The block cache: passes each change on to the storage, and keeps blocks that were read.
//!
//! A read keeps its block only if no change began or ended meanwhile. A change drops its block
//! before and after it. So no block here is older than the storage's answer to a finished change.

use crate::peers::{Failure, ask, endpoints};
use crate::protocol::{BlockAnswer, BlockRequest, FileId};
use m3ipc_calls::{Client, Config, Fault, Request, Server, typed};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Blocks that are kept.
const BLOCKS: usize = 1_024;

type Key = (FileId, u32);

#[derive(Debug, Default)]
struct Blocks {
    bytes: HashMap<Key, Vec<u8>>,
    /// The kept blocks, the oldest first.
    order: VecDeque<Key>,
    /// Counts begins and ends of changes.
    changes: u64,
}

impl Blocks {
    fn keep(&mut self, key: Key, bytes: Vec<u8>) {
        if self.bytes.insert(key, bytes).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > BLOCKS {
            if let Some(oldest) = self.order.pop_front() {
                self.bytes.remove(&oldest);
            }
        }
    }

    /// A change begins or ends.
    fn drop_blocks(&mut self, is_changed: impl Fn(&Key) -> bool) {
        self.changes += 1;
        if self.bytes.keys().any(&is_changed) {
            self.bytes.retain(|key, _| !is_changed(key));
            self.order.retain(|key| !is_changed(key));
        }
    }
}

/// Serves until the process ends. Without a node that is an error.
pub async fn serve() -> Result<(), Failure> {
    let (mut own, asking) = endpoints().await?;
    let storage = Client::new(asking, Config::default());
    let blocks = Arc::new(Mutex::new(Blocks::default()));
    let answer = typed(move |request: BlockRequest, _: Request| {
        answer(storage.clone(), Arc::clone(&blocks), request)
    });
    own.name_attach("cache").await?;
    let _server = Server::new(own, Config::default(), answer);
    std::future::pending().await
}

async fn answer(
    storage: Client,
    blocks: Arc<Mutex<Blocks>>,
    request: BlockRequest,
) -> Result<BlockAnswer, Fault> {
    match request {
        BlockRequest::Read { file, block } => {
            let key = (file, block);
            let before = {
                let kept = lock(&blocks);
                if let Some(bytes) = kept.bytes.get(&key) {
                    return Ok(BlockAnswer::Bytes(Some(bytes.clone())));
                }
                kept.changes
            };
            let answer = ask(&storage, "storage", &request).await?;
            if let BlockAnswer::Bytes(Some(bytes)) = &answer {
                let mut kept = lock(&blocks);
                if kept.changes == before {
                    kept.keep(key, bytes.clone());
                }
            }
            Ok(answer)
        }
        BlockRequest::Write { file, block, .. } => {
            let is_changed = |key: &Key| *key == (file, block);
            lock(&blocks).drop_blocks(is_changed);
            let answer = ask(&storage, "storage", &request).await;
            lock(&blocks).drop_blocks(is_changed);
            answer
        }
        BlockRequest::Free { file, .. } | BlockRequest::Append { file, .. } => {
            let is_changed = |key: &Key| key.0 == file;
            let is_free = matches!(request, BlockRequest::Free { .. });
            // An append changes no block that there is.
            if is_free {
                lock(&blocks).drop_blocks(is_changed);
            }
            let answer = ask(&storage, "storage", &request).await;
            if is_free {
                lock(&blocks).drop_blocks(is_changed);
            }
            answer
        }
        BlockRequest::Count { .. } | BlockRequest::Space => {
            ask(&storage, "storage", &request).await
        }
    }
}

fn lock(blocks: &Mutex<Blocks>) -> MutexGuard<'_, Blocks> {
    blocks.lock().unwrap_or_else(PoisonError::into_inner)
}
