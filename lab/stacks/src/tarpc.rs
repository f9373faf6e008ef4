//! tarpc: a service by its macro, bincode, over any wire.

use futures_util::StreamExt;
use tarpc::context::Context;
use tarpc::serde_transport;
use tarpc::server::{BaseChannel, Channel};
use tarpc::tokio_serde::formats::Bincode;
use tokio_util::codec::{Framed, LengthDelimitedCodec};

use crate::Failure;
use crate::calls::Echo;
use crate::figures::{check, measure_tasks};
use crate::stack::{Place, Role, tell_address};
use crate::wire::Wire;

#[tarpc::service]
trait Echoes {
    async fn echo(request: Echo) -> Echo;
}

#[derive(Clone)]
struct Server;

impl Echoes for Server {
    async fn echo(self, _: Context, request: Echo) -> Echo {
        request
    }
}

fn frames<L: tokio::io::AsyncRead + tokio::io::AsyncWrite>(
    line: L,
) -> Framed<L, LengthDelimitedCodec> {
    LengthDelimitedCodec::builder().new_framed(line)
}

pub async fn play<W: Wire>(place: &Place, role: Role) -> Result<(), Failure> {
    let wire = W::open(place)?;
    match role {
        Role::Serve => {
            let (listener, at) = wire.listen().await?;
            tell_address(&at);
            loop {
                let line = W::accept(&listener).await?;
                let transport = serde_transport::new(frames(line), Bincode::default());
                let requests = BaseChannel::with_defaults(transport).execute(Server.serve());
                tokio::task::spawn_local(requests.for_each(async |answer| {
                    tokio::task::spawn_local(answer);
                }));
            }
        }
        Role::Call(work) => {
            let line = wire.connect(&work.at).await?;
            let transport = serde_transport::new(frames(line), Bincode::default());
            let client = EchoesClient::new(tarpc::client::Config::default(), transport).spawn();
            let call = || {
                let (client, echo) = (client.clone(), Echo::new());
                async move {
                    let answer = client.echo(tarpc::context::current(), echo.clone()).await?;
                    check(answer.text.as_bytes(), echo.text.as_bytes())
                }
            };
            measure_tasks(&work, call).await?.print();
            Ok(())
        }
    }
}
