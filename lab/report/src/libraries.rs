//! m3ipc beside other libraries, like with like: one line per piece of work.
//!
//! A line compares one wait mode of each: both spin, both sleep in the kernel, or the default
//! (m3ipc `adaptive`; a library as its examples use it). A dash marks what a library lacks.

use crate::names::{LEFT, UNTOLD};
use crate::results::{Results, Row};
use crate::schema::{Family, Placement, Wait};
use crate::text::{Table, or_dash, time};

/// The figure that a line compares; less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Time of a round trip, or from a death to the error.
    Time,
    /// CPU time per trip, of both sides with all their threads.
    Cpu,
    /// Voluntary context switches per trip, of both sides.
    Switches,
}

impl Figure {
    /// The figure of this row.
    #[must_use]
    pub fn of(self, row: &Row) -> f64 {
        match self {
            Self::Time => row.trip_ns(),
            Self::Cpu => row.record.cpu_ns_per_op,
            Self::Switches => row.switches_per_op,
        }
    }

    fn text(self, row: &Row) -> String {
        if self == Self::Switches { format!("{:.2}", self.of(row)) } else { time(self.of(row)) }
    }
}

/// One piece of work; `waits` are those of m3ipc and of the libraries.
struct Work {
    what: &'static str,
    test: &'static str,
    placement: Placement,
    waits: (Wait, Wait),
    figure: Figure,
}

const SPIN: (Wait, Wait) = (Wait::Spin, Wait::Spin);
const BLOCK: (Wait, Wait) = (Wait::Block, Wait::Block);
const DEFAULT: (Wait, Wait) = (Wait::Adaptive, Wait::Block);

const fn work(
    what: &'static str,
    test: &'static str,
    placement: Placement,
    waits: (Wait, Wait),
    figure: Figure,
) -> Work {
    Work { what, test, placement, waits, figure }
}

const WORKS: [Work; 12] = {
    use Figure::{Cpu, Switches, Time};
    use Placement::{Any, SameCpu, TwoCpus};
    [
        work("IPC2, two CPUs, both spin", "ipc2", TwoCpus, SPIN, Time),
        work("IPC2, two CPUs, default (m3ipc adaptive)", "ipc2", TwoCpus, DEFAULT, Time),
        work("IPC2, two CPUs, both block", "ipc2", TwoCpus, BLOCK, Time),
        work("IPC2, any CPU, default", "pairs", Any, DEFAULT, Time),
        work("IPC2, one CPU, both yield", "ipc2", SameCpu, (Wait::Adaptive, Wait::Yield), Time),
        work("IPC2, one CPU, both block", "ipc2", SameCpu, BLOCK, Time),
        work("IPC2 to a sleeping server, two CPUs", "ipc2-paced", TwoCpus, DEFAULT, Time),
        work("CPU time a trip, two CPUs, default", "ipc2", TwoCpus, DEFAULT, Cpu),
        work("CPU time a trip, two CPUs, both block", "ipc2", TwoCpus, BLOCK, Cpu),
        work("switches a trip, two CPUs, both block", "ipc2", TwoCpus, BLOCK, Switches),
        work("kill -9 of the server to its client's error", "death", TwoCpus, DEFAULT, Time),
        work("both sides started anew, to the first answer", "restart", TwoCpus, DEFAULT, Time),
    ]
};

impl Work {
    /// The rows of this work. A machine of one CPU measures deaths and restarts anywhere.
    fn rows<'a>(&'a self, results: &'a Results) -> impl Iterator<Item = &'a Row> {
        results.of_test(self.test).filter(|row| {
            let anywhere = ["death", "restart"].contains(&self.test);
            row.record.pairs == 1 && (anywhere || row.record.placement == self.placement)
        })
    }
}

/// The entry of one library in a line.
pub struct Entry<'a> {
    /// The library.
    pub name: &'a str,
    /// Its row, if it has one.
    pub row: Option<&'a Row>,
    /// The text in place of a row.
    pub instead: &'static str,
}

/// One piece of work with the rows that compare.
pub struct Line<'a> {
    /// The work.
    pub what: &'static str,
    /// The figure of the rows.
    pub figure: Figure,
    /// The row of m3ipc.
    pub ours: &'a Row,
    /// One entry per library.
    pub theirs: Vec<Entry<'a>>,
}

/// The rank of m3ipc in a line.
#[derive(Clone, Debug, PartialEq)]
pub enum Rank<'a> {
    /// No library does this work.
    Alone,
    /// m3ipc is first: the next library, and the ratio of its figure to that of m3ipc.
    First(&'a str, f64),
    /// A library is first: its name, and the ratio of the figure of m3ipc to its figure.
    Behind(&'a str, f64),
}

impl<'a> Line<'a> {
    /// The rank of m3ipc.
    #[must_use]
    pub fn rank(&self) -> Rank<'a> {
        let figures = self.theirs.iter().filter_map(|it| Some((it.name, self.figure.of(it.row?))));
        let Some((name, best)) = figures.min_by(|a, b| a.1.total_cmp(&b.1)) else {
            return Rank::Alone;
        };
        let (ours, least) = (self.figure.of(self.ours), f64::MIN_POSITIVE);
        if ours <= best {
            Rank::First(name, best / ours.max(least))
        } else {
            Rank::Behind(name, ours / best.max(least))
        }
    }
}

impl Rank<'_> {
    fn text(&self) -> String {
        match self {
            Self::Alone => "m3ipc alone".into(),
            Self::First(name, ratio) => format!("m3ipc first, {name} {ratio:.2} x its figure"),
            Self::Behind(name, ratio) => format!("m3ipc NOT first: {ratio:.2} x {name}"),
        }
    }
}

/// The lines for which this run measured both m3ipc and a library.
#[must_use]
pub fn lines(results: &Results) -> Vec<Line<'_>> {
    WORKS.iter().filter_map(|work| line(results, work)).collect()
}

fn line<'a>(results: &'a Results, work: &'static Work) -> Option<Line<'a>> {
    let is_ours = |row: &&Row| row.family == Family::Ours && row.record.wait == work.waits.0;
    let ours = work.rows(results).find(is_ours)?;
    let entry = |name: &'a str| {
        let is_it = |row: &&Row| {
            row.family == Family::Peer
                && row.record.mechanism == name
                && row.record.wait == work.waits.1
        };
        let mut untold =
            results.counts.iter().filter(|it| it.test == UNTOLD && it.mechanism == name);
        let is_untold = work.test == "death" && untold.next().is_some();
        let instead = if is_untold { "not told" } else { "-" };
        Entry { name, row: work.rows(results).find(is_it), instead }
    };
    let theirs: Vec<Entry<'a>> = results.libraries.iter().map(|(name, _)| entry(name)).collect();
    let some = theirs.iter().any(|it| it.row.is_some() || it.instead != "-");
    some.then_some(Line { what: work.what, figure: work.figure, ours, theirs })
}

/// The table for a terminal; empty if the run has no library.
#[must_use]
pub fn text(results: &Results) -> String {
    let lines = lines(results);
    if lines.is_empty() {
        return String::new();
    }
    let names = || results.libraries.iter().map(|(name, _)| name.as_str());
    let heads: Vec<&str> = ["work", "m3ipc"].into_iter().chain(names()).chain([""]).collect();
    let mut table = Table::new(&heads);
    for line in &lines {
        let mut cells = vec![line.what.to_owned(), line.figure.text(line.ours)];
        let shown = |it: &Entry<'_>| it.row.map_or(it.instead.into(), |row| line.figure.text(row));
        cells.extend(line.theirs.iter().map(shown));
        cells.push(line.rank().text());
        table.row(cells);
    }
    if results.counts.iter().any(|count| count.test == LEFT) {
        let left = |name| or_dash(results.left_behind(name), |value| format!("{value:.0}"));
        let mut cells = vec!["names left behind by a kill -9".to_owned(), left("m3ipc")];
        cells.extend(names().map(left));
        cells.push(String::new());
        table.row(cells);
    }
    format!(
        "\nbeside other libraries: medians; same work, payload, placement and wait mode\n{}",
        table.text()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::schema::Count;

    fn row(mechanism: &str, family: Family, wait: Wait, ns: u64) -> Row {
        fixture::row("ipc2", mechanism, family, Placement::TwoCpus, wait, ns)
    }

    fn results(theirs: u64) -> Results {
        Results {
            rows: vec![
                row("m3ipc", Family::Ours, Wait::Spin, 2_000),
                row("iceoryx2", Family::Peer, Wait::Spin, theirs),
                row("zeromq", Family::Peer, Wait::Block, 90_000),
            ],
            libraries: ["iceoryx2", "zeromq"].map(|name| (name.into(), "1".into())).to_vec(),
            ..Results::default()
        }
    }

    #[test]
    fn only_equal_wait_modes_compare_and_a_slower_m3ipc_is_named() {
        let first = results(3_000);
        let found = lines(&first);
        assert_eq!(found.len(), 1, "m3ipc was measured spinning only");
        assert_eq!(found[0].rank(), Rank::First("iceoryx2", 1.5));
        let behind = text(&results(1_000));
        assert!(behind.contains("m3ipc NOT first: 2.00 x iceoryx2"), "{behind}");
    }

    #[test]
    fn a_run_without_libraries_has_no_table_and_a_silent_death_is_named() {
        assert_eq!(text(&Results::default()), "");
        let mut results = results(3_000);
        let mut death = row("m3ipc", Family::Ours, Wait::Adaptive, 100_000);
        death.record.test = "death".into();
        results.rows = vec![death];
        results.counts = vec![Count {
            test: UNTOLD.into(),
            mechanism: "zeromq".into(),
            what: "waited".into(),
            value: 3.0,
            unit: "s".into(),
        }];
        assert!(text(&results).contains("not told"), "{}", text(&results));
    }
}
