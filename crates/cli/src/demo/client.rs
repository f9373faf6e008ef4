//! The client of the demo: does what it is told, a line in and a line out.

mod block;

use super::raw::Raw;
use super::{Measured, Order, SERVER, Told, VM, median, request, types};
use crate::fail::{Fail, Result};
use m3ipc::{Address, Endpoint, Node, Timeout, WaitStrategy};
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Duration;

/// How long a server may take to come.
const COMING: Duration = Duration::from_secs(10);
/// The ways take turns so often ...
const ROUNDS: usize = 5;
/// ... each for so long.
const TURN_NS: u64 = 110_000_000;
/// Trips before a turn counts.
const WARM_UP: usize = 100;

struct Client<'a> {
    own: Endpoint,
    server: Address,
    directory: &'a Path,
    other_cpu: Option<usize>,
}

/// Does what it is told until the end.
pub fn run(node: &Path, directory: &Path, other_cpu: Option<usize>) -> Result<()> {
    let own = Node::find(node)?.vm_named(VM)?.bind_any()?;
    let mut client = Client { own, server: m3ipc::NONE, directory, other_cpu };
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|cause| Fail::system("cannot read the orders", cause))?;
        let order = serde_json::from_str(&line).map_err(|cause| Fail::system("no order", cause))?;
        if matches!(order, Order::End) {
            return Ok(());
        }
        let told = client.obey(order).unwrap_or_else(|fail| Told::Failed(fail.to_string()));
        let told =
            serde_json::to_string(&told).map_err(|cause| Fail::system("cannot tell", cause))?;
        writeln!(std::io::stdout().lock(), "{told}")?;
    }
    Ok(())
}

impl Client<'_> {
    fn obey(&mut self, order: Order) -> Result<Told> {
        match order {
            Order::Find => {
                self.server = self.own.wait_name(SERVER, Timeout::After(COMING))?;
                Ok(Told::Found(self.server.0))
            }
            Order::Calls(count) => self.calls(count),
            Order::Measure => self.measure(),
            Order::Block => block::hand_over(self),
            Order::Hang => {
                let ended = self.own.sendrec(self.server, &request(types::KEEP, 0));
                let at_ns = m3ipc_sys::monotonic_ns();
                match ended {
                    Ok(_) => Err(Fail::plain("a request that nobody answers was answered")),
                    Err(error) => {
                        let code = error.code().number();
                        Ok(Told::Died { error: error.to_string(), code, at_ns })
                    }
                }
            }
            Order::End => Ok(Told::Called(Vec::new())),
        }
    }

    /// One call, with its time.
    fn call(&mut self, m_type: i32, number: i32) -> Result<u64> {
        let begun_ns = m3ipc_sys::monotonic_ns();
        let answer = self.own.sendrec(self.server, &request(m_type, number))?;
        let took_ns = m3ipc_sys::monotonic_ns() - begun_ns;
        if (answer.m_type, answer.word(0), answer.source) != (m_type, number, self.server) {
            return Err(Fail::plain(format!("a wrong answer to call {number}: {answer:?}")));
        }
        Ok(took_ns)
    }

    fn calls(&mut self, count: u32) -> Result<Told> {
        let numbers = (0..count).map(|number| i32::try_from(number).unwrap_or(i32::MAX));
        numbers
            .map(|number| self.call(types::ECHO, number))
            .collect::<Result<_>>()
            .map(Told::Called)
    }

    fn measure(&mut self) -> Result<Told> {
        let mut pipe = Raw::pipe(self.directory, self.other_cpu)?;
        let mut socket = Raw::socket(self.directory, self.other_cpu)?;
        let mut times: [Vec<u64>; 4] = Default::default();
        for _ in 0..ROUNDS {
            for (strategy, at) in [(WaitStrategy::Adaptive, 0), (WaitStrategy::Block, 1)] {
                self.both_wait(strategy)?;
                turn(&mut times[at], || self.call(types::ECHO, 7).map(drop))?;
            }
            self.both_wait(WaitStrategy::Adaptive)?;
            turn(&mut times[2], || pipe.trip())?;
            turn(&mut times[3], || socket.trip())?;
        }
        pipe.end()?;
        socket.end()?;
        let names = [
            ("m3ipc, adaptive", "looks a little, then sleeps"),
            ("m3ipc, block", "sleeps at once"),
            ("pipe", "sleeps in read"),
            ("Unix stream", "sleeps in read"),
        ];
        let measured = names.iter().zip(&mut times).map(|((name, waits), times)| Measured {
            name: (*name).to_owned(),
            waits: (*waits).to_owned(),
            trips: times.len(),
            median_ns: median(times),
        });
        Ok(Told::Measured(measured.collect()))
    }

    fn both_wait(&mut self, strategy: WaitStrategy) -> Result<()> {
        self.own.set_strategy(strategy);
        self.call(types::WAIT, i32::from(strategy == WaitStrategy::Block)).map(drop)
    }
}

/// Trips for the length of a turn, each with its time.
fn turn(times: &mut Vec<u64>, mut trip: impl FnMut() -> Result<()>) -> Result<()> {
    for _ in 0..WARM_UP {
        trip()?;
    }
    let mut before_ns = m3ipc_sys::monotonic_ns();
    let end_ns = before_ns + TURN_NS;
    while before_ns < end_ns {
        trip()?;
        let now_ns = m3ipc_sys::monotonic_ns();
        times.push(now_ns - before_ns);
        before_ns = now_ns;
    }
    Ok(())
}
