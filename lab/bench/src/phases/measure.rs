//! Rounds of a row: trips without stamps for the total, in turn with trips that have them for the parts.

use m3ipc::trace::{Call, Join, Phases, StampScale, TraceWhat, Transfer};

use super::cut::{self, Cost, Cut, Load, TOLERANCE, tenth};
use super::record::{PARTS, Part, PhaseRecord};
use super::window::STAMPED;
use super::{Cell, OURS, kernel};
use crate::clock::monotonic_ns;
use crate::error::Error;
use crate::job::{Job, Placement, Side, Task, Wait, Work};
use crate::measure::Bench;
use crate::mechanism::Transport;
use crate::ours::phases::OpenTrace;
use crate::progress::Progress;
use crate::record::Results;
use crate::stats::{Samples, median};
use crate::supervise::Crew;

/// How long the sides warm up.
const WARM_NS: u64 = 20_000_000;
/// How long the clocks are compared.
const CALIBRATE_NS: u64 = 50_000_000;
/// Fewer trips than this are no measurement.
const TRIPS_LEAST: usize = 16;
/// Halves that may wait for their other when two rings are read after the end.
const HALVES: usize = 1 << 17;

/// What stamps cost, and how their ticks become nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Ticks as nanoseconds.
    pub scale: StampScale,
    /// Of m3ipc's path.
    pub ours: Cost,
    /// Of the kernel's mechanisms: a stamp into a local.
    pub bare_ns: f64,
}

impl Costs {
    /// Measures them.
    ///
    /// # Errors
    /// Where there is no memory for a ring.
    pub fn find() -> Result<Self, Error> {
        let scale = StampScale::calibrate(CALIBRATE_NS);
        let cost =
            m3ipc::trace::cost(true).map_err(Error::os("a ring to measure the cost of stamps"))?;
        Ok(Self {
            scale,
            ours: Cost { stamp_ns: scale.ns(1) * cost.stamp, record_ns: scale.ns(1) * cost.record },
            bare_ns: scale.ns(1) * cost.bare,
        })
    }
}

/// What was found of one row.
#[derive(Debug, Default)]
pub struct Found {
    taken: Vec<Taken>,
}

/// What was found in one round.
#[derive(Debug)]
struct Taken {
    /// The trip without stamps, by the client's clock.
    total_ns: f64,
    /// The same with them, by the same clock.
    stamped_ns: f64,
    /// The sum of its parts, by the stamps of both sides.
    sum_ns: f64,
    cuts: Vec<Cut>,
}

/// The trips of one run, in nanoseconds.
struct Trips {
    plain: Samples,
    stamped: Samples,
    cuts: Vec<Cut>,
}

impl Taken {
    fn new(trips: Trips) -> Self {
        Self {
            total_ns: trips.plain.middle_mean(),
            stamped_ns: trips.stamped.middle_mean(),
            sum_ns: cut::middle(&trips.cuts).iter().sum(),
            cuts: trips.cuts,
        }
    }

    /// What the stamps and their records cost in place.
    fn cost_ns(&self) -> f64 {
        self.stamped_ns - self.total_ns
    }
}

/// Measures the cells in turn.
pub fn rounds(
    bench: &Bench,
    cells: &[Cell],
    scale: StampScale,
    rounds: u32,
    progress: &mut Progress,
    results: &mut Results,
) -> Vec<Found> {
    let mut found: Vec<Found> = cells.iter().map(|_| Found::default()).collect();
    let mut given_up = vec![false; cells.len()];
    for round in 0..rounds {
        for (number, cell) in cells.iter().enumerate() {
            if given_up[number] {
                continue;
            }
            let name = name(cell);
            progress.next("phases", &name, round, rounds);
            match one_round(bench, cell, scale) {
                Ok(taken) => found[number].taken.push(taken),
                Err(error) => {
                    given_up[number] = true;
                    found[number] = Found::default();
                    progress.skip(usize::try_from(rounds - round - 1).unwrap_or(0));
                    let text = format!("phases {name}: {error}");
                    let skipped = matches!(error, Error::Unavailable { .. });
                    if skipped { &mut results.skipped } else { &mut results.failed }.push(text);
                }
            }
        }
    }
    found
}

/// What a cell is called.
pub fn name(cell: &Cell) -> String {
    let variant = cell.experiment.map_or(String::new(), |(experiment, variant)| {
        format!(", {} by {variant}", experiment.name())
    });
    let Cell { mechanism, shape, placement, wait, .. } = cell;
    format!("{mechanism} {} ({placement}, {wait}{variant})", shape.carries.name())
}

/// One run of both sides, in which blocks of trips with stamps and without take turns.
fn one_round(bench: &Bench, cell: &Cell, scale: StampScale) -> Result<Taken, Error> {
    let mut trips = if cell.mechanism == OURS {
        ours(bench, cell, scale)?
    } else {
        kernel(bench, cell, scale)?
    };
    // Those of earlier moments have nothing to be compared with.
    let earlier = trips.cuts.len().saturating_sub(STAMPED);
    trips.cuts.drain(..earlier);
    if trips.cuts.len() < TRIPS_LEAST || trips.plain.count() == 0 || trips.stamped.count() == 0 {
        let number = trips.cuts.len();
        return Err(Error::Usage(format!(
            "only {number} trips were stamped; run with --millis 100"
        )));
    }
    Ok(Taken::new(trips))
}

/// One call of m3ipc in its parts; a copy that the server made meanwhile is part of its handling.
fn of_call(call: &Call, copies: &[Transfer], scale: StampScale) -> Cut {
    let phases = call.phases();
    let Phases { prepare, deliver, to_wake, to_run, to_read, find, copy, sender } = phases.both();
    let (from, to) = (call.request.done, call.answer.begun);
    let first = copies.partition_point(|made| made.begun < from);
    let made = copies[first..]
        .iter()
        .take_while(|made| made.done <= to)
        .filter(|made| made.from == call.request.to && made.to == call.request.from);
    let copied: u64 = made.map(|made| made.done.saturating_sub(made.begun)).sum();
    let mut cut = [0; PARTS];
    for (part, ticks) in [
        (Part::Prepare, prepare),
        (Part::Deliver, deliver),
        (Part::Find, find),
        (Part::Copy, copy + copied),
        (Part::Sender, sender),
        (Part::ToWake, to_wake),
        (Part::ToRun, to_run),
        (Part::ToRead, to_read),
        (Part::Server, phases.server.saturating_sub(copied)),
    ] {
        cut[part as usize] = ticks;
    }
    cut.map(|ticks| scale.ns(ticks))
}

fn job(bench: &Bench, cell: &Cell, side: Side, names: &[String]) -> Job {
    Job {
        mechanism: cell.mechanism.into(),
        side,
        work: Work::Ipc2,
        wait: cell.wait,
        bytes: cell.shape.bytes,
        cpu: bench.cpus.of(cell.placement, side),
        fds: vec![],
        names: names.to_vec(),
        clock: bench.clock,
        task: Task::Phases(cell.shape),
    }
}

/// Runs a pair of m3ipc in a traced VM; gives the times of trips without stamps and with, and the parts of those with.
fn ours(bench: &Bench, cell: &Cell, scale: StampScale) -> Result<Trips, Error> {
    let mut open = OpenTrace::begin(&bench.site)?;
    let names = open.names();
    let mut crew = Crew::new(bench.grace_ns);
    for side in [Side::Server, Side::Client] {
        crew.start(&bench.site, job(bench, cell, side, &names), vec![])?;
    }
    crew.ready()?;
    crew.go(0, monotonic_ns() + WARM_NS)?;
    crew.finish(WARM_NS + cell.shape.span_ns, &[0, 1])?;
    let client = crew.report(1).ok_or(Error::PeerGone)?;
    let mut join = Join::new(HALVES);
    open.read(|endpoint, record| join.add(endpoint, &record))?;
    let is_copy = |transfer: &Transfer| transfer.what == TraceWhat::Copy;
    let mut copies: Vec<Transfer> = join.take_transfers().into_iter().filter(is_copy).collect();
    copies.sort_by_key(|copy| copy.begun);
    let cuts = join.take_calls().iter().map(|call| of_call(call, &copies, scale)).collect();
    Ok(Trips { plain: client.samples.clone(), stamped: client.stamped.clone(), cuts })
}

/// Runs a pair of a kernel mechanism; gives the same.
fn kernel(bench: &Bench, cell: &Cell, scale: StampScale) -> Result<Trips, Error> {
    let Transport { client, server, names, keep: _keep } = kernel::open(cell.mechanism)?;
    let mut crew = Crew::new(bench.grace_ns);
    crew.start(&bench.site, job(bench, cell, Side::Server, &names), server)?;
    crew.start(&bench.site, job(bench, cell, Side::Client, &names), client)?;
    crew.ready()?;
    crew.go(0, monotonic_ns() + WARM_NS)?;
    crew.finish(WARM_NS + cell.shape.span_ns, &[0, 1])?;
    let (server, client) =
        (crew.report(0).ok_or(Error::PeerGone)?, crew.report(1).ok_or(Error::PeerGone)?);
    let cuts = kernel::cuts(&client.stamps, &server.stamps);
    let cuts = cuts.into_iter().map(|cut| cut.map(|ticks| scale.ns(ticks))).collect();
    Ok(Trips { plain: client.samples.clone(), stamped: client.stamped.clone(), cuts })
}

/// What stamping adds to each part, request and answer together: stamps, and records.
fn load(cell: &Cell) -> Load {
    let mut load = [(0.0, 0.0); PARTS];
    if cell.mechanism != OURS {
        // Stamps end the making of a message, the call that takes it, and the wait for the next.
        for part in [Part::Prepare, Part::Deliver, Part::Sender] {
            load[part as usize] = (2.0, 0.0);
        }
        load[Part::Server as usize] = (1.0, 0.0);
        return load;
    }
    for part in [Part::Prepare, Part::Deliver, Part::Find, Part::Copy, Part::Sender] {
        load[part as usize] = (2.0, 0.0);
    }
    // The server writes down what it took before it works.
    load[Part::Server as usize] = (1.0, 1.0);
    match (cell.placement, cell.wait) {
        // What a giver does after publishing keeps the taker from its CPU: its records, and the looks of before.
        (Placement::SameCpu, Wait::Block) => load[Part::ToRead as usize] = (4.0, 2.0),
        (Placement::SameCpu, _) => load[Part::ToRead as usize] = (2.0, 2.0),
        (_, Wait::Block) => {
            load[Part::ToWake as usize] = (2.0, 0.0);
            load[Part::ToRead as usize] = (2.0, 0.0);
        }
        _ => {}
    }
    load
}

impl Found {
    /// Whether anything was.
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// The row.
    pub fn record(&self, cell: &Cell, costs: &Costs) -> PhaseRecord {
        let load = load(cell);
        let alone = if cell.mechanism == OURS {
            costs.ours
        } else {
            Cost { stamp_ns: costs.bare_ns, record_ns: 0.0 }
        };
        let alone_ns = alone.total(&load);
        // A stamp and a record of the client lie half before its first moment and half after its last: in no phase.
        let outside_ns =
            if cell.mechanism == OURS { alone.stamp_ns + alone.record_ns } else { 0.0 };
        let cost_of = |taken: &Taken| taken.cost_ns() - outside_ns;
        let cost_ns = median(self.taken.iter().map(cost_of)).unwrap_or(alone_ns).max(0.0);
        // In place stamps are dearer or cheaper than by themselves; all alike, as far as can be told.
        let cost = alone.times(cost_ns / alone_ns.max(f64::MIN_POSITIVE));
        // Each round is compared with itself: a machine is not the same in the next one.
        let off_of = |taken: &Taken| cut::off(taken.sum_ns, taken.total_ns + cost_of(taken));
        let off = median(self.taken.iter().map(off_of)).unwrap_or(f64::INFINITY);
        let total_ns = median(self.taken.iter().map(|taken| taken.total_ns)).unwrap_or(0.0);
        let mut by_sum: Vec<&Taken> = self.taken.iter().collect();
        by_sum.sort_by(|a, b| a.sum_ns.total_cmp(&b.sum_ns));
        // The round in the middle: its parts add up.
        let middle = by_sum.get(by_sum.len() / 2).map_or(&[][..], |taken| &taken.cuts);
        let sum_ns: f64 = cut::middle(middle).iter().sum();
        let trips: usize = self.taken.iter().map(|taken| taken.cuts.len()).sum();
        PhaseRecord {
            mechanism: cell.mechanism.into(),
            message: cell.shape.carries.name().into(),
            bytes: cell.shape.bytes,
            placement: cell.placement,
            wait: cell.wait,
            experiment: cell.experiment.map(|(experiment, _)| experiment.name().into()),
            variant: cell.experiment.map(|(_, variant)| variant.into()),
            trips: trips as u64,
            rounds: u32::try_from(self.taken.len()).unwrap_or(u32::MAX),
            total_ns: tenth(total_ns),
            sum_ns: tenth(sum_ns),
            stamp_ns: tenth(cost.stamp_ns),
            stamps: load.iter().map(|(stamps, _)| stamps).sum(),
            cost_ns: tenth(cost_ns),
            alone_ns: tenth(alone_ns),
            off: (off * 1e4).round() / 1e4,
            holds: off.abs() <= TOLERANCE,
            phases: cut::times(middle, &load, cost, |part| can_cut(cell, part)),
        }
    }
}

/// Whether stamps of user space see this part.
fn can_cut(cell: &Cell, part: Part) -> bool {
    match cell.mechanism {
        OURS => true,
        // A value that is looked at is there: nothing is copied, and nobody can be told apart.
        "futex" => !matches!(part, Part::Copy | Part::Sender),
        _ => !matches!(part, Part::Find | Part::Copy | Part::ToWake | Part::ToRun),
    }
}
