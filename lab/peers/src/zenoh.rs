//! Zenoh: a query and its reply over a Unix socket, between two peers that look for nobody else.

use std::time::{Duration, Instant};

use ::zenoh::handlers::FifoChannelHandler;
use ::zenoh::query::{Querier, Query, Queryable};
use ::zenoh::{Config, Session, Wait as _};
use m3ipc_bench::Error;
use m3ipc_bench::job::Report;
use m3ipc_bench::mechanism::{ClientEnd, Inherited, Mechanism, ServerEnd, Site, Transport};
use m3ipc_bench::payload::Message;
use m3ipc_bench::peer::Run;

use crate::{Meeting, await_file, failed, meeting, not_here};

/// How long the client waits for news of the server's queryable.
const PATIENCE: Duration = Duration::from_secs(8);

/// Query/reply.
pub struct Zenoh;

impl Mechanism for Zenoh {
    fn name(&self) -> &'static str {
        "zenoh"
    }

    fn tells_death(&self) -> bool {
        true
    }

    fn open(&self, _: &Site) -> Result<Transport, Error> {
        Err(not_here())
    }

    fn client(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        let name = meeting(&inherited)?;
        let place = Meeting::of(&name, "zenoh");
        await_file(&place.0);
        let session = session(&place, "connect")?;
        std::mem::forget(place);
        let querier = session.declare_querier(name).wait().map_err(failed("a querier"))?;
        let since = Instant::now();
        while !querier.matching_status().wait().map_err(failed("look for the server"))?.matching() {
            if since.elapsed() > PATIENCE {
                return Err(Error::Usage("the server's queryable was never heard of".into()));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        run.drive(Asking { querier, _session: session })
    }

    fn server(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        let name = meeting(&inherited)?;
        let place = Meeting::of(&name, "zenoh");
        let session = session(&place, "listen")?;
        let queryable = session.declare_queryable(name).wait().map_err(failed("a queryable"))?;
        run.serve(Answering { query: None, queryable, _session: session, _place: place })
    }
}

fn session(place: &Meeting, verb: &str) -> Result<Session, Error> {
    let endpoints = format!("[\"unixsock-stream/{}\"]", place.0.display());
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
        let replies = self.querier.get().payload(request.bytes()).wait().map_err(failed("query"))?;
        // A closed channel without a reply is how it tells that the server has gone.
        let reply = replies.recv().map_err(|_| Error::PeerGone)?;
        let sample = reply.result().map_err(|_| Error::PeerGone)?;
        let came = sample.payload().to_bytes();
        if came.len() != request.bytes().len() {
            return Err(Error::Usage(format!("{} bytes came instead of 48", came.len())));
        }
        answer.bytes_mut().copy_from_slice(&came);
        Ok(())
    }
}

struct Answering {
    query: Option<Query>,
    queryable: Queryable<FifoChannelHandler<Query>>,
    _session: Session,
    _place: Meeting,
}

impl ServerEnd for Answering {
    fn receive(&mut self, request: &mut Message) -> Result<(), Error> {
        let query = self.queryable.recv().map_err(failed("receive"))?;
        let came = query.payload().map(|payload| payload.to_bytes()).unwrap_or_default();
        if came.len() != request.bytes().len() {
            return Err(Error::Usage(format!("{} bytes came instead of 48", came.len())));
        }
        request.bytes_mut().copy_from_slice(&came);
        self.query = Some(query);
        Ok(())
    }

    fn send(&mut self, answer: &Message) -> Result<(), Error> {
        let query = self.query.take().ok_or_else(|| Error::Usage("an answer without a request".into()))?;
        query.reply(query.key_expr().clone(), answer.bytes()).wait().map_err(failed("reply"))
    }
}
