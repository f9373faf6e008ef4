//! The table of phases for people.

use super::measure::Costs;
use super::record::PhaseRecord;
use crate::report::{Table, size, time};

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

/// All rows, what the experiments say, and whether the sums hold.
#[must_use]
pub fn table(records: &[PhaseRecord], costs: &Costs) -> String {
    let mut table = Table::new(&HEADS);
    for record in records.iter().filter(|record| record.experiment.is_none()) {
        table.row(row(record));
    }
    let mut text = String::new();
    if records.iter().any(|record| record.experiment.is_none()) {
        text = format!(
            "\nphases of a round trip, request and answer together\n{}{LEGEND}",
            table.text()
        );
    }
    text += &experiments(records);
    text + &verdict(records, costs)
}

fn row(record: &PhaseRecord) -> Vec<String> {
    let shown =
        |phase: &str| if record.has(phase) { time(record.phase_ns(phase)) } else { "in T5".into() };
    let part = |name: &str| {
        let found = record.phases.iter().find(|time| time.part == name);
        found
            .filter(|time| time.cut && time.ns > 0.0)
            .map_or_else(|| "-".into(), |found| time(found.ns))
    };
    vec![
        record.mechanism.clone(),
        record.message.clone(),
        size(record.bytes),
        record.placement.to_string(),
        record.wait.to_string(),
        shown("T1"),
        shown("T2"),
        shown("T3"),
        shown("T4"),
        shown("T5"),
        part("publish to wake"),
        part("wake to run"),
        part("run to read"),
        shown("server"),
        time(record.total_ns),
        time(record.cost_ns),
        time(record.alone_ns),
        format!("{:+.1} %", record.off * 100.0),
        if record.holds { String::new() } else { format!("<- beyond 5 %: {}", record.why()) },
    ]
}

const LEGEND: &str = "\
T1 prepare, T2 deliver, T3 find, T4 copy and sender, T5 both switches (to wake, to run, to read), server its own work;\n\
means of the middle half of the trips, less the stamps' cost. total is measured without stamps, in turn with trips that have them; stamps is how\n\
much longer those take by the client's clock, alone what as many stamps take in a loop by themselves; off is how far the sum of the stamped\n\
phases is from total and stamps. \"in T5\": inside the kernel, where no stamp of ours stands.\n";

/// What each experiment found: the phase it is about and the whole.
fn experiments(records: &[PhaseRecord]) -> String {
    let mut table =
        Table::new(&["experiment", "choice", "T3", "T4", "T5", "total", "of the other"]);
    let mut found = false;
    for pair in
        records.iter().filter(|record| record.experiment.is_some()).collect::<Vec<_>>().chunks(2)
    {
        let [first, second] = pair else { continue };
        found = true;
        for (record, other) in [(first, second), (second, first)] {
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
    if !found {
        return String::new();
    }
    format!(
        "\nwhich software choices pay (repeat one: m3 bench phases --experiment sender, copy or switch)\n{}",
        table.text()
    )
}

fn verdict(records: &[PhaseRecord], costs: &Costs) -> String {
    let holds = records.iter().filter(|record| record.holds).count();
    let worst = records.iter().max_by(|a, b| a.off.abs().total_cmp(&b.off.abs()));
    let worst = worst.map_or_else(String::new, |record| {
        format!(
            "; furthest: {} {} {} {}, {:.1} %: {} stamped, {} without and {} stated for {:.0} stamps",
            record.mechanism,
            record.message,
            record.placement,
            record.wait,
            record.off * 100.0,
            time(record.sum_ns),
            time(record.total_ns),
            time(record.cost_ns),
            record.stamps,
        )
    });
    format!(
        "\na stamp in the library's path costs {}, a record {}, a bare stamp {}\n\
         the sum of the phases is within 5 % of the total without stamps and their stated cost in {holds} of {} rows{worst}\n",
        time(costs.ours.stamp_ns),
        time(costs.ours.record_ns),
        time(costs.bare_ns),
        records.len(),
    )
}
