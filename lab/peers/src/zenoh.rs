//! Zenoh: a query and its reply over a Unix socket, between two peers without scouting.

use std::path::Path;
use std::time::{Duration, Instant};

use ::zenoh::handlers::FifoChannelHandler;
use ::zenoh::query::{Querier, Query, Queryable};
use ::zenoh::{Config, Session, Wait as _};
use m3ipc_bench::Error;
use m3ipc_bench::ends::{ClientEnd, ServerEnd};
use m3ipc_bench::job::Report;
use m3ipc_bench::payload::Message;
use m3ipc_bench::run::Run;
use m3ipc_report::schema::Wait;

use crate::library::Library;
use crate::{ServerFile, await_file, failed, fill, path};

/// Time limit for the client's wait for the server's queryable.
const LIMIT: Duration = Duration::from_secs(8);

/// Query and reply.
pub const LIBRARY: Library = Library {
    name: "zenoh",
    version: || env!("VERSION_ZENOH").into(),
    waits: &[Wait::Block],
    tells_death: true,
    client,
    server,
    tidy: || {},
};

fn client(run: &Run, name: &str) -> Result<Report, Error> {
    let path = path(name, "zenoh");
    await_file(&path);
    let session = session(&path, "connect")?;
    let querier = session.declare_querier(name.to_owned()).wait().map_err(failed("a querier"))?;
    let since = Instant::now();
    while !querier.matching_status().wait().map_err(failed("look for the server"))?.matching() {
        if since.elapsed() > LIMIT {
            return Err(Error::Usage("the server's queryable never appeared".into()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    run.drive(Asking { querier, _session: session })
}

fn server(run: &Run, name: &str) -> Result<Report, Error> {
    let file = ServerFile(path(name, "zenoh"));
    let session = session(&file.0, "listen")?;
    let queryable = session.declare_queryable(name.to_owned()).wait();
    let queryable = queryable.map_err(failed("a queryable"))?;
    run.serve(Answering { query: None, queryable, _session: session, _file: file })
}

fn session(path: &Path, verb: &str) -> Result<Session, Error> {
    let endpoints = format!("[\"unixsock-stream/{}\"]", path.display());
    let mut config = Config::default();
    for (key, value) in [
        ("mode", "\"peer\""),
        ("listen/endpoints", "[]"),
        (&format!("{verb}/endpoints"), endpoints.as_str()),
        ("scouting/multicast/enabled", "false"),
        ("scouting/gossip/enabled", "false"),
    ] {
        config.insert_json5(key, value).map_err(failed("configure"))?;
    }
    ::zenoh::open(config).wait().map_err(failed("open a session"))
}

struct Asking {
    querier: Querier<'static>,
    _session: Session,
}

impl ClientEnd for Asking {
    fn trip(&mut self, request: &Message, answer: &mut Message) -> Result<(), Error> {
        let replies = self.querier.get().payload(request.bytes()).wait();
        let replies = replies.map_err(failed("query"))?;
        // A closed channel without a reply means that the server has ended.
        let reply = replies.recv().map_err(|_| Error::PeerGone)?;
        let sample = reply.result().map_err(|_| Error::PeerGone)?;
        fill(answer, &sample.payload().to_bytes())
    }
}

struct Answering {
    query: Option<Query>,
    queryable: Queryable<FifoChannelHandler<Query>>,
    _session: Session,
    _file: ServerFile,
}

impl ServerEnd for Answering {
    fn receive(&mut self, request: &mut Message) -> Result<(), Error> {
        let query = self.queryable.recv().map_err(failed("receive"))?;
        let came = query.payload().map(|payload| payload.to_bytes()).unwrap_or_default();
        fill(request, &came)?;
        self.query = Some(query);
        Ok(())
    }

    fn send(&mut self, answer: &Message) -> Result<(), Error> {
        let query = self.query.take();
        let query = query.ok_or_else(|| Error::Usage("an answer without a request".into()))?;
        let replied = query.reply(query.key_expr().clone(), answer.bytes()).wait();
        replied.map_err(failed("reply"))
    }
}
