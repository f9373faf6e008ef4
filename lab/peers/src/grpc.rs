//! gRPC: unary calls of tonic with protobuf messages, HTTP/2 on a Unix socket.
//!
//! Each side has one thread, so no hand-over between threads is measured. The message and the
//! service are written out, so that no build needs protoc.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::uri::PathAndQuery;
use m3ipc_bench::Error;
use m3ipc_bench::ends::{ClientEnd, ServerEnd};
use m3ipc_bench::job::Report;
use m3ipc_bench::payload::Message;
use m3ipc_bench::run::Run;
use m3ipc_report::schema::Wait;
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::body::Body;
use tonic::server::{NamedService, UnaryService};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use crate::library::Library;
use crate::{ServerFile, await_file, failed, fill, path, runtime};

/// A unary call.
pub const LIBRARY: Library = Library {
    name: "grpc",
    version: || format!("tonic {}", env!("VERSION_TONIC")),
    waits: &[Wait::Block],
    tells_death: true,
    client,
    server,
    tidy: || {},
};

fn client(run: &Run, name: &str) -> Result<Report, Error> {
    let path = path(name, "grpc");
    await_file(&path);
    let runtime = runtime()?;
    let address = format!("unix://{}", path.display());
    let endpoint = Endpoint::from_shared(address).map_err(failed("an address"))?;
    let channel = runtime.block_on(endpoint.connect()).map_err(failed("connect"))?;
    run.drive(Asking { channel, runtime })
}

fn server(run: &Run, name: &str) -> Result<Report, Error> {
    let runtime = runtime()?;
    let (calls, requests) = mpsc::channel(1);
    let _entered = runtime.enter();
    let file = ServerFile(path(name, "grpc"));
    let listener = UnixListener::bind(&file.0).map_err(failed("bind"))?;
    let service = Echoes { calls };
    let lines = UnixListenerStream::new(listener);
    let serving = Server::builder().add_service(service).serve_with_incoming(lines);
    runtime.spawn(serving);
    run.serve(Answering { requests, answer: None, runtime: &runtime, _file: file })
}

#[derive(Clone, PartialEq, prost::Message)]
struct Echo {
    #[prost(bytes = "bytes", tag = "1")]
    bytes: Bytes,
}

/// A request, and the way of its answer.
type Call = (Bytes, oneshot::Sender<Bytes>);
type Ready<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Hands each call to the loop that checks it.
#[derive(Clone)]
struct Echoes {
    calls: mpsc::Sender<Call>,
}

impl NamedService for Echoes {
    const NAME: &'static str = "m3.Echoes";
}

impl UnaryService<Echo> for Echoes {
    type Response = Echo;
    type Future = Ready<Result<Response<Echo>, Status>>;

    fn call(&mut self, request: Request<Echo>) -> Self::Future {
        let calls = self.calls.clone();
        Box::pin(async move {
            let ended = || Status::unavailable("the server ends");
            let (teller, answer) = oneshot::channel();
            let call = (request.into_inner().bytes, teller);
            calls.send(call).await.map_err(|_| ended())?;
            let bytes = answer.await.map_err(|_| ended())?;
            Ok(Response::new(Echo { bytes }))
        })
    }
}

impl tower_service::Service<http::Request<Body>> for Echoes {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        let codec = ProstCodec::<Echo, Echo>::default();
        Box::pin(async { Ok(tonic::server::Grpc::new(codec).unary(service, request).await) })
    }
}

struct Asking {
    channel: Channel,
    runtime: Runtime,
}

impl ClientEnd for Asking {
    fn trip(&mut self, request: &Message, answer: &mut Message) -> Result<(), Error> {
        let mut grpc = tonic::client::Grpc::new(self.channel.clone());
        let echo = Echo { bytes: Bytes::copy_from_slice(request.bytes()) };
        let path = PathAndQuery::from_static("/m3.Echoes/Echo");
        let answered = self.runtime.block_on(async {
            grpc.ready().await.map_err(failed("await the channel"))?;
            let codec = ProstCodec::<Echo, Echo>::default();
            grpc.unary(Request::new(echo), path, codec).await.map_err(failed("call"))
        })?;
        fill(answer, &answered.into_inner().bytes)
    }
}

struct Answering<'a> {
    requests: mpsc::Receiver<Call>,
    answer: Option<oneshot::Sender<Bytes>>,
    runtime: &'a Runtime,
    _file: ServerFile,
}

impl ServerEnd for Answering<'_> {
    fn receive(&mut self, request: &mut Message) -> Result<(), Error> {
        let call = self.runtime.block_on(self.requests.recv());
        let (bytes, teller) = call.ok_or_else(|| Error::Usage("the service ended".into()))?;
        self.answer = Some(teller);
        fill(request, &bytes)
    }

    fn send(&mut self, answer: &Message) -> Result<(), Error> {
        let teller = self.answer.take();
        let teller = teller.ok_or_else(|| Error::Usage("an answer without a request".into()))?;
        let sent = teller.send(Bytes::copy_from_slice(answer.bytes()));
        sent.map_err(|_| Error::Usage("the call ended".into()))
    }
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        // The last answer leaves within the time that the runtime gets.
        let last = async { tokio::time::sleep(std::time::Duration::from_millis(20)).await };
        self.runtime.block_on(last);
    }
}
