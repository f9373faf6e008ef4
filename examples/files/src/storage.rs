//! The storage driver. One thread has the store. All changes that wait go to the disk together.

use crate::peers::{Failure, endpoint};
use crate::protocol::{BlockAnswer, BlockRequest};
use crate::store::Store;
use m3ipc_calls::{Config, Fault, Request, Server, typed};
use std::path::Path;
use std::sync::mpsc;
use tokio::sync::oneshot;

/// Changes that go to the disk together.
const BATCH: usize = 256;

type Asked = (BlockRequest, oneshot::Sender<Result<BlockAnswer, Fault>>);

/// Serves the blocks in a folder until the process ends. Without a node that is an error.
pub async fn serve(folder: &Path) -> Result<(), Failure> {
    let store = Store::open(folder)?;
    let (queue, requests) = mpsc::channel();
    std::thread::spawn(move || {
        let error = work(store, &requests);
        // What is on the disk is unknown. The next process reads it.
        eprintln!("m3-files: the storage ends: {error}");
        std::process::exit(1);
    });
    let mut own = endpoint().await?;
    own.name_attach("storage").await?;
    let answer = typed(move |request: BlockRequest, _: Request| {
        let (end, answer) = oneshot::channel();
        // The thread ends with the process alone.
        let _ = queue.send((request, end));
        async move { answer.await.map_err(|_| Fault::new("the storage ends"))? }
    });
    let _server = Server::new(own, Config::default(), answer);
    std::future::pending().await
}

fn work(mut store: Store, requests: &mpsc::Receiver<Asked>) -> std::io::Error {
    while let Ok(first) = requests.recv() {
        let batch = std::iter::once(first).chain(requests.try_iter().take(BATCH - 1));
        let (mut answers, mut has_change) = (Vec::new(), false);
        for (request, end) in batch {
            use BlockRequest::{Count, Read, Space};
            let is_read = matches!(request, Read { .. } | Count { .. } | Space);
            has_change |= !is_read;
            match store.make(request) {
                Ok(answer) => answers.push((end, Ok(answer))),
                // One damaged block harms its file alone.
                Err(error) if is_read => answers.push((end, Err(Fault::new(error.to_string())))),
                Err(error) => return error,
            }
        }
        if has_change && let Err(error) = store.sync() {
            return error;
        }
        for (end, answer) in answers {
            // A client that has gone repeats its request.
            let _ = end.send(answer);
        }
    }
    std::io::Error::other("no server is left")
}
