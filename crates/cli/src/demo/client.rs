//! The client process: executes a command per line of standard input.

mod block;

use super::baseline::Baseline;
use super::protocol::{
    ClientCommand, ClientReply, RoundTrips, SERVER, VM, median, message_types, request,
};
use crate::error::{CliError, Result};
use m3ipc::{Address, Endpoint, Node, Timeout, WaitStrategy};
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Duration;

/// The time limit for the start of a server.
const SERVER_TIMEOUT: Duration = Duration::from_secs(10);
/// The mechanisms are measured in turn this often.
const ROUNDS: usize = 5;
/// The duration of one measurement of one mechanism.
const TURN_NS: u64 = 110_000_000;
/// Round trips before each measurement.
const WARM_UP_TRIPS: usize = 100;

struct Client<'a> {
    own: Endpoint,
    server: Address,
    directory: &'a Path,
    server_cpu: Option<usize>,
}

/// Executes commands until [`ClientCommand::Exit`] or the end of standard input.
pub fn run(node: &Path, directory: &Path, server_cpu: Option<usize>) -> Result<()> {
    let own = Node::find(node)?.vm_named(VM)?.bind_any()?;
    let mut client = Client { own, server: m3ipc::NONE, directory, server_cpu };
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|cause| CliError::system("cannot read commands", cause))?;
        let command = serde_json::from_str(&line)
            .map_err(|cause| CliError::system("unknown command", cause))?;
        if matches!(command, ClientCommand::Exit) {
            return Ok(());
        }
        let reply =
            client.execute(command).unwrap_or_else(|error| ClientReply::Failed(error.to_string()));
        let reply = serde_json::to_string(&reply)
            .map_err(|cause| CliError::system("cannot encode a reply", cause))?;
        writeln!(std::io::stdout().lock(), "{reply}")?;
    }
    Ok(())
}

impl Client<'_> {
    fn execute(&mut self, command: ClientCommand) -> Result<ClientReply> {
        match command {
            ClientCommand::FindServer => {
                self.server = self.own.wait_name(SERVER, Timeout::After(SERVER_TIMEOUT))?;
                Ok(ClientReply::Found(self.server.0))
            }
            ClientCommand::Call(count) => self.calls(count),
            ClientCommand::MeasureRoundTrips => self.measure(),
            ClientCommand::MeasureBlock => {
                block::measure(&mut self.own, self.server, self.directory, self.server_cpu)
            }
            ClientCommand::CallUnanswered => {
                let result = self.own.sendrec(self.server, &request(message_types::KEEP, 0));
                let at_ns = m3ipc_sys::monotonic_ns();
                match result {
                    Ok(_) => Err(CliError::failure("the server answered a request to keep")),
                    Err(error) => {
                        let code = error.code().number();
                        Ok(ClientReply::PeerDied { error: error.to_string(), code, at_ns })
                    }
                }
            }
            ClientCommand::Exit => Ok(ClientReply::Called(Vec::new())),
        }
    }

    /// Makes one call, checks its answer, and returns its duration in nanoseconds.
    fn call(&mut self, m_type: i32, number: i32) -> Result<u64> {
        let start_ns = m3ipc_sys::monotonic_ns();
        let answer = self.own.sendrec(self.server, &request(m_type, number))?;
        let took_ns = m3ipc_sys::monotonic_ns() - start_ns;
        if (answer.m_type, answer.word(0), answer.source) != (m_type, number, self.server) {
            return Err(CliError::failure(format!("wrong answer to call {number}: {answer:?}")));
        }
        Ok(took_ns)
    }

    fn calls(&mut self, count: u32) -> Result<ClientReply> {
        let numbers = (0..count).map(|number| i32::try_from(number).unwrap_or(i32::MAX));
        numbers
            .map(|number| self.call(message_types::ECHO, number))
            .collect::<Result<_>>()
            .map(ClientReply::Called)
    }

    fn measure(&mut self) -> Result<ClientReply> {
        let mut pipe = Baseline::pipe(self.directory, self.server_cpu)?;
        let mut socket = Baseline::socket(self.directory, self.server_cpu)?;
        let mut durations_ns: [Vec<u64>; 4] = Default::default();
        for _ in 0..ROUNDS {
            for (strategy, at) in [(WaitStrategy::Adaptive, 0), (WaitStrategy::Block, 1)] {
                self.set_strategy_of_both(strategy)?;
                turn(&mut durations_ns[at], || self.call(message_types::ECHO, 7).map(drop))?;
            }
            self.set_strategy_of_both(WaitStrategy::Adaptive)?;
            turn(&mut durations_ns[2], || pipe.round_trip())?;
            turn(&mut durations_ns[3], || socket.round_trip())?;
        }
        pipe.close()?;
        socket.close()?;
        let names = [
            ("m3ipc, adaptive", "spins briefly, then sleeps"),
            ("m3ipc, block", "sleeps at once"),
            ("pipe", "sleeps in read"),
            ("Unix stream", "sleeps in read"),
        ];
        let mechanisms = names.iter().zip(&mut durations_ns);
        let results = mechanisms.map(|((name, waits), durations_ns)| RoundTrips {
            name: (*name).to_owned(),
            waits: (*waits).to_owned(),
            trips: durations_ns.len(),
            median_ns: median(durations_ns),
        });
        Ok(ClientReply::RoundTrips(results.collect()))
    }

    fn set_strategy_of_both(&mut self, strategy: WaitStrategy) -> Result<()> {
        self.own.set_strategy(strategy);
        let number = i32::from(strategy == WaitStrategy::Block);
        self.call(message_types::WAIT_STRATEGY, number).map(drop)
    }
}

/// Makes round trips for [`TURN_NS`] and appends the duration of each.
fn turn(durations_ns: &mut Vec<u64>, mut trip: impl FnMut() -> Result<()>) -> Result<()> {
    for _ in 0..WARM_UP_TRIPS {
        trip()?;
    }
    let mut before_ns = m3ipc_sys::monotonic_ns();
    let end_ns = before_ns + TURN_NS;
    while before_ns < end_ns {
        trip()?;
        let now_ns = m3ipc_sys::monotonic_ns();
        durations_ns.push(now_ns - before_ns);
        before_ns = now_ns;
    }
    Ok(())
}
