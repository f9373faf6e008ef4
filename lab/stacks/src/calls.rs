//! Typed calls of m3ipc-calls.

use m3ipc::Address;
use m3ipc::asynchronous::AsyncEndpoint;
use m3ipc_calls::{Client, Config, Server, typed};
use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::figures::{check, measure_tasks};
use crate::stack::{CALL_BYTES, Place, Role, tell_address};

/// A request and its answer: [`CALL_BYTES`] in postcard.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Echo {
    pub number: u32,
    pub text: String,
}

impl Echo {
    pub fn new() -> Self {
        // A number below 128 takes a byte, and so does the length of the text.
        Self { number: 7, text: "m".repeat(CALL_BYTES - 2) }
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
                    check(answer.text.as_bytes(), echo.text.as_bytes())
                }
            };
            measure_tasks(&work, call).await?.print();
            Ok(())
        }
    }
}
