//! Round trips cut into the phases of the M3K and Fiasco study: the text table.

pub use crate::phase_record::{PHASES, PhaseRecord, PhaseTime};
use crate::text::{Table, or_dash, size, time};

impl PhaseRecord {
    fn part(&self, name: &str) -> String {
        let found = self.phases.iter().find(|time| time.part == name);
        or_dash(found.filter(|time| time.cut && time.ns > 0.0), |found| time(found.ns))
    }

    fn row(&self) -> Vec<String> {
        let phase = |name: &str| {
            if self.has(name) { time(self.phase_ns(name)) } else { "in T5".into() }
        };
        let beyond = || format!("<- beyond 5 %: {}", self.why());
        vec![
            self.mechanism.clone(),
            self.message.clone(),
            size(self.bytes),
            self.placement.to_string(),
            self.wait.to_string(),
            phase("T1"),
            phase("T2"),
            phase("T3"),
            phase("T4"),
            phase("T5"),
            self.part("publish to wake"),
            self.part("wake to run"),
            self.part("run to read"),
            phase("server"),
            time(self.total_ns),
            time(self.cost_ns),
            time(self.alone_ns),
            format!("{:+.1} %", self.off * 100.0),
            if self.holds { String::new() } else { beyond() },
        ]
    }
}

/// The cost of a stamp, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct StampCosts {
    /// On the path of the library.
    pub stamp_ns: f64,
    /// Of a record on that path.
    pub record_ns: f64,
    /// Into a local variable.
    pub bare_ns: f64,
}

const HEADS: [&str; 19] = [
    "mechanism",
    "message",
    "bytes",
    "placement",
    "wait",
    "T1",
    "T2",
    "T3",
    "T4",
    "T5",
    "to wake",
    "to run",
    "to read",
    "server",
    "total",
    "stamps",
    "alone",
    "off",
    "",
];

const LEGEND: &str = "\
T1 prepare, T2 deliver, T3 find, T4 copy and sender, T5 both switches (to wake, to run, to read),\n\
server its own work: means of the middle half of the trips, less the stamps' cost. total has no\n\
stamps and takes turns with stamped trips. stamps: their extra time by the client's clock; alone:\n\
as many stamps in a loop. off: distance of the stamped sum from total plus stamps. \"in T5\":\n\
inside the kernel, out of sight of our stamps.\n";

/// The rows, the experiments, and whether the sums hold.
#[must_use]
pub fn text(records: &[PhaseRecord], costs: StampCosts) -> String {
    let mut table = Table::new(&HEADS);
    let plain: Vec<&PhaseRecord> = records.iter().filter(|it| it.experiment.is_none()).collect();
    plain.iter().for_each(|record| table.row(record.row()));
    let rows = match plain.len() {
        0 => String::new(),
        _ => format!(
            "\nphases of a round trip, request and answer together\n{}{LEGEND}",
            table.text()
        ),
    };
    rows + &experiments(records) + &verdict(records, costs)
}

/// Each experiment: the phases that it is about, and the whole trip.
fn experiments(records: &[PhaseRecord]) -> String {
    let heads = ["experiment", "choice", "T3", "T4", "T5", "total", "of the other"];
    let mut table = Table::new(&heads);
    let tried: Vec<&PhaseRecord> = records.iter().filter(|it| it.experiment.is_some()).collect();
    for pair in tried.chunks_exact(2) {
        for (record, other) in [(pair[0], pair[1]), (pair[1], pair[0])] {
            table.row(vec![
                record.experiment.clone().unwrap_or_default(),
                record.variant.clone().unwrap_or_default(),
                time(record.phase_ns("T3")),
                time(record.phase_ns("T4")),
                time(record.phase_ns("T5")),
                time(record.total_ns),
                format!("{:.2} x", record.total_ns / other.total_ns.max(1.0)),
            ]);
        }
    }
    if tried.len() < 2 {
        return String::new();
    }
    format!(
        "\nwhich software choices pay \
         (repeat one: m3 bench phases --experiment sender, copy or switch)\n{}",
        table.text()
    )
}

fn verdict(records: &[PhaseRecord], costs: StampCosts) -> String {
    let holds = records.iter().filter(|record| record.holds).count();
    let worst = records.iter().max_by(|a, b| a.off.abs().total_cmp(&b.off.abs()));
    let worst = worst.map_or_else(String::new, |it| {
        format!(
            "; furthest: {} {} {} {}, {:.1} %: {} stamped, {} without, {} cost of {:.0} stamps",
            it.mechanism,
            it.message,
            it.placement,
            it.wait,
            it.off * 100.0,
            time(it.sum_ns),
            time(it.total_ns),
            time(it.cost_ns),
            it.stamps,
        )
    });
    format!(
        "\na stamp on the library's path costs {}, a record {}, a bare stamp {}\n\
         the sum of the phases is within 5 % of the total plus the stamps' cost \
         in {holds} of {} rows{worst}\n",
        time(costs.stamp_ns),
        time(costs.record_ns),
        time(costs.bare_ns),
        records.len(),
    )
}
