//! hyper: HTTP/1.1, one connection, one request after the other.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::sync::Mutex;

use crate::Failure;
use crate::figures::{check, measure_tasks};
use crate::stack::{CALL_BYTES, Place, Role, tell_address};
use crate::wire::Wire;

async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let body = request.into_body().collect().await?.to_bytes();
    Ok(Response::new(Full::new(body)))
}

pub async fn play<W: Wire>(place: &Place, role: Role) -> Result<(), Failure> {
    let wire = W::open(place)?;
    match role {
        Role::Serve => {
            let (listener, at) = wire.listen().await?;
            tell_address(&at);
            loop {
                let line = TokioIo::new(W::accept(&listener).await?);
                let served = hyper::server::conn::http1::Builder::new()
                    .serve_connection(line, service_fn(echo));
                tokio::task::spawn_local(served);
            }
        }
        Role::Call(work) => {
            let line = TokioIo::new(wire.connect(&work.at).await?);
            let (send, connection) = hyper::client::conn::http1::handshake(line).await?;
            tokio::task::spawn_local(connection);
            let send = std::rc::Rc::new(Mutex::new(send));
            let call = || {
                let (send, body) =
                    (std::rc::Rc::clone(&send), Bytes::from_static(&[7; CALL_BYTES]));
                async move {
                    let mut send = send.lock().await;
                    send.ready().await?;
                    let request = Request::post("/echo")
                        .header(http::header::HOST, "localhost")
                        .body(Full::<Bytes>::new(body.clone()))?;
                    let answer = send.send_request(request).await?;
                    check(&answer.into_body().collect().await?.to_bytes(), &body)
                }
            };
            measure_tasks(&work, call).await?.print();
            Ok::<(), Failure>(())
        }
    }
}
