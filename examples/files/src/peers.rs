//! How the parties find and ask each other. Without a node all of it is an error.

use m3ipc::asynchronous::AsyncEndpoint;
use m3ipc::{Node, Vm};
use m3ipc_calls::{CallError, Client, Fault, Retry};
use serde::{Serialize, de::DeserializeOwned};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// What `main` reports.
pub type Failure = Box<dyn std::error::Error>;

/// How long a request is repeated.
const LIMIT: Duration = Duration::from_secs(60);
/// How long one attempt may take. A hung server is restarted meanwhile.
const ATTEMPT: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(2);

/// The endpoint of a client in the VM of the service: that of the supervisor, or `files`.
pub async fn endpoint() -> Result<AsyncEndpoint, Failure> {
    let vm = vm()?;
    Ok(AsyncEndpoint::bind(move || vm.bind_any()).await?)
}

/// The endpoints of a server: one that serves, and one that asks others.
pub async fn endpoints() -> Result<(AsyncEndpoint, AsyncEndpoint), Failure> {
    let (own, vm) = (endpoint().await?, vm()?);
    Ok((own, AsyncEndpoint::bind(move || vm.bind_additional(None)).await?))
}

fn vm() -> Result<Vm, Failure> {
    let name = std::env::var("M3_VM_NAME").unwrap_or_else(|_| "files".to_owned());
    Ok(Node::attach()?.vm_named(&name)?)
}

/// Asks a server, and repeats the request after each error of the path, also where a server may
/// have taken it: reads change nothing, and each change has a number.
///
/// # Errors
/// What the server answers, or the last error of the path.
pub async fn ask<A: DeserializeOwned>(
    client: &Client,
    name: &str,
    request: &impl Serialize,
) -> Result<A, Fault> {
    let end = Instant::now() + LIMIT;
    let retry = Retry { limit: ATTEMPT, ..Retry::default() };
    loop {
        match client.call_named(name, request, retry).await {
            Ok(answer) => return Ok(answer),
            Err(CallError::Answered(fault)) => return Err(fault),
            Err(error) if Instant::now() > end => return Err(Fault::new(error.to_string())),
            Err(CallError::NotTaken(_) | CallError::Taken(_)) => sleep(PAUSE).await,
        }
    }
}
