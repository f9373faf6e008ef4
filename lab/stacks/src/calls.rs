//! Typed calls of m3ipc-calls.

use m3ipc::Address;
use m3ipc::asynchronous::AsyncEndpoint;
use m3ipc_calls::{Client, Config, Server, typed};
use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::figures::{check, measure_tasks};
use crate::stack::{CALL_BYTES, Place, Role, tell_address};

/// A request and its answer.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Echo {
    pub bytes: Vec<u8>,
}

impl Echo {
    pub fn new() -> Self {
        Self { bytes: (0..CALL_BYTES).map(|it| it as u8).collect() }
    }
}

pub async fn play(place: &Place, role: Role) -> Result<(), Failure> {
    let vm = place.vm()?;
    let endpoint = AsyncEndpoint::bind(move || vm.bind_any()).await?;
    match role {
        Role::Serve => {
            let mut endpoint = endpoint;
            tell_address(&endpoint.endpoint().address().0.to_string());
            let echo = typed(|request: Echo, _| async move { Ok(request) });
            let _server = Server::new(endpoint, Config::default(), echo);
            std::future::pending().await
        }
        Role::Call(work) => {
            let client = Client::new(endpoint, Config::default());
            let to = Address(work.at.parse()?);
            let call = || {
                let (client, echo) = (client.clone(), Echo::new());
                async move {
                    let answer: Echo = client.call(to, &echo).await?;
                    check(&answer.bytes, &echo.bytes)
                }
            };
            measure_tasks(&work, call).await?.print();
            Ok(())
        }
    }
}
