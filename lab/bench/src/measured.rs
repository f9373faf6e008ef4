//! The figures of one cell in one round.

use m3ipc_report::schema::Round;
use m3ipc_report::stats::median;

use crate::job::Report;
use crate::phase_math::Cut;
use crate::samples::Samples;

/// The figures of one cell in one round.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// The round, as in the JSON.
    pub round: Round,
    /// Trips inside the windows.
    pub trips: u64,
    /// Times of a second kind: of binds, or to the first answer.
    pub second: Vec<(u64, u64)>,
    /// The phases of the trips, if they were cut.
    pub phases: Option<PhaseTrips>,
}

/// The trips of one run that stamps have cut, in nanoseconds.
#[derive(Clone, Debug)]
pub struct PhaseTrips {
    /// Mean of the trips without stamps, by the client's clock.
    pub plain_ns: f64,
    /// Mean of the trips with stamps, by the same clock.
    pub stamped_ns: f64,
    /// The parts of each trip, by the stamps of both sides.
    pub cuts: Vec<Cut>,
}

impl Measured {
    /// The figures of these clients, with the resources of all other processes.
    pub fn of<'a>(
        clients: impl Iterator<Item = &'a Report>,
        others: impl Iterator<Item = &'a Report>,
    ) -> Self {
        let (mut found, mut samples, mut second) =
            (Self::default(), Samples::default(), Samples::default());
        let (mut trips, mut cpu_ns, mut switches, mut blocks) = (0, 0, 0, vec![]);
        let mut bells: Option<u64> = None;
        for report in clients {
            samples.merge(&report.samples);
            second.merge(&report.second);
            blocks.extend_from_slice(&report.blocks_ns);
            found.round.per_s += report.window_trips as f64 * 1e9 / report.window_ns.max(1) as f64;
            found.trips += report.window_trips;
            trips += report.trips;
            cpu_ns += report.cpu_ns;
            switches += report.switches;
            bells = bells.or(report.bells.map(|_| 0)).map(|it| it + report.bells.unwrap_or(0));
        }
        for report in others {
            cpu_ns += report.cpu_ns;
            switches += report.switches;
            bells = bells.or(report.bells.map(|_| 0)).map(|it| it + report.bells.unwrap_or(0));
        }
        let trips = trips.max(1) as f64;
        found.round.block_ns = median(blocks);
        found.round.cpu_ns_per_op = cpu_ns as f64 / trips;
        found.round.switches_per_op = switches as f64 / trips;
        found.round.bells_per_op = bells.map(|bells| bells as f64 / trips);
        found.round.samples = samples.pairs();
        found.second = second.pairs();
        found
    }

    /// Times alone, without rates and costs.
    pub fn of_times(samples: Vec<(u64, u64)>, second: Vec<(u64, u64)>) -> Self {
        Self { round: Round { samples, ..Round::default() }, second, ..Self::default() }
    }
}
