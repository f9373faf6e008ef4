//! The cost of stamps, and the row of a cell without it.

use std::sync::OnceLock;

use m3ipc::trace::StampScale;
use m3ipc_report::phases::{PhaseRecord, StampCosts};
use m3ipc_report::schema::{Placement, Wait};
use m3ipc_report::stats::{median, tenth};

use super::window::STAMPED;
use crate::error::Error;
use crate::job::{Carries, Report, Test};
use crate::measure::Cell;
use crate::measured::PhaseTrips;
use crate::phase_math::{self, Cost, PARTS, Part, StampLoad, TOLERANCE};

/// The name of m3ipc among the subjects.
pub const OURS: &str = "m3ipc";
/// Length of the comparison of the clocks.
const CALIBRATE_NS: u64 = 50_000_000;
/// Fewer trips than this are no measurement.
const LEAST_TRIPS: usize = 16;

/// The cost of stamps on this machine, and their scale.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Ticks as nanoseconds.
    pub scale: StampScale,
    /// Costs in nanoseconds.
    pub ns: StampCosts,
}

impl Costs {
    /// The costs, measured at the first call.
    pub fn get() -> Result<Self, Error> {
        static COSTS: OnceLock<Costs> = OnceLock::new();
        if let Some(costs) = COSTS.get() {
            return Ok(*costs);
        }
        let scale = StampScale::calibrate(CALIBRATE_NS);
        let cost = m3ipc::trace::cost(true);
        let cost = cost.map_err(Error::os("a ring to measure the cost of stamps"))?;
        let ns = |ticks: f64| scale.ns(1) * ticks;
        let (stamp_ns, record_ns, bare_ns) = (ns(cost.stamp), ns(cost.record), ns(cost.bare));
        Ok(*COSTS.get_or_init(|| Self { scale, ns: StampCosts { stamp_ns, record_ns, bare_ns } }))
    }
}

/// The trips of a run from its ticks.
///
/// Cuts of earlier trips have no times to compare with and are dropped.
pub fn phase_trips(client: &Report, mut cuts: Vec<[u64; PARTS]>) -> Result<PhaseTrips, Error> {
    let earlier = cuts.len().saturating_sub(STAMPED);
    cuts.drain(..earlier);
    let empty = client.samples.count() == 0 || client.stamped.count() == 0;
    if cuts.len() < LEAST_TRIPS || empty {
        let number = cuts.len();
        let why = format!("only {number} trips were stamped, too few for phases");
        return Err(Error::Unavailable { why, next: "--millis 100 measures longer" });
    }
    let scale = Costs::get()?.scale;
    Ok(PhaseTrips {
        plain_ns: client.samples.middle_mean(),
        stamped_ns: client.stamped.middle_mean(),
        cuts: cuts.into_iter().map(|cut| cut.map(|ticks| scale.ns(ticks))).collect(),
    })
}

/// Stamps and records in each part, request and answer together.
fn stamp_load(cell: &Cell) -> StampLoad {
    let mut load = [(0.0, 0.0); PARTS];
    if cell.subject.name() != OURS {
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
    // The server records the taken message before it works.
    load[Part::Server as usize] = (1.0, 1.0);
    match (cell.placement, cell.wait) {
        // After publication the giver's records and earlier polls keep the taker from its CPU.
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

/// Whether stamps of user space see this part.
fn is_visible(cell: &Cell, part: Part) -> bool {
    match cell.subject.name() {
        OURS => true,
        // A polled value is there: no copy, and no sender to tell apart.
        "futex" => !matches!(part, Part::Copy | Part::Sender),
        _ => !matches!(part, Part::Find | Part::Copy | Part::ToWake | Part::ToRun),
    }
}

/// The row of a cell from its rounds.
pub fn record(cell: &Cell, rounds: &[PhaseTrips], costs: StampCosts) -> PhaseRecord {
    let load = stamp_load(cell);
    let is_ours = cell.subject.name() == OURS;
    let alone = if is_ours {
        Cost { stamp_ns: costs.stamp_ns, record_ns: costs.record_ns }
    } else {
        Cost { stamp_ns: costs.bare_ns, record_ns: 0.0 }
    };
    let alone_ns = alone.total(&load);
    // One stamp and one record of the client lie outside all phases: half before, half after.
    let outside_ns = if is_ours { alone.stamp_ns + alone.record_ns } else { 0.0 };
    let cost_of = |it: &PhaseTrips| it.stamped_ns - it.plain_ns - outside_ns;
    let cost_ns = median(rounds.iter().map(cost_of)).unwrap_or(alone_ns).max(0.0);
    // In place a stamp costs more or less than alone; all stamps are scaled alike.
    let cost = alone.times(cost_ns / alone_ns.max(f64::MIN_POSITIVE));
    let sum_of = |it: &PhaseTrips| phase_math::middle(&it.cuts).iter().sum::<f64>();
    // A round compares with itself: the machine changes until the next one.
    let off_of = |it: &PhaseTrips| phase_math::off(sum_of(it), it.plain_ns + cost_of(it));
    let off = median(rounds.iter().map(off_of)).unwrap_or(f64::INFINITY);
    let mut by_sum: Vec<(f64, &PhaseTrips)> = rounds.iter().map(|it| (sum_of(it), it)).collect();
    by_sum.sort_by(|a, b| a.0.total_cmp(&b.0));
    // The parts of the median round add up.
    let (sum_ns, middle) =
        by_sum.get(by_sum.len() / 2).map_or((0.0, &[][..]), |(sum, it)| (*sum, &it.cuts));
    PhaseRecord {
        mechanism: cell.subject.name().into(),
        message: carries(cell).name().into(),
        bytes: cell.load.bytes,
        placement: cell.placement,
        wait: cell.wait,
        experiment: cell.experiment.map(|(experiment, _)| experiment.into()),
        variant: cell.experiment.map(|(_, variant)| variant.into()),
        trips: rounds.iter().map(|it| it.cuts.len() as u64).sum(),
        rounds: u32::try_from(rounds.len()).unwrap_or(u32::MAX),
        total_ns: tenth(median(rounds.iter().map(|it| it.plain_ns)).unwrap_or(0.0)),
        sum_ns: tenth(sum_ns),
        stamp_ns: tenth(cost.stamp_ns),
        stamps: load.iter().map(|(stamps, _)| stamps).sum(),
        cost_ns: tenth(cost_ns),
        alone_ns: tenth(alone_ns),
        off: (off * 1e4).round() / 1e4,
        holds: off.abs() <= TOLERANCE,
        phases: phase_math::times(middle, &load, cost, |part| is_visible(cell, part)),
    }
}

const fn carries(cell: &Cell) -> Carries {
    match cell.load.test {
        Test::Phases { carries, .. } => carries,
        _ => Carries::Nothing,
    }
}
