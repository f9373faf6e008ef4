//! Waits for the completions that the model predicts, and until all other calls sleep.

use super::fixture::OracleFixture;
use super::worker::Report;
use m3ipc::{Address, EndpointInfo, Slot};
use m3ipc_model::rendezvous::{Completion, Op, State};
use m3ipc_test_fixture::signals;
use std::collections::BTreeMap;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// The time that all calls must sleep before a predicted completion counts as missing.
const MISSING: Duration = Duration::from_millis(1_500);
/// How often they must be seen asleep in that time. The clock of a virtual machine that was paused
/// jumps, and nobody has run meanwhile.
const SEEN_ASLEEP: u32 = 300;
const RESTLESS: Duration = Duration::from_secs(120);

impl OracleFixture {
    /// Waits until all expected calls have ended and all others sleep.
    pub fn compare(&mut self, op: Op, expected: Vec<Completion>) -> Result<(), String> {
        let mut missing: BTreeMap<Slot, Completion> = expected
            .into_iter()
            .map(|completion| (completion.who, self.visible_part(completion)))
            .collect();
        let mut bare = matches!(op, Op::Bind(_) | Op::Kill(_));
        let mut asleep: Option<(Instant, u32)> = None;
        let began = Instant::now();
        loop {
            if let Op::Signal(slot) = op
                && !missing.is_empty()
            {
                signals::send(m3ipc_sys::process_id(), self.workers[&slot].tid);
            }
            let done = missing.is_empty() && !bare;
            let wait = if done { Duration::ZERO } else { Duration::from_millis(3) };
            match self.reports.recv_timeout(wait) {
                Ok((slot, Report::Ended(completion))) => match missing.remove(&slot) {
                    Some(wanted) if wanted == completion => {}
                    wanted => return Err(format!("the model says {wanted:?}, but {completion:?}")),
                },
                Ok((slot, Report::Bound(address))) => {
                    let wanted = self.machine.address(slot);
                    if address.ok() != wanted {
                        return Err(format!("the model binds {wanted:?}, but {address:?}"));
                    }
                    bare = false;
                }
                Ok((_, Report::Left)) => bare = false,
                Err(RecvTimeoutError::Disconnected) => return Err("the workers are gone".into()),
                Err(RecvTimeoutError::Timeout) => {
                    let at_rest = !bare && self.at_rest(&missing);
                    if done && at_rest {
                        return Ok(());
                    }
                    asleep = at_rest.then(|| {
                        asleep
                            .map_or_else(|| (Instant::now(), 1), |(since, seen)| (since, seen + 1))
                    });
                    let is_missing = |(since, seen): (Instant, u32)| {
                        seen >= SEEN_ASLEEP && since.elapsed() > MISSING
                    };
                    if asleep.is_some_and(is_missing) {
                        let seen = self.seen_by_daemon();
                        return Err(format!("all sleep, but the model ends {missing:?}\n{seen}"));
                    }
                    if began.elapsed() > RESTLESS {
                        return Err(format!("no rest; the model ends {missing:?}"));
                    }
                    std::thread::yield_now();
                }
            }
        }
    }

    /// The waits of all endpoints, for the report.
    fn seen_by_daemon(&mut self) -> String {
        let endpoints = self.node.endpoints(self.vm.id()).unwrap_or_default();
        let line = |found: &EndpointInfo| {
            let (address, wait) = (Address(found.address), &found.wait);
            let (peer, ms) = (Address(wait.peer), wait.for_ns / 1_000_000);
            format!(
                "  {address:?}: {} {peer:?} since {ms} ms, connected {}\n",
                wait.state, found.connected
            )
        };
        endpoints.iter().map(line).collect()
    }

    /// The part of a predicted completion that a real call shows.
    fn visible_part(&self, completion: Completion) -> Completion {
        let fate = completion.fate.filter(|_| self.telling.contains(&completion.who));
        Completion { fate, ..completion }
    }

    /// Whether all open calls sleep, also those that should have ended.
    fn at_rest(&self, missing: &BTreeMap<Slot, Completion>) -> bool {
        self.workers.iter().all(|(slot, worker)| match self.machine.state(*slot) {
            None | Some(State::Running) if !missing.contains_key(slot) => true,
            _ => sleeps_in_call(worker.tid),
        })
    }
}

fn sleeps_in_call(tid: i32) -> bool {
    const FUTEX_WAITV: &str = "449 ";
    let call = std::fs::read_to_string(format!("/proc/self/task/{tid}/syscall"));
    call.is_ok_and(|call| call.starts_with(FUTEX_WAITV))
}
