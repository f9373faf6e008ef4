//! The steps of the demonstration.

use super::protocol::{BlockTransfer, ClientCommand, ClientReply, RoundTrips, SERVER};
use super::session::Session;
use crate::error::{CliError, Result};
use m3ipc::WaitState;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

static BEGUN: AtomicU32 = AtomicU32::new(0);

/// The number of steps that have begun: it rises as long as the demonstration goes on.
pub fn begun() -> u32 {
    BEGUN.load(Ordering::Relaxed)
}

/// A step begins.
pub fn note_begin() {
    BEGUN.fetch_add(1, Ordering::Relaxed);
}

/// How long the client has slept in its call before the server is killed.
const ASLEEP_NS: u64 = 500_000;
/// The pause between two reads of the node's tables, and the largest number of reads.
const POLL_INTERVAL: Duration = Duration::from_micros(500);
const POLLS: usize = 10_000;

/// The death of a server, as the client saw it.
#[derive(Clone, Debug)]
pub struct ServerDeath {
    /// The error of the call.
    pub error: String,
    /// Its code.
    pub code: i32,
    /// The time from the kill to the return of the call.
    pub took_ns: u64,
}

/// Waits until the client has found the server, and returns the address.
pub fn find_server(session: &mut Session) -> Result<i32> {
    note_begin();
    match session.execute(ClientCommand::FindServer)? {
        ClientReply::Found(address) => Ok(address),
        reply => Err(unexpected(&reply)),
    }
}

/// Makes `count` calls and returns the duration of each in nanoseconds.
pub fn call(session: &mut Session, count: u32) -> Result<Vec<u64>> {
    note_begin();
    match session.execute(ClientCommand::Call(count))? {
        ClientReply::Called(durations_ns) => Ok(durations_ns),
        reply => Err(unexpected(&reply)),
    }
}

/// Measures round trips over m3ipc, pipe and socket.
pub fn measure_round_trips(session: &mut Session) -> Result<Vec<RoundTrips>> {
    note_begin();
    match session.execute(ClientCommand::MeasureRoundTrips)? {
        ClientReply::RoundTrips(results) => Ok(results),
        reply => Err(unexpected(&reply)),
    }
}

/// Measures transfers of a block, beside copies through a socket.
pub fn measure_block(session: &mut Session) -> Result<BlockTransfer> {
    note_begin();
    match session.execute(ClientCommand::MeasureBlock)? {
        ClientReply::Block(transfer) => Ok(transfer),
        reply => Err(unexpected(&reply)),
    }
}

/// Kills the server while a call of the process `client` waits for its answer.
pub fn kill_server(session: &mut Session, client: i32) -> Result<ServerDeath> {
    note_begin();
    let before = observe(session, client)?;
    session.send(ClientCommand::CallUnanswered)?;
    wait_until_asleep(session, client, before.received)?;
    let killed_ns = session.kill_server()?;
    match session.reply()? {
        ClientReply::PeerDied { error, code, at_ns } => {
            Ok(ServerDeath { error, code, took_ns: at_ns.saturating_sub(killed_ns) })
        }
        reply => Err(unexpected(&reply)),
    }
}

fn unexpected(reply: &ClientReply) -> CliError {
    CliError::failure(format!("unexpected reply of the client: {reply:?}"))
}

/// The node's view of client and server.
struct Observation {
    /// Messages that the server has received.
    received: u64,
    /// How long the client has slept in sendrec.
    asleep_ns: u64,
}

fn observe(session: &mut Session, client: i32) -> Result<Observation> {
    let vm = session.vm.id();
    let endpoints = session.node()?.endpoints(vm)?;
    let has_name = |names: &[String]| names.iter().any(|name| name == SERVER);
    let server = endpoints.iter().find(|endpoint| has_name(&endpoint.names));
    let wait = endpoints.iter().find(|endpoint| endpoint.pid == client).map(|client| &client.wait);
    let in_call = wait.filter(|wait| matches!(wait.state, WaitState::SendRec | WaitState::Await));
    Ok(Observation {
        received: server.map_or(0, |server| server.received),
        asleep_ns: in_call.map_or(0, |wait| wait.for_ns),
    })
}

/// Waits until the server has received one more request and the client sleeps in its call.
fn wait_until_asleep(session: &mut Session, client: i32, received: u64) -> Result<()> {
    for _ in 0..POLLS {
        let now = observe(session, client)?;
        if now.received > received && now.asleep_ns > ASLEEP_NS {
            return Ok(());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Err(CliError::failure("the client did not sleep in its call")
        .advice("see the endpoints with `m3 ps` while `m3 demo` runs"))
}
